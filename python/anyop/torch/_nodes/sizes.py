# SPDX-License-Identifier: Apache-2.0
"""torch's symbolic sizes as sizes of a graph, as text of the signature language, as functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy import functions as torch_sympy

from anyop._graph.size import Size


class Unconverted(Exception):
    """What keeps a node, or a whole program, from being part of a graph."""


class Fatal(Exception):
    """What keeps a whole program from being a graph."""


def expression(size: Any) -> Any:
    """A sympy expression, or an int, of an int, torch.SymInt or expression."""
    expr = size.node.expr if isinstance(size, torch.SymInt) else size
    return int(expr) if isinstance(expr, (int, sympy.Integer)) else expr


def is_same(a: Any, b: Any) -> bool:
    """Whether two sizes are surely equal. Adds no guard."""
    return bool(sympy.expand(sympy.sympify(expression(a)) - expression(b)) == 0)


def symbols_of(sizes: Any) -> set[Any]:
    """The symbols of all sizes. Throws Unconverted for those that depend on data."""
    found: set[Any] = set()
    for size in sizes:
        if isinstance(size, torch.SymInt) and free_unbacked_symbols(size):
            raise Unconverted(f"the size {size} depends on data")
        expr = expression(size)
        if not isinstance(expr, int):
            found |= expr.free_symbols
    return found


def signature_text(size: Any) -> str:
    """A size in the language of signatures, over parameters that are called as torch's symbols."""
    expr = expression(size)
    if isinstance(expr, int):
        return str(expr)
    if expr.is_Symbol:
        return str(expr)
    arguments = [signature_text(a) for a in expr.args]
    if expr.is_Add:
        return "(" + " + ".join(arguments) + ")"
    if expr.is_Mul:
        return "(" + "*".join(arguments) + ")"
    if expr.is_Pow and expr.exp.is_Integer and 0 < int(expr.exp) < 8:
        return "(" + "*".join([arguments[0]] * int(expr.exp)) + ")"
    infix = {torch_sympy.FloorDiv: "/", torch_sympy.PythonMod: "%", torch_sympy.Mod: "%"}
    if expr.func in infix:
        return f"({arguments[0]} {infix[expr.func]} {arguments[1]})"
    called = {torch_sympy.Max: "max", torch_sympy.Min: "min", torch_sympy.CeilDiv: "ceil_div"}
    if expr.func in called and len(arguments) == 2:
        return f"{called[expr.func]}({arguments[0]}, {arguments[1]})"
    raise Unconverted(f"the size {expr} has no expression in a signature")


def _polynomial(expr: Any, names: Mapping[Any, str]) -> str:
    """ "2*n*m + 1"; "" where it is no polynomial with whole factors."""
    terms = []
    for term, factor in sympy.expand(expr).as_coefficients_dict().items():
        factors = [f"({int(factor)})"] if factor.is_Integer else []
        for base, power in term.as_powers_dict().items():
            if base == 1:
                continue
            if not base.is_Symbol or not power.is_Integer or power < 0:
                return ""
            factors += [names.get(base, str(base))] * int(power)
        if not factor.is_Integer:
            return ""
        terms.append("*".join(factors))
    return " + ".join(terms) or "0"


class Sizes:
    """Sizes of one graph under construction. names: what the graph calls torch's symbols."""

    def __init__(self, tracer: Any, names: Mapping[Any, str]) -> None:
        self._tracer, self._names = tracer, names
        self._learned: dict[Any, str] = {}  # by expression that is no polynomial

    def name(self, symbol: Any) -> str:
        return self._names.get(symbol, str(symbol))

    def learn(self, size: Any, shown: int | str) -> None:
        """A result's size in torch's program, and what the graph calls it."""
        expr = expression(size)
        if not isinstance(expr, int) and not _polynomial(expr, self._names):
            self._learned[expr] = str(shown)

    def __call__(self, size: Any) -> Any:
        """An int or a `Size`."""
        expr = expression(size)
        if isinstance(expr, int):
            return expr
        text = self._learned.get(expr) or _polynomial(expr, self._names)
        if not text:
            raise Unconverted(f"the size {expr} is no polynomial")
        return Size.of(self._tracer, self._tracer.size(text))


def attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part)
    return module


def evaluator(size: Any, sources: Mapping[Any, str]) -> Callable[[Any], Any]:
    """A function of a call's arguments. sources: an expression over `args` for each symbol."""
    if isinstance(size, (torch.SymFloat, torch.SymBool)):
        size = size.node.expr
    expr = sympy.sympify(expression(size))
    missing = [str(s) for s in expr.free_symbols if s not in sources]
    if missing:
        raise Unconverted(f"no argument says what {', '.join(missing)} is")
    from torch.utils._sympy.printers import PythonPrinter

    text = PythonPrinter().doprint(expr)
    # The printer's text calls functions of math and of torch (torch.sym_float, for instance).
    names = sorted(expr.free_symbols, key=str)
    given = ", ".join(f"{s}={sources[s]}" for s in names)
    import math

    known = {"math": math, "torch": torch}
    made: Callable[[Any], Any] = eval(f"lambda args: (lambda {given}: {text})()", known)
    return made
