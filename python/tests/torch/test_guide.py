# SPDX-License-Identifier: Apache-2.0
"""The code of docs/torch.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import anyop
import pytest

torch = pytest.importorskip("torch")

GUIDE = (Path(__file__).parents[3] / "docs" / "torch.md").read_text()
# Code that is cut from a file runs with it.
BLOCKS = re.findall(r"(?<!-->\n)```python\n(.*?)```", GUIDE, re.S)


def counted() -> int:
    return sum(row.calls for row in anyop.counters())


def test_the_guide_has_code() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS)
def test_the_code_of_the_guide_runs(code: str) -> None:
    names = {"anyop": anyop, "torch": torch, "x": torch.randn(2, 8), "w": torch.randn(8)}
    before, calls = dict(names), counted()
    exec(code, names)
    made = {k: v for k, v in names.items() if k not in before and not k.startswith("__")}
    assert made or counted() > calls, "the code makes nothing and calls no operator"
    for value in made.values():
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            assert torch.isfinite(value).all()
