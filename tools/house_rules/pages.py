# SPDX-License-Identifier: Apache-2.0
"""Rules about the comment that opens an operator, of which `anyop docs` makes its page."""

from __future__ import annotations

import re
from collections.abc import Iterator

from house_rules.operators import DEFINED
from house_rules.tree import Breach, Tree

LONGEST_LINE = 100
HEADING = re.compile(r"(Numerics|Source)\s+(?=\S)")


def _comment(text: str) -> list[tuple[int, str]]:
    """The lines of the first comment after the licence, with their numbers, without slashes."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("//") and not line.startswith("// SPDX"):
            lines.append((number, line[3:]))
        elif lines:
            break
    return lines


def page(tree: Tree) -> Iterator[Breach]:
    """The comment of an operator is a page: a summary, formulas in whole lines, two headings."""
    for name, text in tree.texts(".cc", below="ops/"):
        operator = DEFINED.search(text)
        if operator is None:
            continue
        lines = _comment(text)
        first = lines[0] if lines else (1, "")
        if not re.fullmatch(rf"{operator[1]}: \S.*\.", first[1]):
            why = f"the comment does not begin with a line '{operator[1]}: <one sentence>.'"
            yield Breach(name, first[0], why)
        for heading in ("Numerics", "Source"):
            if not any(re.match(rf"{heading}  ", line) for _, line in lines):
                yield Breach(name, first[0], f"the comment has no '{heading}'")
        yield from _broken(name, lines)


def _broken(name: str, lines: list[tuple[int, str]]) -> Iterator[Breach]:
    """Lines that are too long, or that a formatter has torn apart."""
    indent = 0  # that a line under a heading has
    for at, (number, line) in enumerate(lines):
        if len(line) + 3 > LONGEST_LINE:
            yield Breach(name, number, f"a line of {len(line) + 3} columns, but at most 100")
        if match := HEADING.match(line):
            indent = match.end()
            continue
        if indent and line and not line.startswith(" " * indent):
            why = f"'{line}' stands below a heading, but not {indent} columns in"
            yield Breach(name, number, why)
        if not indent and line.startswith("  ") and _depth(line) > 0:
            own = len(line) - len(line.lstrip())
            following = lines[at + 1][1] if at + 1 < len(lines) else ""
            if not following.startswith(" " * (own + 1)):
                yield Breach(name, number, f"'{line.strip()}' leaves a bracket open")


def _depth(line: str) -> int:
    return sum(line.count(c) for c in "([") - sum(line.count(c) for c in ")]")


RULES = (page,)
