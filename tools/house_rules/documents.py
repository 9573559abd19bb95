# SPDX-License-Identifier: Apache-2.0
"""Rules about what comments and documents refer to, and about the pages on architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
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
# The page that everybody reads. The pages of rooms, README.md beside the code, have the details.
ARCHITECTURE = "ARCHITECTURE.md"
NO_ROOM = ("python/anyop/template/",)  # a package of its own
MOST_WORDS_OF_A_BLOCK = 60
FENCED = re.compile(r"^```.*?^```", re.M | re.S)
# A paragraph, an entry of a list or a row of a table, with the lines that go on with it.
BLOCK = re.compile(r"^[ \t]*\S.*(?:\n(?![ \t]*(?:[-*|#]|\d+\.)[ \t])[ \t]*\S.*)*", re.M)
QUOTED = re.compile(r"`([^`\n]+)`|\]\((?!https?:)([^)#\s]+)")
# What looks like the path of a file or folder: <name> and * stand for any, {a,b} for each.
PATH = re.compile(r"(?!\.\w*/?$)[\w.*<>{},/-]*(?:/|\.(?:cc|cu|h|py|pyi|cmake|md|txt|toml|yml|map))")
# Pages of the site that `./tools/docs` makes, beside those of docs/.
MADE = ("headers.md", "operators/README.md", "pictures/rows.md", "pictures/model/rows.md")
CHOICE = re.compile(r"\{([^{}]*)\}")


def document_exists(tree: Tree) -> Iterator[Breach]:
    """A document that is named is in the tree."""
    for name in tree.files:
        for comment in comments(tree, name):
            text = URL.sub(lambda m: " " * len(m[0]), comment.text)
            for match in [*DOCUMENT.finditer(text), *ABSENT.finditer(text)]:
                file = match[0]
                if match.re is DOCUMENT:
                    file = match["file"] or f"{match['name']}.md"
                    is_made = name.startswith("docs/") and file in MADE
                    if is_made or _is_there(tree, name, file):
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


def pages_of_architecture(tree: Tree) -> list[str]:
    """The main page, and those of the rooms that are there."""
    rooms = [f for f in tree.named("/README.md") if not f.startswith(NO_ROOM)]
    return [f for f in (ARCHITECTURE, *rooms) if f in tree.known]


def document_block(tree: Tree) -> Iterator[Breach]:
    """A paragraph of a page on architecture is short, and so is an entry of a list."""
    for name in pages_of_architecture(tree):
        text = FENCED.sub(lambda m: "\n" * m[0].count("\n"), tree.text(name) or "")
        for block in BLOCK.finditer(text):
            if (words := len(block[0].split())) > MOST_WORDS_OF_A_BLOCK:
                line = text.count("\n", 0, block.start()) + 1
                why = f"{words} words in one block, but at most {MOST_WORDS_OF_A_BLOCK}. Split it."
                yield Breach(name, line, why)


def path_exists(tree: Tree) -> Iterator[Breach]:
    """A path that a page on architecture names or links to is in the tree."""
    for name in pages_of_architecture(tree):
        text = FENCED.sub(lambda m: "\n" * m[0].count("\n"), tree.text(name) or "")
        for match in QUOTED.finditer(text):
            path = match[1] or match[2]
            if match[2] or PATH.fullmatch(path) or path.split("/")[0] in _folders(tree):
                for one in _chosen(re.sub(r"<[^>]*>", "*", path)):
                    if not _is_path(tree, name, one, is_link=match[1] is None):
                        line = text.count("\n", 0, match.start()) + 1
                        yield Breach(name, line, f"names {one}, which is not in the tree")


def room_linked(tree: Tree) -> Iterator[Breach]:
    """The page of a room is found from ARCHITECTURE.md."""
    main = tree.text(ARCHITECTURE) or "" if ARCHITECTURE in tree.known else ""
    for name in pages_of_architecture(tree):
        if name != ARCHITECTURE and f"]({name})" not in main:
            yield Breach(name, 0, f"is not linked in {ARCHITECTURE}")


def _chosen(path: str) -> list[str]:
    """Each path that {a,b} stands for."""
    parts = CHOICE.split(path)
    return ["".join(p) for p in product(*(x.split(",") if i % 2 else [x] for i, x in
                                          enumerate(parts)))]  # fmt: skip


def _is_path(tree: Tree, name: str, path: str, is_link: bool) -> bool:
    """From the root, from the page's folder, or the end of a path; a link from the folder alone."""
    here = normpath(join(dirname(name), path))
    if is_link or path.startswith("../"):
        return here in tree.known or here in _folders(tree)
    path = path.removeprefix("./").rstrip("/")
    there = tree.known | _folders(tree)
    if "*" in path:
        return any(fnmatchcase(f, path) or fnmatchcase(f, f"*/{path}") for f in there)
    return here in there or path in there or any(f.endswith("/" + path) for f in there)


@lru_cache(maxsize=1)
def _folders(tree: Tree) -> frozenset[str]:
    parts = (f.split("/") for f in tree.files)
    return frozenset("/".join(p[:i]) for p in parts for i in range(1, len(p)))


RULES = (document_exists, file_exists, document_block, path_exists, room_linked)
