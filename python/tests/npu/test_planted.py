# SPDX-License-Identifier: Apache-2.0
"""Ten programs of each kind of defect (planted.py): how many are caught, and no twin of any."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("planted.py")
# Of ten programs, how many must be caught: with `delay` a race shows in almost each run, but on a
# machine with other work not in each.
CAUGHT = {"event": 9, "copy": 9, "freed": 9, "host": 10}


@pytest.mark.parametrize("kind", CAUGHT)
def test_defects_show_and_right_programs_do_not(kind: str) -> None:
    ran = subprocess.run(
        [sys.executable, PROGRAM, kind], env={**os.environ, "ANYOP_NPU": "protect,delay"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert len(rows) == 10
    assert [name for _, name, _, without in rows if without] == []
    missed = [name for _, name, with_defect, _ in rows if not with_defect]
    assert len(rows) - len(missed) >= CAUGHT[kind], missed
