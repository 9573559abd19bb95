# SPDX-License-Identifier: Apache-2.0
"""torch's own table of operators: a slice, and all of it."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))
import opinfo_device as table  # noqa: E402

PROGRAM = Path(__file__).with_name("opinfo.py")
PAGE = Path(__file__).parents[3] / "docs" / "npu.md"


def told(*words: str) -> str:
    ran = subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_tenth_entry_agrees_with_the_cpu() -> None:
    assert "entries agree with the CPU" in told()


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_as_many_entries_agree_with_the_cpu_as_the_page_says() -> None:
    page = re.search(r"Of its (\d+) entries, (\d+) agree with the CPU", PAGE.read_text())
    assert page
    assert f"{page[2]} of {page[1]} entries agree with the CPU" in told("--all")


# By the operators that torch_npu derives with functions of its own, too.
def test_gradients_agree_with_the_cpu() -> None:
    wrong = {}
    for op in table.entries():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                table.gradients(op, 1, "npu")
            except Exception as error:
                wrong[table.name_of(op)] = f"{type(error).__name__}: {error}"[:300]
    assert wrong.keys() == {"sparse.mm.reduce", "sparse.sampled_addmm"}, wrong
