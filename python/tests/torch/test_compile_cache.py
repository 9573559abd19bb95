# SPDX-License-Identifier: Apache-2.0
"""Inductor's caches on disk give no graph back that other operators were compiled into."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

PROGRAM = """
import sys, torch, anyop
from torch._dynamo.utils import counters
gradient = sys.argv[1]

@anyop.define(gradient + "(dy: T[n]) -> (dx: T[n]?) where T in f32")
def _(dy):
    return dy * float(sys.argv[2])

@anyop.define("twice(x: T[n]) -> (y: T[n]) where T in f32", gradient=gradient)
def twice(x):
    return x * 2

x = torch.ones(3, requires_grad=True)
# Of our operators alone, so that Inductor compiles no kernel of its own.
torch.compile(lambda x: twice(x), fullgraph=True)(x).backward(torch.ones(3))
print(x.grad[0].item(), counters["aot_autograd"]["autograd_cache_hit"])
"""


def run(folder: Path, *args: str) -> list[str]:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, *args]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout.split()


def test_another_gradient_is_compiled_anew(tmp_path: Path) -> None:
    assert run(tmp_path, "first_backward", "2") == ["2.0", "0"]
    assert run(tmp_path, "first_backward", "2") == ["2.0", "1"]  # the cache works
    assert run(tmp_path, "second_backward", "3") == ["3.0", "0"]
