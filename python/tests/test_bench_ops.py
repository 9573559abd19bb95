# SPDX-License-Identifier: Apache-2.0
"""`anyop bench ops | compare | plot`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop.bench import interpreters, measure, runs
from anyop.bench.commands import ops as bench_ops
from anyop.cli import app
from click.testing import CliRunner, Result

CASES = """
from functools import partial
import anyop, numpy as np
from anyop.bench import Case, each_dtype, normal

def cases():
    for name, dtype in each_dtype():
        x = normal((4, 64), dtype)
        yield Case(
            f"{name}[4, 64]",
            {"x": x, "y": np.empty_like(x)},
            ours=lambda a: partial(anyop.sigmoid, a.x, out=a.y),
            numpy=lambda a: lambda: (1 / (1 + np.exp(-a.x))) * FACTOR,
            moved=2 * x.nbytes,
            flops=x.size,
        )
"""
BUILT_IN = dict(bench_ops.case_files(None, ()))
SOME = list(BUILT_IN)[1::3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "right").mkdir()
    (tmp_path / "right" / "bench.py").write_text(CASES.replace("FACTOR", "1"))
    (tmp_path / "wrong").mkdir()
    (tmp_path / "wrong" / "bench.py").write_text(CASES.replace("FACTOR", "1.5"))
    return tmp_path


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ROUNDS", 2)
    monkeypatch.setattr(measure, "ROUND_S", 1e-5)


def bench(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, args)])


def test_a_call_from_cpp_takes_no_longer_than_one_from_python(folder: Path) -> None:
    """It is in the same unit: ten times as long in each of five runs is no noise."""
    for _ in range(5):
        done = bench("ops", "right", "--folder", folder, "--against", "", "--json")
        rows = [row["timings"]["anyop"] for row in json.loads(done.stdout)["rows"]]
        if all(row["from_cpp_us"] < 10 * row["best_us"] for row in rows):
            return
    raise AssertionError(rows)


def test_rows_tell_times_kernel_ceiling_and_match(folder: Path) -> None:
    done = bench("ops", "right", "--folder", folder, "--against", "numpy", "--json")
    assert done.exit_code == 0, done.output
    f32, bf16 = json.loads(done.stdout)["rows"]
    assert (f32["operator"], f32["sizes"], f32["cache"]) == ("right", "f32[4, 64]", "warm")
    assert (
        f32["kernel"].startswith("cpu") and 0 < f32["bound_us"] < f32["timings"]["anyop"]["best_us"]
    )
    for row in (f32, bf16):
        ours, theirs = row["timings"]["anyop"], row["timings"]["numpy"]
        assert 0 < ours["best_us"] <= ours["median_us"] and theirs["matches"]
        assert ours["from_cpp_us"] > 0


def test_a_call_that_makes_its_result_has_no_time_from_cpp(folder: Path) -> None:
    file = folder / "right" / "bench.py"
    file.write_text(file.read_text().replace(", out=a.y", ""))
    done = bench("ops", "right", "--folder", folder, "--against", "", "--json")
    assert json.loads(done.stdout)["rows"][0]["timings"]["anyop"]["from_cpp_us"] is None


def test_another_result_voids_the_row_and_fails(folder: Path) -> None:
    done = bench("ops", "wrong", "--folder", folder, "--against", "numpy")
    assert done.exit_code == 1
    assert "void" in done.output and "NO" in done.output


def test_arrays_of_a_contender_begin_with_a_cache_line() -> None:
    cases = list(bench_ops.load_cases("add", BUILT_IN["add"]))
    for case in (cases[1], cases[-2]):
        for name, array in vars(case.copies()).items():
            assert array.ctypes.data % 64 == 0
            assert array.dtype == case.arrays[name].dtype
            assert np.array_equal(array, case.arrays[name]) or name == "z"


def test_warm_copies_stay_in_the_cache_that_holds_one() -> None:
    levels = [("L1", 1000), ("L2", 10_000), ("DRAM", 100_000)]
    made = [{"level": name, "bytes": n, "threads": 1} for name, n in levels]
    for size, copies in (
        (1, 4),
        (500, 4),
        (501, 3),
        (2000, 1),
        (2001, 4),
        (11_000, 1),
        (20_001, 4),
    ):
        assert measure.warm_copies(size, {"bandwidths": made}, 1) == copies, size


def test_cold_caches_take_copies_that_no_cache_holds(folder: Path) -> None:
    done = bench("ops", "right", "--folder", folder, "--against", "", "--cache", "both", "--json")
    rows = json.loads(done.stdout)["rows"]
    assert [r["cache"] for r in rows] == ["warm", "cold"] * 2
    assert all(r["bound_by"] == "DRAM" for r in rows if r["cache"] == "cold")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("wrnog",), "no operator here has a bench called 'wrnog'. Did you mean 'wrong'?"),
        (("--against", "pytorch"), "no opponent is called 'pytorch'"),
        (("--threads", "0"), "0 is not in the range"),
    ],
)
def test_wrong_arguments(folder: Path, args: tuple[str, ...], text: str) -> None:
    done = bench("ops", "--folder", folder, *args)
    assert done.exit_code != 0
    assert text in done.output + str(done.exception)


def test_cases_are_read_where_torch_is_not_installed(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None;"
        "from anyop.bench.commands import ops as bench_ops;"
        "files = bench_ops.case_files(None, ['add*']);"
        "print(sum(1 for f in files for case in bench_ops.load_cases(*f)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(done.stdout or 0) > 8, done.stderr


def slower(
    run: dict[str, Any], factor: float, others: float = 1.0, rounds: float = 1.05
) -> dict[str, Any]:
    """A run of which ours and the opponent take so many times as long; rounds: median over best."""
    changed: dict[str, Any] = json.loads(json.dumps(run))
    for row in changed["rows"]:
        for name, by in (("anyop", factor), ("numpy", others)):
            timing = row["timings"][name]
            timing["best_us"] *= by
            timing["median_us"] = timing["best_us"] * rounds
    return changed


def test_runs_are_compared_beside_their_opponents(folder: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    assert (
        bench("ops", "right", "--folder", folder, "--against", "numpy", "--save", old).exit_code
        == 0
    )
    run = json.loads(old.read_text())
    old.write_text(json.dumps(slower(run, 1)))
    new.write_text(json.dumps(slower(run, 3)))
    assert bench("compare", old, new).exit_code == 0
    failed = bench("compare", old, new, "--fail", "10")
    assert failed.exit_code == 1 and "2 operators are more than 10 % slower" in failed.output
    assert "3.00" in failed.output
    for ours, numpy, rounds in (
        (3, 3, 1.05),  # a machine of a third of the speed
        (1, 0.5, 1.05),  # a faster NumPy
        (1.2, 1, 1.3),  # rounds that differ by more than the change
    ):
        new.write_text(json.dumps(slower(run, ours, numpy, rounds)))
        told = bench("compare", old, new, "--fail", "10")
        assert told.exit_code == 0 and told.output.count("same") == len(run["rows"]), told.output
    new.write_text(json.dumps(slower(run, 1.2)))
    assert bench("compare", old, new, "--fail", "10").exit_code == 1
    new.write_text(json.dumps(slower(run, 0.5)))
    faster = json.loads(bench("compare", old, new, "--json").output)["changes"]
    assert [round(c["factor"], 3) for c in faster] == [0.5] * len(run["rows"])
    run["rows"].pop()
    new.write_text(json.dumps(run))
    assert "only in one run: right bf16[4, 64] warm" in bench("compare", old, new).output


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 7}', "\x00\xff"])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(anyop.InvalidArgument, match=r"bench: .*run\.json"):
        runs.load(path)


def test_a_run_becomes_pictures(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    saved, pictures = tmp_path / "run.json", tmp_path / "pictures"
    bench("ops", "right", "--folder", folder, "--against", "numpy", "--save", saved)
    done = bench("plot", saved, pictures)
    assert done.exit_code == 0, done.output
    assert {p.name for p in pictures.iterdir()} >= {"bars.png", "bound.png"}
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures.glob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most_bytes", "most_cases"),
    [(1 << 18, 4), pytest.param(1 << 24, None, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SOME else pytest.mark.exhaustive) for n in BUILT_IN],
)
def test_every_contender_of_a_built_in_bench_agrees(
    name: str, most_bytes: int, most_cases: int | None
) -> None:
    """The smaller sizes; large ones are for benches."""
    cases = sorted(bench_ops.load_cases(name, BUILT_IN[name]), key=lambda c: c.array_bytes)
    small = [c for c in cases if c.array_bytes < most_bytes] or cases[:1]
    for case in small[:most_cases]:
        first, *others = measure.contenders(case, ("numpy", "torch"), 1)
        ours = first.result()
        for other in others:
            assert measure.agree(ours, other.result(), case.tolerance), (case.sizes, other.label)
        elsewhere, missing = measure.remote_contenders(case, interpreters.installed(), 1)
        assert not missing
        loose = case.tolerance if case.others_tolerance is None else case.others_tolerance
        for remote in elsewhere:
            assert measure.agree(ours, remote.result(), loose), (case.sizes, remote.label)
