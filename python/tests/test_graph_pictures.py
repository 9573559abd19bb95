# SPDX-License-Identifier: Apache-2.0
"""Graphs as rows, pictures and profiles."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import anyop
import numpy as np
import pytest
from anyop.cli import graph_arena, graph_page, graph_times, narrow, profiles
from anyop.cli.graph_draw import Drawing, shown_bytes
from anyop.cli.graph_rows import Picture, loops, make_picture
from anyop.cli.profiles import NOT_MEASURED

D, TURNS = 64, 6
RANDOM = np.random.default_rng(4)
WEIGHTS = [RANDOM.standard_normal((2 * D, D), np.float32) for _ in range(TURNS)]
SHARED = np.ones(D, np.float32)


def layers(x: Any, eps: Any) -> Any:
    first = x = anyop.softmax(x)
    for weight in WEIGHTS:
        y = anyop.rms_norm(x, SHARED, eps)
        x = anyop.silu_and_mul(anyop.linear(y, weight))
    return anyop.add(x, first), x


def picture(profiled: bool = False, **sizes: int) -> Picture:
    g = anyop.graph(layers, "f32[n, 64]", "float")
    given = np.ones((sizes.get("n", 8), D), np.float32), 0.5
    return make_picture(g, sizes, profiles.measure(g, given, 3) if profiled else NOT_MEASURED)


def test_a_loop_is_found_by_its_turns() -> None:
    found = [(b.begin, b.end, b.turn, b.turns) for b in loops("xyabcabcabcabcz")]
    assert found == [
        (0, 2, 0, 0), (2, 5, 1, 4), (5, 8, 2, 4), (8, 11, 3, 4), (11, 14, 4, 4), (14, 15, 0, 0),
    ]  # fmt: skip
    assert [(b.begin, b.end) for b in loops("abcdefgh")] == [(0, 8)]
    assert [(b.begin, b.end) for b in loops("")] == []
    assert [b.turns for b in loops("aaaaaaaabbbbbbbbcc")] == [8] * 8 + [8] * 8 + [0]
    covered = [i for b in loops("qabababababazcdcdcdcdcd") for i in range(b.begin, b.end)]
    assert covered == list(range(23))


def test_rows_are_inputs_nodes_and_outputs_in_order() -> None:
    p = picture()
    assert [r.kind for r in p.rows] == ["input"] * 2 + ["node"] * (2 + 3 * TURNS) + ["output"] * 2
    assert p.rows[2].op == "anyop.softmax"
    assert [b.turn for b in p.blocks] == [0, 0, *range(1, TURNS + 1), 0, 0]
    ends = [b.end for b in p.blocks]
    assert [b.begin for b in p.blocks] == [0, *ends[:-1]]
    assert ends[-1] == len(p.rows)


def test_lanes_go_from_the_row_that_makes_a_value_to_its_last_use() -> None:
    p = picture()
    lanes = {p.values[lane.value]["name"]: lane for lane in p.lanes}
    assert (lanes["x"].first, lanes["x"].is_bound) == (0, False)
    eps, shared = lanes["eps"], lanes["weight"]
    assert eps.first == 1
    assert shared.is_bound  # all layers use it, and it begins at the first that does
    assert shared.first == 3
    assert shared.last == eps.last == 3 + 3 * (TURNS - 1)
    assert not any(name.startswith("weight_") for name in lanes)  # used once: told in the row
    for a in p.lanes:
        for b in p.lanes:
            apart = a.last <= b.first or b.last <= a.first
            assert a is b or a.column != b.column or apart


def test_memory_lies_within_its_rows_and_bytes() -> None:
    p = picture(n=32)
    assert p.spans
    assert p.memory["bound_bytes"] <= p.memory["peak_bytes"]
    for s in p.spans:
        assert 2 <= s.first <= s.last < len(p.rows) - 2
        assert s.offset + s.bytes <= p.memory["peak_bytes"]
        for t in p.spans:
            together = s.first <= t.last and t.first <= s.last
            apart = s.offset + s.bytes <= t.offset or t.offset + t.bytes <= s.offset
            in_place = s.last == t.first or t.last == s.first
            assert s is t or not together or apart or in_place
    row, most = p.fullest()
    assert most > 0
    assert p.rows[row].kind == "node"


def test_the_svg_shows_every_node_line_shape_and_buffer() -> None:
    p = picture(n=32)
    text = graph_page.svg(p)
    ElementTree.fromstring(text)
    assert "n = 32" in text
    assert "lower bound" in text
    line = layers.__code__.co_firstlineno
    for k in (1, 3, 4, 5):
        assert text.count(f">test_graph_pictures.py:{line + k}</text>") == 1
    assert "turn 2 of 6: 3 nodes" in text
    assert " f32[n, 64]</tspan>" in text
    assert text.count('class="mem') >= len(p.spans)
    for s in p.spans:
        assert f"at offset {s.offset}" in text


def test_boxes_of_memory_lie_at_their_offsets() -> None:
    p = picture(n=32)
    drawing = Drawing(p)
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for b in p.blocks:
        for text in drawing.memory(b.begin, b.end, 0, 1):
            box = re.search(r'x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', text)
            told = re.search(r"at offset (\d+), rows (\d+) to (\d+)", text)
            if not box or not told:
                continue
            x, _, width, height = map(float, box.groups())
            offset, first, last = map(int, told.groups())
            assert 0 < height <= last - first + 1
            found[offset, first] = x - drawing.memory_x, width
    scale = drawing.memory_width / p.memory["peak_bytes"]
    assert len(found) >= len(p.spans) - 1
    for s in p.spans:
        x, width = found[s.offset, s.first + 1]
        assert x == pytest.approx(s.offset * scale, abs=0.02)
        assert x + width <= drawing.memory_width + 0.5


def test_times_are_those_of_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    g = anyop.graph(layers, "f32[n, 64]", "float")
    measured = profiles.measure(g, (np.ones((8, D), np.float32), 0.5), 3)
    p = make_picture(g, {"n": 8}, replace(measured, call_ns=1234567.0))
    assert [r.ns for r in p.nodes] == [t["ns_min"] for t in measured.nodes]
    assert sum(share for *_, share in graph_page.by_operator(p)) == pytest.approx(1)
    for k, row in enumerate(p.nodes):
        row.ns = 1000.0 * (k + 1)
    graph_times.show(p)
    shown = capsys.readouterr().out
    assert "in 20 nodes; a call 1.23 ms" in shown
    assert re.findall(r" (\d+) us ", shown)[:4] == ["210", "20", "19", "18"]  # the sum first
    assert "8 more nodes: 36 us" in shown


def test_nodes_that_run_in_one_pass_have_a_bracket() -> None:
    def rows(x: Any, y: Any) -> Any:
        return anyop.add(anyop.sigmoid(anyop.mul(anyop.softmax(x), y)), x)

    g = anyop.graph(rows, "f32[n, 512]", "f32[n, 512]")
    assert not make_picture(g, {"n": 2}).regions
    largest = anyop._anyop.machine()["cache_bytes"].get("L3", 0)
    n = max(20000, largest // 2048)  # rows that no cache holds
    p = make_picture(g, {"n": n})
    assert [p.rows[r].kind for region in p.regions for r in (region.first, region.last)] == [
        "node", "node",
    ]  # fmt: skip
    text = graph_page.svg(p)
    assert text.count('class="region"') == 1
    assert f"{p.regions[0].last - p.regions[0].first + 1} nodes in one pass: {n} rows, " in text
    shared = [s for s in p.spans if s.value < 0 and s.first < s.last]
    assert [(s.first, s.last) for s in shared] == [(r.first, r.last) for r in p.regions]
    assert "memory of a region&#x27;s threads" in text or "memory of a region's threads" in text


def test_without_sizes_there_is_no_memory() -> None:
    text = graph_page.svg(picture())
    assert 'class="mem' not in text
    assert "peak" not in text


class Reader(HTMLParser):
    """Finds what a page asks for from elsewhere, and tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elsewhere: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elsewhere += [k for k, _ in attrs if k in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass


def test_the_page_needs_nothing_beside_itself() -> None:
    page = graph_page.html(picture(profiled=True, n=32))
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    assert not reader.elsewhere
    assert not re.search(r"@import|url\(|https?://", page)
    assert page.count("<details") == TURNS + 1  # and the operators
    assert page.count("<details open") == 1


def words(svg: str) -> list[tuple[float, float, float, str]]:
    """Of each text: where it begins and ends, its line, what it says."""
    found = []
    for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        said = "".join(t for part in text.iter() for t in ([part.text] if part.text else [])
                       if not part.tag.endswith("title")).strip()  # fmt: skip
        x, width = float(text.attrib["x"]), len(said) * 6.62
        begin = x - width if text.get("text-anchor") == "end" else x
        found.append((begin, begin + width, float(text.attrib["y"]), said))
    return found


@pytest.mark.parametrize("draw", [graph_page.narrow, graph_arena.arena, graph_arena.times])
def test_a_phone_shows_a_narrow_picture_whole(draw: Any) -> None:
    """No text is cut at its edge or covers another."""
    svg = draw(picture(profiled=True, n=32))
    root = ElementTree.fromstring(svg)
    wide = float(root.attrib["width"])
    assert wide <= narrow.WIDTH + 8
    texts = [word for word in words(svg) if word[3]]
    assert len(texts) > 10
    for begin, end, _, said in texts:
        assert begin >= 0 and end <= wide + 1, said
    for i, one in enumerate(texts):
        for other in texts[i + 1 :]:
            is_beside = one[1] <= other[0] + 1 or other[1] <= one[0] + 1
            assert is_beside or abs(one[2] - other[2]) >= 9, (one, other)


def test_the_picture_of_memory_has_a_box_for_each_place() -> None:
    p = picture(n=32)
    svg = graph_arena.arena(p)
    boxes = re.findall(r"<title>(\w+), ([^<]*) at offset (\d+), rows (\d+) to (\d+)</title>", svg)
    assert sorted((int(at), int(first), int(last)) for _, _, at, first, last in boxes) == sorted(
        (s.offset, s.first + 1, s.last + 1) for s in p.spans
    )
    for key in ("peak_bytes", "bound_bytes", "unshared_bytes"):
        assert f">{shown_bytes(p.memory[key])}</text>" in svg


def test_the_picture_of_times_has_those_of_the_longest_calls() -> None:
    p = picture(profiled=True, n=8)
    assert p.measured_on and p.measured_on in graph_arena.times(p).replace("\n", " ")
    many = replace(p, rows=[replace(row) for row in p.rows * 3])
    svg = graph_arena.times(many)
    assert svg.count('class="bar"') == graph_arena.MOST_TIMES
    assert f"{len(many.nodes) - graph_arena.MOST_TIMES} more: " in svg


def test_a_long_graph_has_thin_rows_of_memory() -> None:
    p = picture(n=8)
    many = replace(p, rows=p.rows * 3)
    assert float(ElementTree.fromstring(graph_arena.arena(many)).attrib["height"]) < 500


def test_names_are_escaped() -> None:
    p = picture(n=4)
    p.name = "<b>&"
    assert "&lt;b&gt;&amp;" in graph_page.svg(p)
    assert "<b>&" not in graph_page.html(p)


def test_a_graph_of_nothing_is_drawn() -> None:
    p = make_picture(anyop.graph(lambda x: x, "f32[3]"), {})
    ElementTree.fromstring(graph_page.svg(p))
    assert "<svg" in graph_page.html(p)


def test_many_inputs_and_outputs_have_no_rows() -> None:
    many: Any = lambda *xs: tuple(anyop.add(x, xs[0]) for x in xs)  # noqa: E731
    p = make_picture(anyop.graph(many, *["f32[3]"] * 20), {})
    assert {r.kind for r in p.rows} == {"node"}
    ElementTree.fromstring(graph_page.svg(p))


def test_a_profile_tells_time_kernel_and_costs_of_each_node() -> None:
    g = anyop.graph(layers, "f32[n, 64]", "float")
    rows = g.profile(np.ones((16, D), np.float32), eps=0.5, repeats=3)
    assert len(rows) == 2 + 3 * TURNS
    assert all(0 < r.ns_min <= r.ns_median for r in rows)
    assert sum(r.share for r in rows) == pytest.approx(1)
    linear = next(r for r in rows if r.op == "anyop.linear")
    assert linear.flops == 2 * 16 * D * 2 * D
    assert linear.bytes >= 4 * (2 * D * D + 3 * 16 * D)
    assert linear.kernel in {k.kernel for k in anyop.explain("linear", SHARED, WEIGHTS[0]).kernels}
    assert linear.place.startswith("test_graph_pictures.py:")
    with pytest.raises(ValueError, match="layers: repeats is 0, but must be a whole number from 1"):
        g.profile(np.ones((16, D), np.float32), 0.5, repeats=0)
    with pytest.raises(TypeError, match="layers: eps is missing."):
        g.profile(np.ones((16, D), np.float32))
    with pytest.raises(
        ValueError, match=re.escape("layers: x is f32[64], but must be f32[n, 64].")
    ):
        g.profile(np.ones(D, np.float32), 0.5)


def test_a_profile_changes_state_as_calls_do() -> None:
    seen = np.zeros(4, np.float32)
    g = anyop.graph(lambda x: anyop.add(seen, x, out=seen), "f32[4]")
    g.profile(np.ones(4, np.float32), repeats=4)
    assert seen.tolist() == [5.0] * 4  # one replay warms up


def test_a_description_tells_values_and_nodes() -> None:
    g = anyop.graph(layers, "f32[n, 64]", "float")
    told = json.loads(g.describe())
    kinds = {v["name"]: v["kind"] for v in told["values"]}
    assert kinds["x"] == "input"
    assert kinds["eps"] == "number"
    assert kinds["weight"] == "state"
    assert "memory" not in told
    sized = json.loads(g.describe(n=3))
    assert next(v for v in sized["values"] if v["name"] == "x")["at"] == "f32[3, 64]"
    assert {n["kernel"] for n in sized["nodes"]}
    assert sized["memory"]["peak_bytes"] == g.memory(n=3).peak_bytes
    with pytest.raises(TypeError, match="layers: unknown size 'm'. The graph has n."):
        g.describe(n=1, m=2)
