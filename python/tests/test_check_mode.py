# SPDX-License-Identifier: Apache-2.0
"""ANYOP_CHECK=1, which is read when the first operator is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import ctypes
import anyop
import numpy as np

@anyop.define("poke(x: f32[n]) -> (y: f32[n])")
def poke(x):
    ctypes.cast(x.ctypes.data, ctypes.POINTER(ctypes.c_float))[0] = 7
    return x + 1

ones = np.ones(4, np.float32)
graph = anyop.graph(lambda x: anyop.add(poke(anyop.add(x, x)), x), "f32[n]")
sound = anyop.graph(lambda x: anyop.softmax(anyop.add(x, x)), "f32[n]")
assert (sound(ones) == 0.25).all()
for call in (poke, graph):
    try:
        call(ones)
        print("fine")
    except anyop.Error as e:
        first, file, *node = str(e).splitlines()
        print(first, *node, *ones, sep="\\n")
        assert file.startswith("  to repeat it: anyop replay --check /"), file
"""

DATA = """
import anyop
import numpy as np

key, cache = np.ones((2, 1, 1), np.float32), np.zeros((2, 2, 1, 1), np.float32)

def store(key, slots):
    anyop.reshape_and_cache(key, None, cache, None, slots)
    return anyop.add(key, key)

graph = anyop.graph(store, "f32[n, 1, 1]", "i64[n]", state={"cache": cache})
for slots in ([3, 3], [-1, -1], [3, 2]):
    for call in (store, graph):
        try:
            call(key, np.array(slots))
            print("fine")
        except ValueError as e:
            print(e, *cache.flat)
"""


def run(check: str, code: str = CODE) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "ANYOP_CHECK": check},
    )  # fmt: skip
    return done.stdout.splitlines()


def test_a_call_that_changes_its_argument_is_found() -> None:
    error = (
        "user.poke: the kernel cpu_python wrote its input x, f32[4], which the signature does not "
        "mark as `mut`; the caller's tensor is as it was. This is a defect of the operator. Please "
        "report it. [write-input]"
    )
    ones = ["1.0"] * 4
    node = "  in v2 = user.poke(v1), at <string>:12"
    assert run("1") == [error, *ones, error, node, *ones]


def test_data_that_make_no_sense_are_refused_before_anything_is_written() -> None:
    error = (
        "reshape_and_cache: slot_mapping[1] is 3, but must differ from slot_mapping[0], because a "
        "slot holds one row."
    )
    node = "  in anyop.reshape_and_cache(key, key_cache=cache, slot_mapping=slots), at <string>:8"
    zeros = " 0.0 0.0 0.0 0.0"
    assert run("1", DATA) == [error + zeros, error, node + zeros, *["fine"] * 4]


def test_nothing_is_checked_otherwise() -> None:
    assert run("0") == ["fine", "fine"]
    assert run("0", DATA) == ["fine"] * 6


def test_the_built_in_operators_are_sound(tmp_path: Path) -> None:
    """Generated calls of each, deeply checked: a finding would be a file."""
    code = (
        "from anyop import _anyop\n"
        "from anyop.cli import build_worker\n"
        "names = sorted(_anyop.functions())\n"
        "print(build_worker.generate(names), len(names))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "ANYOP_CHECK": "deep", "ANYOP_RECORD": str(tmp_path),
             "ANYOP_RECORD_CALLS": "1", "ANYOP_LOG": "none"},
    )  # fmt: skip
    calls, operators = map(int, done.stdout.split())
    assert calls > 7 * operators
    assert len(list(tmp_path.iterdir())) == 1, sorted(p.name for p in tmp_path.iterdir())
