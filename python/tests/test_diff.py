# SPDX-License-Identifier: Apache-2.0
"""`anyop diff`: what two builds of a library differ in, and the version that asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from anyop._inline import FLAGS
from anyop._packages import data_root
from anyop.cli import builds

SOURCE = """
#include "anyop/op.h"
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, double by, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto from = x.row<const float>(r);
    for (std::size_t i = 0; i < from.size(); ++i) y.row<float>(r)[i] = from[i] * %(value)s + by;
  });
}
constexpr Kernel kF32{.name = "%(kernel)s", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};
}
extern constinit const Op plus{
    .signature = "plus(x: f32[..., d], by: float%(default)s) -> (y: f32[..., d]) %(where)s",
    .kernels = kKernels,
};
}
"""
USUAL = {"value": "1", "kernel": "cpu_f32", "default": " = 1.0", "where": ""}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Builds by name."""
    root = tmp_path_factory.mktemp("builds")
    changes: dict[str, dict[str, str]] = {
        "old": {},
        "numbers": {"value": "1.25f", "kernel": "cpu_other"},
        "refuses": {"where": "where d >= 2", "default": ""},
    }
    return {name: build(root / name, **change) for name, change in changes.items()}


def build(folder: Path, **changes: str) -> Path:
    folder.mkdir()
    (folder / "plus.cc").write_text(SOURCE % {**USUAL, **changes})
    table, library = folder / "table.cc", folder / "my_ops.so"
    subprocess.run(
        [sys.executable, str(data_root() / "tools" / "list_ops.py"), "--name", "my_ops",
         "--folder", str(folder), "--output", str(table)], check=True,
    )  # fmt: skip
    subprocess.run(
        [os.environ.get("CXX", "c++"), *FLAGS, f"-I{data_root() / 'include'}",
         str(folder / "plus.cc"), str(table), "-o", str(library)], check=True,
    )  # fmt: skip
    return library


def wheel(library: Path, version: str, folder: Path) -> Path:
    path = folder / f"my_ops-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.write(library, "my_ops/my_ops.so")
        file.writestr("my_ops/__init__.py", "")
    return path


def diff(*words: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "anyop", "diff", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status < 2 and done.stdout else done.stderr


def test_equal_builds_may_keep_their_version(made: dict[str, Path]) -> None:
    told = diff(made["old"], made["old"], "--no-speed")
    assert told == "No difference but speed: 0.0.0 may stay the version.\n"


def test_other_results_and_kernels(made: dict[str, Path], tmp_path: Path) -> None:
    old = wheel(made["old"], "1.2.3", tmp_path)
    told = diff(old, wheel(made["numbers"], "1.3.0", tmp_path)).splitlines()
    assert told[0] == "minor: adds, or changes results"
    assert told[1].startswith("  my_ops.plus: has other results in ")
    assert "the largest difference is 0." in told[1] and "my_ops.plus(x = f32[" in told[1]
    assert told[2:5] == [
        "patch: changes nothing for callers",
        "  my_ops.plus: lost kernel cpu_f32",
        "  my_ops.plus: has the new kernel cpu_other",
    ]
    assert told[-1] == "1.2.3 -> 1.3.0 at least (minor); 1.3.0 is enough."
    assert diff(old, wheel(made["numbers"], "1.2.4", tmp_path), "--no-speed", status=1).endswith(
        "1.2.3 -> 1.3.0 at least (minor); 1.2.4 is too low.\n"
    )


def test_calls_that_the_new_build_refuses(made: dict[str, Path], tmp_path: Path) -> None:
    old, new = wheel(made["old"], "1.2.3", tmp_path), wheel(made["refuses"], "2.0.0", tmp_path)
    told: dict[str, Any] = json.loads(diff(old, new, "--no-speed", "--json"))
    assert (told["needs"], told["least_version"], told["is_enough"]) == ("major", "2.0.0", True)
    texts = [d["text"] for d in told["differences"]]
    assert "by must be given now" in texts
    (refused,) = (t for t in texts if t.startswith("refuses my_ops.plus(x = f32["))
    assert refused.endswith("my_ops.plus: d >= 2 must hold, but d is 1 (x is f32[1]).") or (
        "my_ops.plus: d >= 2 must hold, but d is " in refused
    )


def test_recorded_calls_are_compared(made: dict[str, Path], tmp_path: Path) -> None:
    program = (
        f"import anyop, numpy as np\nplus = anyop.load({str(made['old'])!r}).plus\n"
        "plus(np.ones(3, np.float32))"
    )
    subprocess.run(
        [sys.executable, "-m", "anyop", "run", "--record", str(tmp_path / "calls"), "--",
         sys.executable, "-c", program], check=True,
    )  # fmt: skip
    words = ("--no-speed", "--calls", tmp_path / "calls", "--json")
    told = json.loads(diff(made["old"], made["numbers"], *words, status=1))
    assert [d["text"] for d in told["differences"] if d["needs"] == "minor"] == [
        "has other results in 1 calls; the largest difference is 0.12 of the result's largest "
        "element: my_ops.plus(x = f32[3], by = 1.0)"
    ]


def test_what_is_no_wheel_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("no")
    assert diff(tmp_path / "x.whl", tmp_path / "x.whl", status=1) == (
        f"diff: {tmp_path / 'x.whl'} is no wheel. Try dist/NAME.whl of anyop wheel, or a library "
        "(.so).\n"
    )
    empty = tmp_path / "empty-1.0-py3-none-any.whl"
    with zipfile.ZipFile(empty, "w") as file:
        file.writestr("empty/__init__.py", "")
    assert diff(empty, empty, status=1) == f"diff: {empty} holds no library of operators.\n"


@pytest.mark.parametrize(
    ("version", "needs", "least"),
    [
        ("1.2.3", "major", "2.0.0"), ("1.2.3", "minor", "1.3.0"), ("1.2.3", "patch", "1.2.4"),
        ("0.2.3", "major", "0.3.0"), ("0.2.3", "minor", "0.2.4"), ("1.2", "patch", "1.2.1"),
    ],
)  # fmt: skip
def test_versions(version: str, needs: str, least: str) -> None:
    assert builds.next_version(version, needs) == least
    assert builds.is_enough(least, least) and not builds.is_enough(version, least)


def changed(**changes: Any) -> list[tuple[str, str]]:
    """What a change of the parameter p says."""
    old = {"name": "p", "kind": "int", "default": "1", "required": False, "mut": False,
           "dense": False, "words": []}  # fmt: skip
    info = {"results": [], "gradient": None, "kernels": [], "signature": "op()"}
    params = changes.pop("params", None) or [{**old, **changes}]
    found = builds.contracts({"op": {**info, "params": [old]}}, {"op": {**info, "params": params}})
    return [(d.needs, d.text) for d in found]


def test_changes_of_parameters() -> None:
    q = {"name": "q", "kind": "int", "default": "", "required": True, "mut": False, "dense": False,
         "words": []}  # fmt: skip
    p = {**q, "name": "p", "default": "1", "required": False}
    assert changed() == []
    assert changed(kind="float") == [("major", "p is float in place of int")]
    assert changed(planned=True) == [("major", "p is planned")]
    assert changed(default="2") == [("major", "p is 2 by default, was 1")]
    assert changed(params=[p, q]) == [
        ("major", "has the new parameter q, which every call must give")
    ]
    assert changed(params=[p, {**q, "required": False}]) == [("minor", "has the new parameter q")]
    assert changed(params=[{**q, "required": False}, p])[1:] == [
        ("major", "has its parameters in another order")
    ]
    assert builds.contracts({"a": {}}, {"b": {}}) == [
        builds.Difference("major", "a", "is gone"), builds.Difference("minor", "b", "is new"),
    ]  # fmt: skip
