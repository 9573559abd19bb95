# SPDX-License-Identifier: Apache-2.0
"""A slice of torch's own table of operators; opinfo.py --all runs all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("opinfo.py")


def test_every_tenth_entry_agrees_with_the_cpu() -> None:
    ran = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "entries agree with the CPU" in ran.stdout
