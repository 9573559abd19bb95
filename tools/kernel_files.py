# SPDX-License-Identifier: Apache-2.0
"""Which kernels the files of operators define by ANYOP_KERNEL, and for which instruction sets.

Needs only Python's standard library, as the programs of the build beside it that import it.
"""

from __future__ import annotations

import re
from pathlib import Path

ISA_TABLE = Path(__file__).resolve().parents[1] / "cmake" / "isa.cmake"
COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
    re.S,
)
KERNEL = re.compile(  # one that the build lists
    r"^ANYOP_KERNEL\(\s*(?P<op>\w+)\s*(?:,\s*(?P<word>\w+)\s*)?\)\s*(?P<open>\{)", re.M
)
ASCEND_KERNEL = re.compile(KERNEL.pattern.replace("ANYOP_", "ANYOP_ASCEND_"), re.M)
ASCEND_FILES = ("ascend.cpp", "ascend.asc")  # that hold such kernels
PORTABLE = "portable"  # the instruction set of files that are compiled for every processor


def mask(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return COMMENT_OR_STRING.sub(blank, text)


def closing(masked: str, at: int) -> int:
    """The brace or bracket that closes the one at `at`; the end of the text where none does."""
    pairs, depth = {"{": "}", "(": ")"}, 0
    opening, closer = masked[at], pairs[masked[at]]
    for i in range(at, len(masked)):
        depth += (masked[i] == opening) - (masked[i] == closer)
        if depth == 0:
            return i
    return len(masked)


def isas_of_file(path: Path, general: list[str]) -> list[str]:
    """What the build compiles a file for."""
    if path.stem == "cpu":
        return [PORTABLE, *general]
    return [path.stem.removeprefix("cpu_")] if path.stem.startswith("cpu_") else [PORTABLE]


def general_of(table: Path) -> list[str]:
    """The instruction sets of isa.cmake that cpu.cc is compiled for."""
    found = re.search(r"^set\(ANYOP_GENERAL ([^)]*)\)", table.read_text(encoding="utf-8"), re.M)
    return found[1].split() if found else []


def isas_of(table: Path) -> list[str]:
    """The instruction sets of isa.cmake."""
    text = table.read_text(encoding="utf-8")
    lists = re.findall(r"^set\(ANYOP_\w+_ISAS ([^)]*)\)", text, re.M)
    return [word for words in lists for word in words.split()]


def kernels_below(folder: Path) -> dict[str, list[str]]:
    """By operator: the C++ names that ANYOP_KERNEL makes, in all builds together, best first."""
    isas, general = isas_of(ISA_TABLE), general_of(ISA_TABLE)
    best_first = [*reversed(isas), PORTABLE]
    found: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(folder.rglob("*.cc")):
        text = mask(path.read_text(encoding="utf-8"))
        for match in KERNEL.finditer(text):
            for isa in isas_of_file(path, general):
                name = "_".join(filter(None, (match["op"], isa, match["word"])))
                rank = best_first.index(isa) if isa in best_first else len(best_first)
                found.setdefault(match["op"], []).append((rank, name))
    # Stable: kernels of one instruction set keep the order of their file.
    return {op: [name for _, name in sorted(k, key=lambda k: k[0])] for op, k in found.items()}
