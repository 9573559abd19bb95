# SPDX-License-Identifier: Apache-2.0
"""Cuts the code in README.md out of the files that are built and run; --check only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- from: (\S+) -->\n```\w+\n)(.*?)(```\n)", re.S)


def cut(path: Path) -> str:
    """The file without its opening comment or docstring, or what stands between the marks."""
    text = path.read_text(encoding="utf-8")
    if "---8<---" in text:
        text = re.split(r".*---8<---.*\n", text)[1]
        return re.split(r".*--->8---.*\n?", text)[0]
    lines = text.splitlines(keepends=True)
    while lines and (lines[0].startswith(("//", "# ", '"""')) or not lines[0].strip()):
        lines.pop(0)
    return "".join(lines)


def renew(text: str) -> str:
    return BLOCK.sub(lambda m: m[1] + cut(ROOT / m[2]) + m[4], text)


def main() -> int:
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    fresh = renew(text)
    if fresh == text:
        return 0
    if "--check" in sys.argv:
        print("README.md: its code differs from the files it names. Try: python3 tools/readme.py")
        return 1
    path.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
