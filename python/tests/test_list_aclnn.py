# SPDX-License-Identifier: Apache-2.0
"""The list of aclnn operators as C++."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools/list_aclnn.py"


def made(tmp_path: Path, text: str) -> tuple[str, str]:
    """The C++, and what the tool has said."""
    out, names, file = tmp_path / "out.cc", tmp_path / "names", tmp_path / "one.txt"
    names.write_text("aclnnAbs\naclnnOther\n")
    file.write_text(text)
    command = [sys.executable, TOOL, "--out", out, "--names", names, file]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return out.read_text() if ran.returncode == 0 else "", ran.stderr


def test_operators_and_names_that_are_missing(tmp_path: Path) -> None:
    code, _ = made(
        tmp_path,
        "each Abs Exp2: aclnn$Name(real x, int8 mode, out? y): torch.$name(x)\n"
        "def twice(x: Tensor) -> Tensor:\n    return x + x\n",
    )
    assert "int aclnnExp2GetWorkspaceSize(const aclTensor* x_, std::int8_t mode_, " in code
    assert "return torch.exp2(x)" in code and '{Kind::kOut, true, false, "y"}' in code
    assert '{Kind::kTensor, false, true, "x"}' in code  # of real numbers alone
    assert "def twice" in code
    assert "aclnnOtherGetWorkspaceSize() { return Missing(" in code
    assert 'return LaunchMissing("aclnnOther", stream);' in code
    assert "aclnnAbsGetWorkspaceSize()" not in code


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("aclnnAbs(matrix x): x\n", "aclnnAbs: matrix x is no kind of argument and its name"),
        ("aclnnAbs tensor x\n", "aclnnAbs tensor x: no operator, no function and no `each`"),
        ("aclnnAbs(tensor x): x\naclnnAbs(tensor x): x\n", "one.txt: aclnnAbs is there twice"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    assert made(tmp_path, text)[1] == f"list_aclnn.py: {told}\n"
