# SPDX-License-Identifier: Apache-2.0
"""The files that the rules look at, read and taken apart once."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

CPP = (".cc", ".cu", ".h")
CODE = (*CPP, ".py", ".cmake")
# What is named there is named by others: interfaces that packages of Ascend users are written for.
NAMED_BY_OTHERS = (
    "ascend/include/packages/", "ascend/include/npu/", "ascend/home/",
    "python/tests/ascend/packages/",
)  # fmt: skip
_HASH = re.compile(r"(?:^\s*|\s\s)# .*")
_TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<string>R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*")'
    r"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])+'",
    re.S,
)


@dataclass(frozen=True)
class Breach:
    """A place that breaks a rule."""

    file: str
    line: int  # from 1; 0: the file as a whole
    text: str
    rule: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text} [{self.rule}]"


@dataclass(frozen=True)
class Comment:
    """A comment or docstring, with the line on which it begins."""

    line: int
    text: str


class Cpp:
    """C++ without its comments, and without its strings too. Lines stay where they are."""

    def __init__(self, text: str) -> None:
        self.comments: list[Comment] = []
        at, line = 0, 1
        code: list[str] = []
        bare: list[str] = []
        for match in _TOKEN.finditer(text):
            between, token = text[at : match.start()], match[0]
            line += between.count("\n")
            if match["comment"]:
                self.comments.append(Comment(line, token))
            hidden = " " + "\n" * token.count("\n")
            code += [between, hidden if match["comment"] else token]
            bare += [between, hidden if match["comment"] else '""' + hidden]
            line += token.count("\n")
            at = match.end()
        self.code = "".join([*code, text[at:]])
        self.bare = "".join([*bare, text[at:]])

    @cached_property
    def includes(self) -> list[tuple[int, str, bool]]:
        """Line, path, and whether it stands in quotes."""
        pattern = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">\n]+)[">]', re.M)
        return [(line_of(self.code, m), m[2], m[1] == '"') for m in pattern.finditer(self.code)]


class Tree:
    """The files of a project: those that git knows, or all where there is no repository."""

    def __init__(self, root: Path, build: Path | None = None) -> None:
        self.root = root
        self.build = build or root / "build" / "release"
        self.files = sorted(_listed(root))
        self.known = frozenset(self.files)
        self._texts: dict[str, str | None] = {}
        self._cpp: dict[str, Cpp] = {}
        self._python: dict[str, ast.Module] = {}
        self._nodes: dict[str, list[ast.AST]] = {}

    def named(self, *endings: str, below: str | tuple[str, ...] = "") -> list[str]:
        """The files whose names end so, in folders that begin so."""
        return [f for f in self.files if f.endswith(endings) and f.startswith(below)]

    def text(self, name: str) -> str | None:
        """What a file holds; None if it is no text."""
        if name not in self._texts:
            try:
                self._texts[name] = (self.root / name).read_text(encoding="utf-8")
            except UnicodeDecodeError:
                self._texts[name] = None
        return self._texts[name]

    def texts(self, *endings: str, below: str | tuple[str, ...] = "") -> Iterator[tuple[str, str]]:
        """Names and contents of text files."""
        for name in self.named(*endings, below=below):
            text = self.text(name)
            if text is not None:
                yield name, text

    def cpp(self, name: str) -> Cpp:
        """A C++ file, taken apart."""
        if name not in self._cpp:
            self._cpp[name] = Cpp(self.text(name) or "")
        return self._cpp[name]

    def python(self, name: str) -> ast.Module:
        """The syntax tree of a Python file."""
        if name not in self._python:
            self._python[name] = ast.parse(self.text(name) or "", filename=name)
        return self._python[name]

    def nodes(self, name: str) -> list[ast.AST]:
        """All nodes of a Python file's syntax tree, from the outside in."""
        if name not in self._nodes:
            self._nodes[name] = list(ast.walk(self.python(name)))
        return self._nodes[name]


def docstrings(tree: Tree, name: str) -> Iterator[ast.Constant]:
    """The strings that document a module, its classes and functions."""
    for node in tree.nodes(name):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield first.value


def comments(tree: Tree, name: str) -> list[Comment]:
    """What is written for people: comments, docstrings, all of a document."""
    text = tree.text(name) or ""
    if name.endswith(CPP):
        return tree.cpp(name).comments
    if name.endswith(".py"):
        documents = [Comment(d.lineno, str(d.value)) for d in docstrings(tree, name)]
        hashes = (Comment(i, x) for i, x in enumerate(text.split("\n"), 1) if "#" in x)
        return [*documents, *(Comment(c.line, m[0]) for c in hashes if (m := _HASH.search(c.text)))]
    if name.endswith((".cmake", "CMakeLists.txt")):
        return [Comment(i, x) for i, x in enumerate(text.split("\n"), 1) if x.startswith("#")]
    return [Comment(1, text)] if name.endswith(".md") else []


Rule = Callable[[Tree], Iterator[Breach]]


def _listed(root: Path) -> list[str]:
    if not (root / ".git").exists():
        paths = (p for p in root.rglob("*") if p.is_file() and root / "build" not in p.parents)
        return [p.relative_to(root).as_posix() for p in paths]
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [f for f in listing.split("\n") if f and (root / f).is_file()]


def line_of(text: str, match: re.Match[str], group: int | str = 0) -> int:
    """The line, from 1, on which a match begins."""
    return text.count("\n", 0, match.start(group)) + 1


def is_test(name: str) -> bool:
    """Whether a file is a test, or is written for tests."""
    return "test" in name
