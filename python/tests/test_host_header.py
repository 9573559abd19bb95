# SPDX-License-Identifier: Apache-2.0
"""anyop/host.h is C99 and needs no C++ ABI: programs of both kinds are built and run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import anyop
from checkout import ROOT

LIBRARIES = Path(anyop.__file__).parent


def built_and_run(tmp_path: Path, command: list[str], source: str) -> list[str]:
    """The lines that the program prints."""
    program = tmp_path / "program"
    strict = ["-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    link = [f"-L{LIBRARIES}", "-lanyop", f"-Wl,-rpath,{LIBRARIES}", "-o", str(program)]
    subprocess.run([*command, *strict, str(ROOT / source), *link], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_the_example_is_c99(tmp_path: Path) -> None:
    compiler = [os.environ.get("CC", "cc"), "-std=c99"]
    assert built_and_run(tmp_path, compiler, "examples/bound_call.c") == [
        "y has 2 dimensions, the last of size 4",
        "1.0000 1.0000",
        "anyop.call/1 anyop.rms_norm_backward(dy = f32, x = f32, weight = None, eps = 0.0, "
        "weight_offset = 0.0) -> dx, _ in batch_invariant",
        "  input 0 is the gradient of result 0",
        "  input 1 is input 0",
        "there is no operator 'anyop.rms_nom'. Did you mean 'rms_norm'?",
    ]


def test_a_file_of_the_old_abi_may_call(tmp_path: Path) -> None:
    compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0"]
    assert built_and_run(tmp_path, compiler, "tests/host/old_abi.cc") == [
        "x y -> z over 1, 32 bits",
        "11 22 33",
        "untouched",
        "1: add: 1 input and 1 result are given, but the bound call has 2 and 1.",
    ]
