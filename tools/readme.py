# SPDX-License-Identifier: Apache-2.0
"""Cuts the code in README.md and docs/ out of files that are built and run; --check compares."""

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
    differ = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        fresh = renew(text)
        if fresh == text:
            continue
        differ.append(path.name)
        if "--check" not in sys.argv:
            path.write_text(fresh, encoding="utf-8")
    if differ and "--check" in sys.argv:
        print(f"{', '.join(differ)}: the code differs from the files that are named.")
        print("Try: python3 tools/readme.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
