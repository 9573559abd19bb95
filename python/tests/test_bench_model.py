# SPDX-License-Identifier: Apache-2.0
"""`anyop bench model` with models of a few lines: what is timed, compared and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop.bench import models
from anyop.bench.commands import command
from anyop.bench.measure import Row
from click.testing import CliRunner

FOLDER = '''
import time
import numpy as np
from anyop.bench import ModelBench, Way

CLOSED, MADE = [], []

class Counts:
    """The likeliest token is the sum of all before it, and `off` more."""
    def __init__(self, seconds, off=0):
        self.seconds, self.off = seconds, off
        self.ids, self.length, self.read = [], 0, 0
    def reset(self):
        self.length = 0
    def forward(self, ids):
        time.sleep(self.seconds * len(ids))
        self.read += len(ids)
        self.ids[self.length : self.length + len(ids)] = [int(i) for i in ids]
        self.length += len(ids)
        logits = np.zeros((1, 97), np.float32)
        logits[0, (sum(self.ids[: self.length]) + self.off) % 97] = 1
        return logits

class Remote(Counts):
    """One of another process, of which the times are known."""
    def decode(self, prompt, ids):
        sums = np.cumsum([sum(prompt), *ids])[1:] % 97
        return [self.seconds] * len(ids), [int(s) + self.off for s in sums]
    def close(self):
        CLOSED.append(self)
    def prefill(self, prompt):
        return self.seconds * len(prompt)

def ways(asked):
    asked.note(f"making {asked.shape} for {asked.tokens}")
    for weights in asked.weights:
        for how in asked.ours:
            MADE.append(Counts(0))
            yield Way("anyop", how, weights, MADE[-1], moved=1000, flops=10, cache=4,
                      needed=1 << 20, grown=2 << 20)
        if "slow" in asked.opponents:
            yield Way("slow", "one setting", weights, Remote(8.0))
            yield Way("slow", "a better one", weights, Remote(4.0))
        if "wrong" in asked.opponents:
            yield Way("wrong", "", weights, Remote(4.0, 1))

bench = ModelBench("Counter", lambda: [3, 1], {"f32": "", "f64": ""}, {"here": ""},
                   {"slow": "", "wrong": "", "gone": "gone is not installed."},
                   ("f32", "here", "slow", "wrong", "gone"), ways,
                   {"small": "Small", "large": "Large"}, {"f32": "", "i4": ""})
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / f"counter_{tmp_path.name}").mkdir()
    made = tmp_path / f"counter_{tmp_path.name}"
    (made / "__init__.py").touch()
    (made / "bench.py").write_text(FOLDER)
    return made


def run(folder: Path, *arguments: str, exit_code: int = 0) -> Any:
    short = ("--rounds", "2", "--steps", "8", "--prefill", "6", "--threads", "1")
    done = CliRunner().invoke(command, ["model", str(folder), *short, *arguments])
    assert done.exit_code == exit_code, (done.output, done.exception)
    return done


def rows_of(folder: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    told = json.loads(run(folder, "--json", *arguments).stdout)
    return {row["sizes"]: row for row in told["rows"]}


def test_a_row_has_ours_and_the_best_setting_of_each_opponent(folder: Path) -> None:
    rows = rows_of(folder, "--against", "slow")
    assert list(rows) == ["decode f32, here", "prefill f32, here"]
    for row in rows.values():
        assert 0 < row["timings"]["anyop"]["best_us"] < 1e6
        assert row["timings"]["slow"]["best_us"] == pytest.approx(4e6)
    decode = rows["decode f32, here"]
    assert decode["bound_by"] == "DRAM" and decode["bound_us"] > 0
    assert rows["prefill f32, here"]["bound_by"] == "f32 fma"


def test_steps_after_a_context_read_the_rest_of_it_and_the_cache(folder: Path) -> None:
    rows = rows_of(folder, "--against", "slow", "--context", "2000,700")
    assert list(rows) == ["decode after 700 f32, here", "decode after 2000 f32, here"]
    moved = [row["moved"] for row in rows.values()]
    assert moved == [1000 + 4 * 700, 1000 + 4 * 2000]
    for row in rows.values():
        assert row["bound_by"] == "DRAM" and row["bound_us"] > 0
        assert row["timings"]["slow"]["matches"], "sums of the same tokens"
    (model,) = models.module_of(folder / "bench.py").MADE
    rounds, contexts, steps = 2, 2, 8
    assert model.read == 2000 + rounds * contexts * steps, "once"


def test_shapes_are_measured_one_after_the_other(folder: Path) -> None:
    chosen = ("--shape", "large,small", "--weights", "f32,i4", "--against", "slow")
    told = json.loads(run(folder, "--json", "--prefill", "0", *chosen).stdout)["rows"]
    assert [f"{row['operator']} {row['sizes']}" for row in told] == [
        f"{title} decode {weights}, here"
        for title in ("Large", "Small")
        for weights in ("f32", "i4")
    ]
    shown = run(folder, "--prefill", "0", *chosen).stdout
    assert "Large, Small, tokens per second" in shown and "GB/s" in shown
    assert "% of weights and cache, 1 MiB" in shown
    listed = run(folder, "--list").output
    assert "--shape" in listed and "Small" in listed


def test_a_model_of_another_process_is_closed(folder: Path) -> None:
    run(folder, "--against", "slow")
    closed = models.module_of(folder / "bench.py").CLOSED
    assert [model.seconds for model in closed] == [8.0, 4.0]


def test_a_model_that_says_other_things_is_void(folder: Path) -> None:
    told = json.loads(run(folder, "--json", exit_code=1).stdout)
    row = told["rows"][0]
    assert row["timings"]["slow"]["matches"] and not row["timings"]["wrong"]["matches"]
    assert "wrong, : 0%" in row["note"]
    shown = run(folder, exit_code=1).stdout
    assert "void" in shown and "NO" in shown


def test_what_runs_is_chosen_by_name(folder: Path) -> None:
    rows = rows_of(folder, "--weights", "f64", "--against", "none", "--prefill", "0")
    assert list(rows) == ["decode f64, here"]
    assert list(rows["decode f64, here"]["timings"]) == ["anyop"]
    assert "gone is not installed." in run(folder, "--against", "slow,gone").output
    listed = run(folder, "--list").output
    assert "gone is not installed." in listed and "if it is named" in listed


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--weights", "f23"), "no format of weights is called 'f23'. Did you mean 'f32'?"),
        (("--against", "sloww"), "no opponent is called 'sloww'. Did you mean 'slow'?"),
        (("--ours", "there"), "no way of ours is called 'there'."),
        (("--shape", "smal"), "no shape is called 'smal'. Did you mean 'small'?"),
    ],
)
def test_unknown_names_are_refused(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(command, ["model", str(folder), *arguments])
    assert isinstance(done.exception, anyop.InvalidArgument) and text in str(done.exception)


def test_a_folder_without_a_bench_is_refused(tmp_path: Path) -> None:
    with pytest.raises(anyop.InvalidArgument, match=r"has no bench.py. Try the folder of a model"):
        models.load(tmp_path)
    (tmp_path / f"{tmp_path.name}.py").write_text("bench = 1\n")
    with pytest.raises(anyop.InvalidArgument, match="defines no `bench`, a ModelBench"):
        models.load(tmp_path / f"{tmp_path.name}.py")


def test_wrong_thread_counts_are_refused(folder: Path) -> None:
    assert "must be numbers from 1 on" in run(folder, "--threads", "0", exit_code=2).output
    assert "must be numbers from 1 on" in run(folder, "--context", "-1", exit_code=2).output


def test_saved_runs_are_compared_and_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    saved, pictures = tmp_path / "run.json", tmp_path / "pictures"
    run(folder, "--against", "slow", "--save", str(saved), "--plot", str(pictures))
    assert (pictures / "tokens.png").stat().st_size > 1000
    compared = CliRunner().invoke(command, ["compare", str(saved), str(saved), "--fail", "1"])
    assert compared.exit_code == 0 and "Counter decode f32, here" in compared.output


def test_every_way_decodes_the_tokens_that_the_first_one_finds(folder: Path) -> None:
    seen: list[list[int]] = []

    class Listening:
        def decode(self, prompt: list[int], ids: list[int]) -> tuple[list[float], list[int]]:
            seen.append(ids)
            return [1.0] * len(ids), [*ids[1:], 0]

    bench = models.load(folder)
    asked = models.Asked(["f32"], ["here"], [], Path(), lambda text: None)
    ways = [*bench.ways(asked), models.Way("other", "", "f32", Listening())]
    level = {"level": "DRAM", "bytes": 1, "threads": 1, "read_gbs": 1.0, "copy_gbs": 1.0}
    rate = {"name": "f32 fma", "threads": 1, "gops": 1.0}
    ceilings = {"bandwidths": [level], "rates": [rate]}
    plan = models.Plan([1], steps=8, prefill=0, rounds=1)
    rows: list[Row] = models.measure(bench, ways, plan, ceilings)
    assert seen == [[4, 8, 16, 32, 64, 31, 62, 27]]  # sums of all before, modulo 97
    assert rows[0].bound_us == pytest.approx(1.0)  # 1000 bytes at 1 GB/s
    assert rows[0].ratio("other") is not None and np.isfinite(rows[0].ratio("other") or 0)


def test_a_way_that_only_decodes_is_not_alone() -> None:
    bench = models.ModelBench("", lambda: [1], {}, {}, {}, (), lambda asked: iter(()))
    way = models.Way("anyop", "program", "f32", object())
    with pytest.raises(anyop.InvalidArgument) as caught:
        models.measure(bench, [way], models.Plan([1]), {})
    assert str(caught.value) == (
        "bench: program only decodes tokens that it is given, but one way must choose them. Try "
        "one more, such as --ours captured."
    )
