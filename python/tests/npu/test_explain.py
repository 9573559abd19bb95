# SPDX-License-Identifier: Apache-2.0
"""`anyop npu explain`: which operators a program asks for, and which are missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """\
import sys
import torch, torch_npu
x = torch.ones(2, 4, device="npu")
torch_npu.npu_format_cast(x, 2)
print((x + 1).sum().item(), sys.argv[1:], flush=True)
if len(sys.argv) > 1:
    torch_npu.npu_anchor_response_flags(torch.ones(2, 4, device="npu"), [60, 60], [2, 2], 9)
"""


def explain(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words = [sys.executable, "-m", "anyop", "npu", "explain", program, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_operators_that_are_there(tmp_path: Path) -> None:
    ran = explain(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[:2] == ["16.0 []", "operators beyond torch's own:"]
    assert "npu::npu_format_cast" in ran.stdout and ran.stdout.endswith("  there\n")


def test_operator_that_is_missing(tmp_path: Path) -> None:
    ran = explain(tmp_path, "--more")
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert lines[0] == "16.0 ['--more']"
    assert lines[2].split()[:3] == ["npu::npu_anchor_response_flags", "1", "missing:"]
    assert lines[2].endswith("is not supported.")
    assert lines[-1].startswith("the program stopped: RuntimeError: virtual NPU: ")


def anyop(*words: str, **settings: str) -> str:
    command = [sys.executable, "-m", "anyop", *words]
    env = {**os.environ, **settings}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout


def test_explain_of_a_call_on_the_device() -> None:
    told = anyop("explain", "rms_norm", "--shape", "x=f32[2,8] weight=f32[8]", "--device", "npu")
    assert "cpu" in told and "taken" in told


def test_doctor_knows_it() -> None:
    on = json.loads(anyop("doctor", "--quick", "--json"))
    row = next(f for f in on["frameworks"] if f["name"] == "torch_npu")
    assert row["status"] == "on the virtual NPU: 2 Ascend910B3"
    assert [d["device"] for d in on["devices"]] == ["npu:0", "npu:1"]
    off = json.loads(anyop("doctor", "--quick", "--json", ANYOP_NPU=""))
    row = next(f for f in off["frameworks"] if f["name"] == "torch_npu")
    assert row["status"] == "the virtual NPU is off: ANYOP_NPU is empty"
