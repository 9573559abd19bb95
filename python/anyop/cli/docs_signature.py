# SPDX-License-Identifier: Apache-2.0
"""The text of a signature in parts: its forms, what each says of a name, and lines to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ONE_LINE = 72  # columns that a phone shows in two lines, and a page in one


@dataclass(frozen=True)
class Form:
    """A line of a signature; parameters and results with what is said of each."""

    name: str
    parameters: dict[str, str]
    results: dict[str, str]
    conditions: tuple[str, ...]


def forms(signature: str) -> list[Form]:
    return [_form(line) for line in signature.splitlines()]


def _form(line: str) -> Form:
    head, _, tail = line.partition(" -> ")
    name, _, inside = head.partition("(")
    results, _, where = tail.partition(" where ")
    return Form(name, dict(_named(inside.rpartition(")")[0])), dict(_named(results.strip()[1:-1])),
                tuple(split(where)))  # fmt: skip


def _named(text: str) -> Iterator[tuple[str, str]]:
    for part in split(text):
        name, _, rest = part.partition(": ")
        yield name, rest


def split(text: str) -> list[str]:
    """At the commas that stand in no bracket."""
    parts, depth, begin = [], 0, 0
    for i, sign in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [p for p in [*parts, text[begin:].strip()] if p]


def laid_out(signature: str) -> str:
    """The same signature with a line for each parameter and condition where one line is long."""
    return "\n".join(_laid_out(line) for line in signature.splitlines())


def _laid_out(line: str) -> str:
    if len(line) <= ONE_LINE:
        return line
    form = _form(line)
    parameters = ",\n    ".join(f"{name}: {said}" for name, said in form.parameters.items())
    results = [f"{name}: {said}" for name, said in form.results.items()]
    lines = [f"{form.name}(\n    {parameters})"]
    lines.append(f"  -> ({', '.join(results)})")
    if len(lines[-1]) > ONE_LINE:
        lines[-1] = "  -> (" + ",\n      ".join(results) + ")"
    if form.conditions:
        lines.append("  where " + ",\n        ".join(form.conditions))
    return "\n".join(lines)


def type_and_shape(said: str) -> tuple[str, str]:
    """Of what is said of a parameter or result: ('mut f32|bf16', '[n, d]')."""
    kind, bracket, rest = said.partition("[")
    if not bracket or kind in ("int", "float") or kind.startswith("'"):
        return said.partition(" = ")[0].rstrip("?"), ""
    return kind, f"[{rest.partition(']')[0]}]" if rest.count("[") == 0 else _whole(rest)


def _whole(rest: str) -> str:
    """Of a shape with brackets of its own, [n, stride[0]], up to the bracket that ends it."""
    depth = 1
    for i, sign in enumerate(rest):
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if depth == 0:
            return f"[{rest[: i + 1]}"
    return f"[{rest}"


def dtypes(form: Form) -> dict[str, str]:
    """What each variable of the conditions may be: {'T': 'f32 | f16'}."""
    pairs = (c.partition(" in ") for c in form.conditions)
    return {name: choice for name, is_in, choice in pairs if is_in and name.isidentifier()}
