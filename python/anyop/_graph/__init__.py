# SPDX-License-Identifier: Apache-2.0
"""Graphs: `anyop.graph`."""

from __future__ import annotations

import inspect
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyop import _anyop
from anyop._graph.number import Number
from anyop._graph.size import Size
from anyop._graph.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# The folder of anyop's own Python: errors name the first line of a stack that lies outside of it.
_anyop.graph_classes(Value, str(Path(__file__).parents[1]))
NUMBERS = ("int", "float", "bool")
_TRACING = threading.local()  # .calls: what this thread makes graphs of


def graph(
    function: Callable[..., Any],
    *specs: Any,
    state: Mapping[str, Any] | None = None,
    frozen: Mapping[str, Any] | None = None,
    name: str = "",
) -> _anyop.Graph:
    """Calls `function` once with values that stand for its arguments, and compiles what it did.

        g = anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 64]")
        y = g(x)                                     # any n; planned once per n

    specs   one per argument: a type `"bf16[n, 576]"`, whose sizes are numbers or names; `"int"`,
            `"float"` or `"bool"` for a number of each call; or an array or tensor of that type
    state   names for arrays that the function uses beside its arguments
    frozen  the same for arrays that nobody will change
    name    of the graph, in messages; the function's if it is not given

    Calls of operators on such values are recorded. Arrays and tensors beside them are bound by
    reference: a replay reads them as they are then, and changes them where an operator writes. All
    else that the function does, calls of operators on arrays alone included, happens once, now.
    It returns a tensor, a tuple or list of tensors, or None.

    Errors: InvalidArgument where an operator refuses its arguments, or the function asks for what
    only a call knows, with the line; WrongType where it hands a value to other code.
    """
    if not callable(function):
        raise _anyop.WrongType(
            f"graph: the function is {_anyop.show(function)}, but must be one that calls operators."
            " Try anyop.graph(function, 'f32[n, 64]'), with a type for each argument."
        )
    shown = name or getattr(function, "__name__", "graph").strip("<>")
    names = _argument_names(shown, function, len(specs))
    tracer = _anyop.Tracer(shown)
    arguments = [_input(tracer, n, spec) for n, spec in zip(names, specs, strict=True)]
    for arrays, is_frozen in ((state, False), (frozen, True)):
        for key, array in (arrays or {}).items():
            tracer.state(key, array, is_frozen)
    with _once(shown, (function, str(specs))):
        returned = function(*arguments)
    outputs, kind = _outputs(shown, returned)
    for key, output in zip(_output_names(kind, len(outputs)), outputs, strict=True):
        tracer.output(output, key)
    return tracer.compile(kind)


def _output_names(kind: type[Any] | None, n: int) -> list[str]:
    """The fields of a named tuple; else out0, out1, ..."""
    if kind is None:
        return ["out"] * n
    fields = getattr(kind, "_fields", ())
    is_named = isinstance(fields, tuple) and len(fields) == n
    if is_named and all(isinstance(f, str) for f in fields):
        return list(fields)
    return [f"out{i}" for i in range(n)]


@contextmanager
def _once(name: str, call: tuple[Any, str]) -> Iterator[None]:
    """While the graph of this call is made: refuses to make it once more within itself."""
    calls: list[tuple[Any, str]] = _TRACING.__dict__.setdefault("calls", [])
    if any(f is call[0] and specs == call[1] for f, specs in calls):
        raise _anyop.InvalidArgument(
            f"{name}: the function makes this graph of itself while it is called to make it, which "
            "would never end. Try to make the graph outside of it."
        )
    calls.append(call)
    try:
        yield
    finally:
        calls.pop()


def _argument_names(name: str, function: Callable[..., Any], n: int) -> list[str]:
    """The names of the first n positional parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [f"x{i}" for i in range(n)]
    kinds = inspect.Parameter
    names = [
        p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        p.name
        for p in parameters
        if p.default is kinds.empty and p.kind is not kinds.VAR_POSITIONAL
        and p.kind is not kinds.VAR_KEYWORD
    ]  # fmt: skip
    takes_more = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    if takes_more:
        names += [f"x{i}" for i in range(len(names), n)]
    if n > len(names) or any(p not in names[:n] for p in needed):
        raise _anyop.InvalidArgument(
            f"{name}: {n} {'type is' if n == 1 else 'types are'} given, but the function takes "
            f"({', '.join(names)}). Try one per argument."
        )
    return names[:n]


def _input(tracer: _anyop.Tracer, name: str, spec: Any) -> Any:
    if not isinstance(spec, str):
        spec = _type_of(name, spec)
    number = tracer.input(name, spec.strip())
    if spec.strip() == "int":
        return Size(tracer, name)
    return Number(tracer, number) if spec.strip() in NUMBERS else Value(tracer, number)


def _type_of(name: str, array: Any) -> str:
    """The type of an example."""
    dtype, shape = getattr(array, "dtype", None), getattr(array, "shape", None)
    if dtype is None or shape is None:
        raise _anyop.WrongType(
            f"graph: the type of {name} is {_anyop.show(array)}, but must be a str like "
            "'f32[n, 64]', 'int', 'float' or 'bool', or an array."
        )
    return f"{_anyop.dtype_name(dtype)}[{', '.join(str(int(n)) for n in shape)}]"


def _outputs(name: str, returned: Any) -> tuple[list[Any], type[Any] | None]:
    """The tensors that were returned, and the type of tuple in which a call returns its own; None
    for one tensor, or for none.
    """
    if returned is None:
        return [], None
    if isinstance(returned, tuple):
        return list(returned), type(returned)
    if isinstance(returned, list):
        return returned, tuple
    if isinstance(returned, (dict, set, str)):
        raise _anyop.WrongType(
            f"{name}: the function returns a {type(returned).__name__}, but must return a tensor "
            "or a tuple of tensors."
        )
    return [returned], None
