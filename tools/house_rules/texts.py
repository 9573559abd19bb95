# SPDX-License-Identifier: Apache-2.0
"""Rules about any file: its licence, its length, what it must not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator

from house_rules.tree import CODE, CPP, Breach, Tree, line_of

LONGEST_FILE = 500
LONGEST_DOCUMENT = {"README.md": 100, "CONTRIBUTING.md": 80}
MOST_WORDS = {"ARCHITECTURE.md": 2500}  # a quarter of an hour
LONGEST_CODE = 100  # as in the sources; more does not fit on the site
# The patterns are written so that they do not match themselves.
FORBIDDEN = re.compile(r"/[w]ork/|/[r]oot/|python[h]osted|pypi\.[o]rg/simple|[Ii]ssue [#]\d")
UNFINISHED = re.compile(r"\b(TO[D]O|FIX[M]E|X[X]X)\b")


def licence(tree: Tree) -> Iterator[Breach]:
    """Every file of code says its licence in its first lines."""
    for name, text in tree.texts(*CODE):
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(text.split("\n")[:3]):
            yield Breach(name, 1, "no SPDX line")


def machine(tree: Tree) -> Iterator[Breach]:
    """Nothing names a place of one machine."""
    for name, text in tree.texts(""):
        for match in FORBIDDEN.finditer(text):
            why = f"holds '{match[0]}', which belongs to one machine only"
            yield Breach(name, line_of(text, match), why)


def unfinished(tree: Tree) -> Iterator[Breach]:
    """No notes of work that is left."""
    for name, text in tree.texts(""):
        for match in UNFINISHED.finditer(text):
            yield Breach(name, line_of(text, match), f"holds an unfinished note: {match[0]}")


def file_length(tree: Tree) -> Iterator[Breach]:
    """Files of code are short."""
    for name, text in tree.texts(*CPP, ".py"):
        if (lines := text.count("\n")) > LONGEST_FILE:
            yield Breach(name, lines, f"{lines} lines, but at most {LONGEST_FILE}. Split it.")


def document_length(tree: Tree) -> Iterator[Breach]:
    """Documents that everybody reads are short."""
    for name, most in LONGEST_DOCUMENT.items():
        lines = (tree.text(name) or "").count("\n") if name in tree.files else 0
        if lines > most:
            yield Breach(name, lines, f"{lines} lines, but at most {most}")
    for name, most in MOST_WORDS.items():
        text = (tree.text(name) or "") if name in tree.files else ""
        if (words := len(text.split())) > most:
            why = f"{words} words, but at most {most}. Move some to the page of a room."
            yield Breach(name, text.count("\n"), why)


def code_width(tree: Tree) -> Iterator[Breach]:
    """Code in documents fits on the page."""
    for name, text in tree.texts(".md", below=("README.md", "docs/")):
        is_code = False
        for n, line in enumerate(text.splitlines(), 1):
            if line.startswith("```"):
                is_code = not is_code
            elif is_code and len(line) > LONGEST_CODE:
                yield Breach(name, n, f"{len(line)} columns of code, but at most {LONGEST_CODE}")


RULES = (licence, machine, unfinished, file_length, document_length, code_width)
