# SPDX-License-Identifier: Apache-2.0
"""`anyop.host`: code that is no operator, as part of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from anyop import _anyop
from anyop._accept import name_of
from anyop._graph.host import Part, operator
from anyop._graph.number import Number
from anyop._graph.size import Size
from anyop._graph.traced import Traced
from anyop._graph.value import Value

_TYPE = re.compile(r"\s*(\w+)\s*\[(.*)\]\s*\Z")


def host(function: Callable[..., Any], *arguments: Any, result: Any) -> Any:
    """Calls function(*arguments); in a graph, at each call of the graph.

        y = anyop.host(np.cumsum, x, result=x)
        low, high = anyop.host(extremes, x, result=["f32[n]", "f32[n]"])

    result  the type of what the function returns: `"f32[n, 2*k]"` over names of sizes of the
            graph, or a value or array of that type; a list of these where it returns a tuple

    While a graph is made, the function is not called. A call of the graph hands it arrays, or
    tensors where the graph is given tensors, and numbers; nothing is copied for it. It returns new
    arrays of the promised types, changes nothing that it was given and keeps none of it. What it
    returns is copied into the graph's memory. Arguments that are neither values of the graph nor
    arrays stay what they are. A call whose results nobody reads is left out. A graph that calls
    functions cannot be saved.

    Without a value of a graph among its arguments this is function(*arguments).

    Errors: WrongType for a function or result that is none. What the function raises, or returns
    and has not promised, is an error of the graph's call that names function and line; what it
    raised is its __cause__.
    """
    traced = [a for a in arguments if isinstance(a, Traced)]
    if not callable(function):
        raise _anyop.WrongType(
            f"anyop.host: the function is {_anyop.show(function)}, but must be one that is called."
        )
    if not traced:
        return function(*arguments)
    return _Call(function, arguments, traced[0]._tracer).record(result)


class _Call:
    """One call that becomes a node. Its function gets the operands in their places."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], tracer: Any) -> None:
        self.function, self.tracer = function, tracer
        self.place = tracer.place()
        self.name = f"{name_of(function)}()"
        self.fixed = list(arguments)
        self.parameters: list[str] = []
        self.operands: list[Any] = []
        self.places: list[int] = []
        for place, argument in enumerate(arguments):
            kind = self.kind_of(argument)
            if kind:
                self.places.append(place)
                self.parameters.append(f"x{len(self.places)}: {kind}")
                self.operands.append(argument)

    def kind_of(self, argument: Any) -> str:
        """The type of an operand; "" for what stays as it is."""
        n = len(self.places)
        if isinstance(argument, Size):
            return "int"
        if isinstance(argument, Number):
            return str(self.tracer.describe(argument._id)[1])
        if isinstance(argument, Value):
            _, _, dtype, shape = self.tracer.describe(argument._id)
        elif hasattr(argument, "dtype") and getattr(argument, "shape", None) is not None:
            dtype, shape = _anyop.dtype_name(argument.dtype), tuple(argument.shape)
        else:
            return ""
        # Each size has its own name, as only the function knows which of them must be equal.
        return f"{dtype}[{', '.join(f'd{n}_{i}' for i in range(len(shape)))}]"

    def record(self, result: Any) -> Any:
        many = isinstance(result, (list, tuple))
        types = [self.type_of(r) for r in (result if many else [result])]
        sizes = [n for _, shape in types for n in shape]
        # Numbers of their own: the operands need not tell the sizes of what the function returns.
        parameters = [f"s{i}: int" for i in range(len(sizes))] + self.parameters
        results, at = [], 0
        for k, (dtype, shape) in enumerate(types):
            names = [f"s{at + i}" for i in range(len(shape))]
            results.append(f"y{k}: {dtype}[{', '.join(names)}]")
            at += len(shape)
        is_row = many and len(types) == 1
        part = Part(self.bound(len(sizes), is_row), [self.name], self.place)
        self.tracer.keep(part)
        made = operator(parameters, results)(part.number, *sizes, *self.operands)
        return (made,) if is_row else tuple(made) if many else made

    def bound(self, n_sizes: int, is_row: bool) -> Callable[..., Any]:
        """What the part runs. is_row: the function returns a tuple of one."""
        function, fixed, places = self.function, self.fixed, self.places
        name, place = self.name, self.place

        def call(*given: Any) -> Any:
            arguments = list(fixed)
            for at, value in zip(places, given[n_sizes:], strict=True):
                arguments[at] = value
            try:
                made = function(*arguments)
                return made[0] if is_row else made
            except RecursionError:  # reaches the caller as it is
                raise
            except Exception as error:
                text = str(error)
                raise _anyop.InvalidArgument(
                    f"{name}, which {place} hands to anyop.host, raised "
                    f"{type(error).__name__}: {text}{'' if text.endswith('.') else '.'}"
                ) from error

        return call

    def type_of(self, result: Any) -> tuple[str, tuple[Any, ...]]:
        """dtype and sizes."""
        if isinstance(result, Value):
            _, _, dtype, _ = self.tracer.describe(result._id)
            return dtype, result.shape
        if not isinstance(result, str):
            dtype, shape = getattr(result, "dtype", None), getattr(result, "shape", None)
            if dtype is None or shape is None:
                self.refuse(_anyop.show(result))
            return _anyop.dtype_name(dtype), tuple(int(n) for n in shape)
        found = _TYPE.match(result)
        if not found:
            self.refuse(_anyop.show(result))
        dtype, inner = found.groups()
        try:
            _anyop.numpy_dtype(dtype)
        except _anyop.InvalidArgument:
            self.refuse(_anyop.show(result))
        sizes = [n.strip() for n in inner.split(",")] if inner.strip() else []
        return dtype, tuple(Size.of(self.tracer, self.tracer.size(n)) for n in sizes)

    def refuse(self, shown: str) -> NoReturn:
        raise _anyop.WrongType(
            f"anyop.host: {self.place} says that {self.name} returns {shown}, but must give a type "
            "like 'f32[n, 64]', a value of that type, or a list of these."
        )
