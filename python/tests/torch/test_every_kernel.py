# SPDX-License-Identifier: Apache-2.0
"""Policies and ANYOP_ISA reach every kernel that this machine has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyop
import pytest
from generated import operators

AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
NEEDS = {
    (op, k["name"]): {n for n in k["needs"].split(",") if n}
    for op in operators()
    for k in anyop.info(op)["kernels"]
    if k["state"] == "available"
}


def run(*arguments: str, **environment: str) -> dict[tuple[str, str], str]:
    script = Path(__file__).with_name("every_kernel.py")
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return {(op, kernel): state for op in told for kernel, state in told[op].items()}


@pytest.mark.parametrize(
    ("isa", "has"),
    [
        pytest.param("native", None, id="native"),
        pytest.param("avx512", AVX512, id="avx512", marks=pytest.mark.exhaustive),
        pytest.param("avx2", AVX2, id="avx2"),
        pytest.param("portable", set(), id="portable", marks=pytest.mark.exhaustive),
    ],
)
def test_a_policy_reaches_every_kernel_within_the_instruction_set(
    isa: str, has: set[str] | None
) -> None:
    told = run(ANYOP_ISA=isa)
    wanted = {key for key, needs in NEEDS.items() if has is None or needs <= has}
    assert len(wanted) > 50
    assert {key: told[key] for key in wanted if told[key] != "ran"} == {}
    assert {key for key, state in told.items() if state == "ran"} == wanted


def test_the_environments_policy_reaches_every_operator() -> None:
    last = dict(list(NEEDS))  # of kernels of one operator the last
    told = run("--as-is", ANYOP_POLICY=",".join(f"{op}={kernel}" for op, kernel in last.items()))
    assert set(told) == set(last.items())
