# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/npu.md, one behind the other, print what their comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "npu.md"


def without_hash(text: str) -> str:
    """Of the name of a library that anyop.inline has made."""
    return re.sub(r"inline_[0-9a-f]+", "inline", text)


def test_programs_print_what_the_page_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = "\n".join(blocks)
    expected = re.findall(r"print\(.*\)  # (.*)", code)
    assert len(blocks) == 4 and len(expected) == 4
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "ANYOP_NPU": "delay,trace"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout.splitlines() == expected, ran.stderr[-3000:]
    listed = re.findall(r"^npu:0.*$", PAGE.read_text(), re.MULTILINE)
    assert len(listed) == 4
    for line in listed:
        assert without_hash(line) in without_hash(ran.stderr), line
