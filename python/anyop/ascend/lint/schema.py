# SPDX-License-Identifier: Apache-2.0
"""torch's schemas as text: "add(Tensor x, Tensor(a!) y, *, float alpha=1.0) -> Tensor(a!)"."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

_HEAD = re.compile(r"\s*(?:([\w.]+)::)?(\w+)(?:\.(\w+))?\s*(\(.*)", re.DOTALL)
_ARGUMENT = re.compile(r"(.+?)\s*\b([A-Za-z_]\w*)\s*(?:=(.*))?", re.DOTALL)
_STRING = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_ALIAS = re.compile(r"\(([^()]*)\)")
NONE_GIVEN: Any = object()  # an argument that must be passed
NO_LITERAL: Any = object()  # a default that cannot be compared, such as a name


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int


@dataclass(frozen=True)
class Argument:
    """default: a Python value, NONE_GIVEN or NO_LITERAL; text: as the schema has it."""

    name: str
    type: str
    text: str
    default: Any
    keyword_only: bool
    writes: bool


@dataclass(frozen=True)
class Schema:
    """An overload of an operator. returns: as the text has it."""

    space: str
    name: str
    overload: str  # "default" where the schema names none
    arguments: tuple[Argument, ...]
    returns: str
    place: Place

    @property
    def operator(self) -> str:
        return f"{self.space}::{self.name}"

    @property
    def full(self) -> str:
        return self.operator + ("" if self.overload == "default" else f".{self.overload}")

    @property
    def results(self) -> list[str]:
        """The type of each result."""
        if not self.returns.startswith("("):
            return [self.returns]
        return split(self.returns[1 : self.returns.rfind(")")])


def parse(text: str, space: str, place: Place) -> Schema | None:
    """None for what is no schema but a name alone. Raises ValueError with what is wrong in it."""
    head = _HEAD.fullmatch(text)
    if head is None:
        if re.fullmatch(r"\s*[\w.:]+\s*", text):
            return None
        raise ValueError("it does not begin with NAME(")
    rest = head[4]
    end = _closing(rest)
    arrow = rest[end + 1 :].strip()
    if not arrow.startswith("->"):
        raise ValueError("'-> RETURNS' does not follow its arguments")
    arguments, keyword_only = [], False
    for part in split(rest[1:end]):
        if part == "*":
            keyword_only = True
        else:
            arguments.append(_argument(part, keyword_only))
    names = [a.name for a in arguments]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise ValueError(f"it has two arguments '{twice}'")
    returns = arrow[2:].strip()
    own = head[1] or space
    return Schema(own, head[2], head[3] or "default", tuple(arguments), returns, place)


def refused(text: str) -> str:
    """What torch's own parser says against a schema; "" without torch, or if it takes it."""
    try:
        import torch
    except ImportError:
        return ""
    try:
        torch._C.parse_schema(text)
    except RuntimeError as error:
        return str(error).strip().splitlines()[0].rstrip(".:")
    return ""


def split(text: str) -> list[str]:
    """At commas that stand in no brackets or quotes."""
    parts, depth, begin = [], 0, 0
    bare = _STRING.sub(lambda found: "_" * len(found[0]), text)
    for i, c in enumerate(bare):
        if c in "([{<":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1 : i] != "-"):  # Tensor(a -> *)
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [p for p in [*parts, text[begin:].strip()] if p]


def _closing(text: str) -> int:
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i
    raise ValueError("a bracket is not closed")


def _argument(text: str, keyword_only: bool) -> Argument:
    parted = _ARGUMENT.fullmatch(text)
    if parted is None:
        raise ValueError(f"'{text}' is no argument: TYPE NAME, or TYPE NAME=DEFAULT")
    kind, name, default = parted[1].strip(), parted[2], parted[3]
    alias = _ALIAS.search(kind)
    value = NONE_GIVEN if default is None else literal(default.strip())
    size = re.search(r"\[(\d+)\]", kind)  # int[2] x=1 is [1, 1]
    if size and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = [value] * int(size[1])
    writes = bool(alias and "!" in alias[1])
    return Argument(name, kind, text, value, keyword_only, writes)


def literal(text: str) -> Any:
    """The value of a default, or NO_LITERAL."""
    try:
        return ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
    except (ValueError, SyntaxError):
        return NO_LITERAL
