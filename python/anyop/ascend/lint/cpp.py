# SPDX-License-Identifier: Apache-2.0
"""Schemas and implementations in C++: TORCH_LIBRARY and TORCH_LIBRARY_IMPL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anyop.ascend.lint.functions import KERNEL, META, Parameter, Registered, Result
from anyop.ascend.lint.results import of_cpp
from anyop.ascend.lint.schema import Place, split

_COMMENT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_BLOCK = re.compile(r"\bTORCH_LIBRARY(_FRAGMENT|_IMPL)?\s*\(([^()]*)\)\s*\{")
_DEF = re.compile(r"\.\s*def\s*\(")
_IMPL = re.compile(r"\.\s*impl\s*\(")
_LITERAL = re.compile(r'R"(\w*)\((.*?)\)\1"|"((?:\\.|[^"\\\n])*)"', re.DOTALL)
_LEADING = re.compile(r"\s*(?:TORCH_SELECTIVE_(?:SCHEMA|NAME)\s*\(\s*)?")
_FUNCTION = re.compile(r"(?:TORCH_FN\s*\(\s*|&\s*)?([A-Za-z_][\w:]*)")
_INPLACE = r"\b{}\s*(?:\.|->)\s*([a-z]\w*[a-z0-9]_)\s*\("


class Text:
    """A file of C++ without its comments, whose lines stay where they are."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file

        def blank(found: re.Match[str]) -> str:
            return found[0] if found[0][0] in 'R"' else re.sub(r"[^\n]", " ", found[0])

        self.text = _COMMENT.sub(blank, text)

    def place(self, at: int) -> Place:
        return Place(self.file, self.text.count("\n", 0, at) + 1)

    def closing(self, at: int, pair: str) -> int:
        """Where the bracket that opens at `at` is closed; brackets in strings are none."""
        depth, i = 0, at
        while i < len(self.text):
            string = _LITERAL.match(self.text, i)
            if string:
                i = string.end()
                continue
            depth += (self.text[i] == pair[0]) - (self.text[i] == pair[1])
            if depth == 0:
                return i
            i += 1
        return len(self.text)

    def string(self, at: int) -> str:
        """The literals that stand here, one after the other."""
        parts, end = [], _end(_LEADING, self.text, at)
        while found := _LITERAL.match(self.text, end):
            parts.append(found[2] if found[2] is not None else _unescaped(found[3]))
            end = _end(re.compile(r"\s*"), self.text, found.end())
        return "".join(parts)

    def blocks(self) -> Iterator[tuple[str, list[str], int, int]]:
        """Kind, words and extent of each TORCH_LIBRARY...(words) {...}."""
        for block in _BLOCK.finditer(self.text):
            words = [w.strip() for w in block[2].split(",")]
            yield block[1] or "", words, block.end(), self.closing(block.end() - 1, "{}")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _unescaped(text: str) -> str:
    return text.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")


def schemas(text: Text) -> Iterator[tuple[str, str, Place]]:
    """Namespace, schema and place."""
    for kind, words, begin, end in text.blocks():
        if kind == "_IMPL":
            continue
        for found in _DEF.finditer(text.text, begin, end):
            yield words[0], text.string(found.end()), text.place(found.start())


def implementations(text: Text, all_texts: list[Text]) -> Iterator[Registered]:
    """What m.impl(name, function) registers. all_texts: where the functions may be defined."""
    for kind, words, begin, end in text.blocks():
        for found in _IMPL.finditer(text.text, begin, end):
            name = text.string(found.end()).rpartition("::")[2]
            call = text.text[found.end() : text.closing(found.end() - 1, "()")]
            given = split(call)
            key = words[1] if kind == "_IMPL" and len(words) > 1 else ""
            function = _FUNCTION.match(given[1]) if len(given) > 1 else None
            yield _registered(
                words[0], name, key, text.place(found.start()),
                function[1].rpartition("::")[2] if function else "", [text, *all_texts],
            )  # fmt: skip


def _registered(
    space: str, name: str, key: str, place: Place, function: str, texts: list[Text]
) -> Registered:
    name, _, overload = name.partition(".")
    writes: dict[str, int] = {}
    parameters = None
    results: tuple[Result, ...] = ()
    for text in texts if function else []:
        found = _definition(text, function)
        if found:
            parameters, writes, place, results = found
            break
    return Registered(
        META if key == "Meta" else KERNEL, space, name, overload or "default", place,
        parameters, writes=writes, is_python=False, key=key, results=results,
    )  # fmt: skip


def _definition(
    text: Text, name: str
) -> tuple[tuple[Parameter, ...], dict[str, int], Place, tuple[Result, ...]] | None:
    for head in re.finditer(rf"\b(?:\w+::)*{re.escape(name)}\s*\(", text.text):
        end = text.closing(head.end() - 1, "()")
        body = re.match(r"\)\s*(?:const\s*)?(?:noexcept\s*)?\{", text.text[end:])
        if body is None:
            continue
        parameters, writes = [], {}
        last = text.closing(end + body.end() - 1, "{}")
        for declared in split(text.text[head.end() : end]):
            named = re.search(r"([A-Za-z_]\w*)\s*(?:=.*)?$", declared)
            if named is None:
                continue
            parameters.append(Parameter(named[1]))
            is_tensor = re.search(r"\bTensor\b", declared) is not None
            if is_tensor and re.search(r"\bTensor\s*&", declared) and "const" not in declared:
                writes[named[1]] = text.place(head.start()).line
            inplace = re.compile(_INPLACE.format(re.escape(named[1])))
            written = inplace.search(text.text, end, last) if is_tensor else None
            if written and not written[1].startswith("requires_grad"):
                writes[named[1]] = text.place(written.start()).line
        place = text.place(head.start())
        before = text.text[max(0, head.start() - 400) : head.start()]
        return tuple(parameters), writes, place, of_cpp(before, place.line)
    return None
