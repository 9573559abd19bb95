# SPDX-License-Identifier: Apache-2.0
"""Rules about what comments and documents refer to: it is in the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from posixpath import dirname, join, normpath

from house_rules.tree import Breach, Tree, comments

# A document by its file, or by its name in capitals before a chapter's in quotes.
DOCUMENT = re.compile(r'(?<![\w/.{*<-])(?P<file>[\w/.-]*\w\.md)\b|\b(?P<name>[A-Z]{4,})(?= "[A-Z])')
# Words for documents that the tree does not have.
ABSENT = re.compile(r"\bthe catalogue\b|\bthe design document\b|\bthe style guide\b", re.I)
# A file of code by its path or name.
FILE = re.compile(r"(?<![\w/.{*<>-])(?P<file>[\w./-]*\w\.(?:cc|h|py|cmake))\b(?![\w*({])")
URL = re.compile(r"https?://\S+")
# A word in capitals stands for any: bench_NAME.py.
ANY = re.compile(r".*(NAME|OPPONENT).*")


def document_exists(tree: Tree) -> Iterator[Breach]:
    """A document that is named is in the tree."""
    for name in tree.files:
        for comment in comments(tree, name):
            text = URL.sub(lambda m: " " * len(m[0]), comment.text)
            for match in [*DOCUMENT.finditer(text), *ABSENT.finditer(text)]:
                file = match[0]
                if match.re is DOCUMENT:
                    file = match["file"] or f"{match['name']}.md"
                    if _is_there(tree, name, file):
                        continue
                line = comment.line + text.count("\n", 0, match.start())
                yield Breach(name, line, f"names {match[0]}, which is not in the tree")


def file_exists(tree: Tree) -> Iterator[Breach]:
    """A file of code that is named is in the tree."""
    for name in tree.files:
        for comment in comments(tree, name):
            text = URL.sub(lambda m: " " * len(m[0]), comment.text)
            for match in FILE.finditer(text):
                file = match["file"]
                if not ANY.fullmatch(file) and not _is_there(tree, name, file):
                    line = comment.line + text.count("\n", 0, match.start())
                    yield Breach(name, line, f"names {file}, which is not in the tree")


def _is_there(tree: Tree, name: str, file: str) -> bool:
    if file.startswith("../"):
        return normpath(join(dirname(name), file)) in tree.known
    file = file.removeprefix("./")
    return any(f == file or f.endswith("/" + file) for f in _by_last(tree).get(_last(file), ()))


def _last(file: str) -> str:
    return file.rpartition("/")[2]


@lru_cache(maxsize=1)
def _by_last(tree: Tree) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in tree.files:
        found.setdefault(_last(file), []).append(file)
    return found


RULES = (document_exists, file_exists)
