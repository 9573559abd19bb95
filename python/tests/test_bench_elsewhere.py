# SPDX-License-Identifier: Apache-2.0
"""Opponents in an interpreter of their own: `anyop bench opponents`, and their rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyop
import ml_dtypes
import numpy as np
import pytest
from anyop.bench import _elsewhere, interpreters, measure
from anyop.bench._elsewhere import Elsewhere, RemoteContender
from anyop.bench.interpreters import Opponent
from anyop.cli import app
from click.testing import CliRunner, Result

SIDE = """
import numpy as np
class Side:
    def __init__(self): self.count = 0
    def about(self): return {"plain": "1.0"}
    def set_threads(self, count): self.count = count
    def array(self, stored, dtype):
        if dtype == "bf16": return (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.copy()
    def to_numpy(self, value): return np.asarray(value, np.float64)
"""
FUNCTIONS = """
import os
import numpy as np
def twice(side, a):
    print("libraries print")
    out = np.empty_like(a.x)
    return (lambda: np.multiply(a.x, 2, out=out)), out
def returned(side, a):
    return (lambda: a.pair[0] + a.pair[1] * a.factor), None
def wrong(side, a):
    return (lambda: a.x * 3), None
def failing(side, a):
    raise ValueError("no kernel for this")
def dying(side, a):
    os._exit(7)
def threads(side, a):
    return (lambda: np.full(3, side.count)), None
def add(first, second):
    return first + second
"""
CASES = """
from functools import partial
import anyop, numpy as np
from anyop.bench import Case, normal

def cases():
    x = normal((4, 64))
    for function in ("twice", "wrong", "failing", "dying"):
        yield Case(
            function,
            {"x": x, "y": np.empty_like(x)},
            ours=lambda a: partial(anyop.add, a.x, a.x, out=a.y),
            others={"plain": function},
            moved=2 * x.nbytes,
        )
"""


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An opponent that this very environment has."""
    side = tmp_path / "side.py"
    side.write_text(SIDE)
    made = Opponent("plain", "NumPy elsewhere", (("--no-such-option",),), "no time", side=side)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(interpreters.OPPONENTS, "plain", made)
    monkeypatch.setattr(measure, "ROUNDS", 2)
    monkeypatch.setattr(measure, "ROUND_S", 1e-5)
    made.use(Path(sys.prefix) / "bin" / "python")
    yield made
    if running := Elsewhere._running.pop("plain", None):
        running.stop()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "case" / "bench_plain.py"
    path.parent.mkdir()
    path.write_text(FUNCTIONS)
    path.with_name("bench.py").write_text(CASES)
    return path


def bench(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, args)])


def test_results_come_back_for_arrays_of_all_kinds(plain: Opponent, file: Path) -> None:
    x = np.arange(6, dtype=ml_dtypes.bfloat16).reshape(2, 3)
    arrays = {"x": x, "pair": (np.ones(3, np.int64), np.arange(3)), "factor": 5}
    for function, want in (("twice", 2.0 * x), ("returned", 1 + 5 * np.arange(3))):
        contender = RemoteContender("plain", file, function, arrays, 3, 1e-5)
        assert np.array_equal(contender.result(), want.astype(np.float64))
        for is_cold in (False, True):
            contender.warm_up(is_cold)
            contender.round(is_cold)
        assert len(contender.seconds) == 2 and min(contender.seconds) > 0


def test_the_number_of_threads_is_ours(plain: Opponent, file: Path) -> None:
    threads = anyop.get_num_threads()
    try:
        for count in (1, threads):
            anyop.set_num_threads(count)
            contender = RemoteContender("plain", file, "threads", {}, 1, 1e-5)
            assert contender.result()[0] == count
    finally:
        anyop.set_num_threads(threads)


def test_functions_answer_in_json(plain: Opponent, file: Path) -> None:
    assert Elsewhere.of("plain").call(file, "add", first=2, second=3) == 5


def test_what_fails_over_there_is_told_and_the_rest_goes_on(plain: Opponent, file: Path) -> None:
    done = bench("ops", "--folder", file.parent.parent, "--against", "plain", "--json")
    assert done.exit_code == 1  # for the wrong result
    twice, wrong, failing, dying = json.loads(done.stdout)["rows"]
    assert twice["timings"]["plain"]["matches"] and not wrong["timings"]["plain"]["matches"]
    assert failing["note"] == "plain: ValueError: no kernel for this"
    assert dying["note"].startswith("plain ended with status 7")
    assert "plain" not in failing["timings"] | dying["timings"]


def test_what_is_not_installed_says_how(plain: Opponent, file: Path) -> None:
    assert bench("opponents", "--remove", "vllm").exit_code == 0
    done = bench("ops", "--folder", file.parent.parent, "--against", "vllm")
    text = "vllm is not installed. Try: anyop bench opponents --install vllm"
    assert text in str(done.exception)
    told = {o["name"]: o for o in json.loads(bench("opponents", "--json").stdout)}
    assert told["plain"]["installed"] == "plain 1.0" and told["vllm"]["installed"] == ""


def test_an_installation_that_fails_names_its_log_and_leaves_nothing_installed(
    plain: Opponent,
) -> None:
    with pytest.raises(anyop.NotAvailable, match=r"plain cannot be installed: .*install\.log"):
        plain.install(lambda line: None)
    assert not plain.is_installed and (plain.folder / "install.log").exists()


def test_an_environment_without_it_is_not_taken(plain: Opponent, tmp_path: Path) -> None:
    assert plain.side
    plain.side.write_text("import a_module_that_nobody_has")
    with pytest.raises(anyop.NotAvailable, match="No module named 'a_module_that_nobody_has'"):
        plain.use(Path(sys.prefix) / "bin" / "python")
    assert not plain.is_installed
    with pytest.raises(anyop.InvalidArgument, match="is not the interpreter of a virtual"):
        plain.use(tmp_path / "bin" / "python")
    assert "no opponent is called 'vlm'" in bench("opponents", "--use", "vlm", "x").output


def test_raw_numbers_keep_their_dtype() -> None:
    kept: dict[str, np.ndarray] = {}
    x = np.ones(2, ml_dtypes.float8_e4m3fn)
    assert _elsewhere._laid_out([x, "word"], kept) == [{"array": "a0", "dtype": "f8e4m3"}, "word"]
    assert kept["a0"].dtype == np.uint8
