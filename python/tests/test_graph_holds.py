# SPDX-License-Identifier: Apache-2.0
"""What a graph holds of the caller's: its state, the type of what is returned, names."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from test_graph_errors import check

MOVED = (
    ": the state {} was resized or given other memory or another form, but a graph keeps what it "
    "was made with. Try making the graph again."
)


def test_state_that_is_resized_is_noticed() -> None:
    base = np.ones(64, np.float32)
    view = base[:4]
    g = anyop.graph(lambda x: anyop.add(x, view), "f32[4]", state={"v": view}, name="g")
    g(np.ones(4, np.float32))
    with pytest.raises(ValueError, match="cannot resize an array that references"):
        base.resize(1 << 20)
    again = anyop.Graph.parse(str(g), {"v": view}, name="again")
    outer = anyop.graph(lambda x: g(x), "f32[4]", name="outer")
    base.resize(1 << 20, refcheck=False)
    for graph in (g, again, outer):
        name = graph.name
        check(lambda g=graph: g(np.ones(4, np.float32)), ValueError, name + MOVED.format("v"))


def test_resized_state_is_neither_shown_nor_saved(tmp_path: Path) -> None:
    base = np.ones(64, np.float32)
    g = anyop.graph(lambda x: anyop.add(x, base), "f32[64]", state={"v": base}, name="g")
    assert g.state["v"].tolist() == base.tolist()
    base.resize(1 << 20, refcheck=False)
    text = "g" + MOVED.format("v")
    for call in (
        lambda: g.state,
        lambda: g.save(str(tmp_path / "g.anyop")),
        lambda: anyop.save_graphs(tmp_path / "g.anyop", {"other": g}),
        lambda: g.profile(np.ones(64, np.float32)),
        lambda: anyop.graph(lambda x: g(x), "f32[64]", name="outer"),
    ):
        check(call, ValueError, text)
    assert not (tmp_path / "g.anyop").exists()


@pytest.mark.parametrize("is_frozen", [False, True])
def test_state_that_is_resized_before_the_graph_is_made_is_noticed(is_frozen: bool) -> None:
    weight = np.ones((64, 64), np.float32)

    def resizes(x: Any) -> Any:
        y = anyop.linear(x, weight)
        weight.resize((512, 512), refcheck=False)
        return y

    given = {"frozen" if is_frozen else "state": {"w": weight}}
    text = "resizes" + MOVED.format("w")
    check(lambda: anyop.graph(resizes, "f32[n, 64]", **given), ValueError, text)  # type: ignore[arg-type]


def test_state_that_shrinks_where_it_lies_is_noticed() -> None:
    base = np.ones(64, np.float32)
    g = anyop.graph(lambda x: anyop.add(x, base), "f32[64]", state={"v": base}, name="g")
    before = base.ctypes.data
    base.resize(60, refcheck=False)
    assert base.ctypes.data == before  # malloc leaves it there
    check(lambda: g(np.ones(64, np.float32)), ValueError, "g" + MOVED.format("v"))


def test_a_tensor_whose_storage_shrinks_is_noticed() -> None:
    torch = pytest.importorskip("torch")
    n = 10_000_000
    base, x = torch.ones(n), torch.ones(n)
    g = anyop.graph(lambda x: anyop.add(x, base), f"f32[{n}]", state={"v": base}, name="g")
    before = base.untyped_storage().data_ptr()
    for fewer in range(1, 21):  # where it lies is the allocator's choice
        base.untyped_storage().resize_(4 * (n - fewer))
        if base.untyped_storage().data_ptr() == before:
            break
    else:
        pytest.skip("the allocator never gave the tensor its first place again")
    check(lambda: g(x), ValueError, "g" + MOVED.format("v"))


Pair = namedtuple("Pair", ["low", "high"])


class PairWithMore(Pair):
    """Has a dictionary, and code of its own."""

    def __new__(cls, both: Any) -> PairWithMore:
        return super().__new__(cls, both, anyop.add(both, both))

    def total(self) -> Any:
        return self.low + self.high


class Odd(tuple):  # type: ignore[type-arg]
    _fields = ("only",)


class Odder(tuple):  # type: ignore[type-arg]
    _fields = (1, 2)


def test_subclasses_of_tuples_are_returned_as_such() -> None:
    g = anyop.graph(lambda x: PairWithMore(anyop.softmax(x)), "f32[n]")
    for _ in range(3):
        pair = g(np.zeros(2, np.float32))
        assert type(pair) is PairWithMore
        assert pair.total().tolist() == [1.5, 1.5]
        pair.note = "kept"
        assert pair.__dict__ == {"note": "kept"}
    assert list(g.outputs) == ["low", "high"]
    nested = anyop.graph(lambda x: PairWithMore(anyop.add(*g(x))), "f32[n]")
    assert nested(np.zeros(2, np.float32)).low.tolist() == [1.5, 1.5]
    for kind in (Odd, Odder):
        odd = anyop.graph(lambda x, k=kind: k([anyop.softmax(x), anyop.add(x, x)]), "f32[n]")
        assert type(odd(np.zeros(2, np.float32))) is kind
        assert list(odd.outputs) == ["out0", "out1"]


def test_tuples_with_hidden_items_are_refused() -> None:
    def program(x: Any) -> Any:
        return os.stat_result([anyop.softmax(x)] * 10)

    check(
        lambda: anyop.graph(program, "f32[n]"),
        TypeError,
        "program: the function returns a os.stat_result, but must return a tensor, or a tuple, "
        "list or named tuple of tensors.",
    )


def test_names_that_utf8_does_not_hold_are_refused(tmp_path: Path) -> None:
    text = " is '\\udcff', but must be a text that UTF-8 has codes for, without a null character."
    g = anyop.graph(lambda x: anyop.softmax(x), "f32[n]", name="g")
    bad = "\udcff"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: anyop.graph(anyop.softmax, "f32[n]", name=bad), "the name of the graph"),
        (lambda: anyop.graph(anyop.softmax, bad, name="g"), "g: the type of x"),
        (lambda: anyop.Graph.parse(bad), "Graph.parse: the text"),
        (lambda: anyop.Graph.parse(str(g), {}, bad), "Graph.parse: the name"),
        (lambda: anyop.define(bad, lambda x: x), "define: the signature"),
        (lambda: anyop.set_policy(bad), "policy"),
    ]
    for call, what in calls:
        check(call, ValueError, what + text)
    g.save(os.fsencode(tmp_path) + b"/\xff.anyop")
    again = anyop.load_graph(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.anyop"))
    assert str(again) == str(g)
    number: Any = 3
    check(lambda: g.save(number), TypeError, "save: path is 3, but must be a path.")
    check(lambda: anyop.load_graph(number), TypeError, "load: path is 3, but must be a path.")


def test_a_state_that_is_dropped_lives_on() -> None:
    weights = [np.full(4, 2, np.float32)]
    g = anyop.graph(lambda x: anyop.add(x, weights[0]), "f32[4]")
    weights.clear()
    np.testing.assert_array_equal(g(np.ones(4, np.float32)), np.full(4, 3, np.float32))
