# SPDX-License-Identifier: Apache-2.0
"""The code of docs/mindspore.md runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_example_runs() -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "mindspore_decoder.py"
    run = [sys.executable, str(example)]
    done = subprocess.run(run, capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.splitlines() == [*(f"token {i}: True" for i in range(3)), "(16,)"]
