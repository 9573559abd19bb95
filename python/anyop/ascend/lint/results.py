# SPDX-License-Identifier: Apache-2.0
"""How many results a function gives, as far as its text says it."""

from __future__ import annotations

import ast
import re

from anyop.ascend.lint.functions import Result
from anyop.ascend.lint.names import Function, last_name, own_nodes
from anyop.ascend.lint.schema import split

# Functions and methods of torch that give one tensor.
_ONE_TENSOR = {
    "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full",
    "full_like", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "clone",
}  # fmt: skip


def of_python(function: Function) -> tuple[Result, ...]:
    """Of each return whose value is a tuple, a new tensor, a parameter or nothing."""
    if isinstance(function, ast.Lambda):
        return tuple(_of(function.body, function.body.lineno, {}, _parameters(function)))
    nodes = list(own_nodes(function))
    # By name: what each assignment gives it; None where that is not `name = value`, as in a loop.
    assigned: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            assigned.setdefault(node.id, []).append(None)
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                values = assigned[target.id]
                values[values.index(None)] = node.value
    parameters = _parameters(function) - assigned.keys()
    found: list[Result] = []
    is_seen = False
    for node in nodes:
        if isinstance(node, ast.Return):
            is_seen = True
            value = node.value or ast.Constant(None)
            found += _of(value, node.lineno, assigned, parameters)
    if not is_seen and not isinstance(function.body[-1], ast.Raise):
        found.append(Result(function.lineno, 0))
    return tuple(found)


def _parameters(function: Function) -> set[str]:
    arguments = function.args
    return {a.arg for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]}


def _of(
    value: ast.expr, line: int, assigned: dict[str, list[ast.expr | None]], parameters: set[str]
) -> list[Result]:
    """Nothing where it cannot be told."""
    if isinstance(value, ast.IfExp):
        both = (value.body, value.orelse)
        return [r for each in both for r in _of(each, line, assigned, parameters)]
    if isinstance(value, ast.Constant) and value.value is None:
        return [Result(line, 0)]
    if isinstance(value, (ast.Tuple, ast.List)):
        if any(isinstance(e, ast.Starred) for e in value.elts):
            return []
        return [Result(line, len(value.elts), is_sequence=True)]
    if isinstance(value, ast.Call) and last_name(value.func) in _ONE_TENSOR:
        return [Result(line, 1)]
    if isinstance(value, ast.Name) and value.id in parameters:
        return [Result(line, 1, parameter=value.id)]
    if isinstance(value, ast.Name):
        values = assigned.get(value.id, [])
        if len(values) == 1 and values[0] is not None:
            return _of(values[0], line, {}, parameters)
    return []


_BEFORE = re.compile(r"[;{}]|^[ \t]*#[^\n]*\n", re.MULTILINE)
_QUALIFIERS = re.compile(r"\b(?:static|inline|constexpr|const|virtual|[A-Z][A-Z0-9_]+)\b")
_TENSOR = re.compile(r"(?:::)?(?:at::|torch::)?Tensor\s*&?")
_LIST = re.compile(r"(?:::)?std::vector\s*<.*>", re.DOTALL)
_TUPLE = re.compile(r"(?:::)?std::tuple\s*<(.*)>", re.DOTALL)


def of_cpp(declared: str, line: int) -> tuple[Result, ...]:
    """By the type that stands before a function's name."""
    kind = _QUALIFIERS.sub("", _BEFORE.split(declared)[-1]).strip()
    several = _TUPLE.fullmatch(kind)
    if several:
        return (Result(line, len(split(several[1])), is_sequence=True),)
    if _TENSOR.fullmatch(kind):
        return (Result(line, 1),)
    if _LIST.fullmatch(kind):
        return (Result(line, 1, is_list=True),)
    return (Result(line, 0),) if kind == "void" else ()
