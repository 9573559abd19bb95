# SPDX-License-Identifier: Apache-2.0
"""Numbers in descriptions of arguments: "n * 2 + 1", "min(n, 8)"."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

from anyop import _anyop

Number = int | float
_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
}


def evaluate(text: str, names: Mapping[str, int]) -> Number:
    """The number that the text says. Raises InvalidArgument with the text in it."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        reason = "it is no expression" if isinstance(error, SyntaxError) else str(error)
        raise _anyop.InvalidArgument(
            f"'{text}' is no number: {reason}. Numbers, sizes by name, + - * / // %, "
            f"{', '.join(_FUNCTIONS)} are known."
        ) from None


def whole(text: str, names: Mapping[str, int]) -> int:
    """The same, of a text that has to be a whole number."""
    value = evaluate(text, names)
    if not math.isfinite(value) or value != int(value):
        raise _anyop.InvalidArgument(f"'{text}' is {value}, but must be a whole number.")
    return int(value)


def _value(node: ast.expr, names: Mapping[str, int]) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.Name):
        if node.id not in names:
            known = ", ".join(names) or "none"
            raise ValueError(f"{node.id} is no size (known: {known})")
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        function = _FUNCTIONS.get(node.func.id)
        if function and not node.keywords:
            return function(*(_value(a, names) for a in node.args))
    raise ValueError(f"{ast.unparse(node)} is not understood")
