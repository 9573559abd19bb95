# SPDX-License-Identifier: Apache-2.0
"""Without the compiled adapter no tensor of a device is taken, and each call says so. In processes
of their own, since a process has one route."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each starts a process
START = """
import far_torch
far_torch.start()
import anyop, torch
assert anyop.torch.status().route == "python route"

def has_kernels(name):
    keys = "CUDA", "PrivateUse1", "XPU"
    return [torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys]

def text(call):
    try:
        call()
    except NotImplementedError as error:
        return str(error)

assert not any(has_kernels("anyop::rms_norm"))
assert text(lambda: torch.ops.anyop.rms_norm(torch.ones(2, 8, device="far"))).startswith("Could")
anyop.load(far_torch.LIBRARY)
x, y, on = torch.ones(2, 8), torch.ones(2, 8), torch.ones(2, 8, device="far:1")
"""
WITHOUT_ADAPTER = """
import os, pathlib
from anyop.hosting import build
build.prebuilt = lambda name, version: pathlib.Path("nowhere")
os.environ["CXX"] = "no-such-compiler"
import torch
del os.environ["CXX"]  # the device for tests is compiled
"""
ASKED = (
    "because only the compiled adapter for torch takes tensors of devices, and "
    "ANYOP_TORCH=python leaves it out. Try ANYOP_TORCH=auto, which builds it if need be."
)


def run(program: str, before: str = "", **env: str) -> list[str]:
    command = [sys.executable, "-c", before + START + program]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), **env}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_tensor_of_a_device_is_refused_with_the_way_to_the_adapter() -> None:
    lines = run(
        """
twice = anyop.define("twice(x: f32[n]) -> (y: f32[n])", library="late")(lambda x: x * 2)
calls = [
    lambda: anyop.rms_norm(on),
    lambda: anyop.rms_norm(x, on[0]),
    lambda: torch.ops.anyop.rms_norm(on.clone().requires_grad_()),
    lambda: torch.ops.anyop.rms_norm.out(x, x[0], out=on),
    lambda: torch.ops.anyop.add_rms_norm.out(x, x, x[0], out_y=y, out_sum=on),
    lambda: torch.ops.anyop.add_(on, on),
    lambda: torch.func.vmap(anyop.rms_norm)(on),
    lambda: torch.compile(anyop.rms_norm, backend="anyop")(on),
    lambda: torch.ops.late.twice(on[0]),
]
for call in calls:
    print(text(call))
print(sum(map(sum, map(has_kernels, ("anyop::rms_norm", "anyop::rms_norm_", "late::twice.out")))))
print(anyop.rms_norm(x, x[0]).device, anyop.rotary_cache(4, 8, like=torch).device)
""",
        ANYOP_TORCH="python",
    )
    named = [
        *("rms_norm: x", "rms_norm: weight", "rms_norm: x", "rms_norm: out"),
        *("add_rms_norm: out_sum", "add: x", "rms_norm: x", "rms_norm: x", "late.twice: x"),
    ]
    assert lines[:-2] == [f"{name} is on far:1, but must be on cpu, {ASKED}" for name in named]
    assert lines[-2:] == ["9", "cpu cpu"]


def test_an_adapter_that_cannot_be_built_says_why() -> None:
    lines = run("print(text(lambda: anyop.rms_norm(on)))", WITHOUT_ADAPTER, ANYOP_TORCH="auto")
    assert lines == [
        "rms_norm: x is on far:1, but must be on cpu, because only the compiled adapter for torch "
        "takes tensors of devices, and it is not there: CXX is no-such-compiler, which is not "
        "there to build with. Try installing g++."
    ]
