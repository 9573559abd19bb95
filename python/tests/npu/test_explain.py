# SPDX-License-Identifier: Apache-2.0
"""`anyop npu explain`: which operators a program asks for, and which are missing."""

from __future__ import annotations

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
