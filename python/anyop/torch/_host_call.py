# SPDX-License-Identifier: Apache-2.0
"""Host nodes: parts of a torch program that run through torch, as a call of the graph.

A part is a function in a table, and the operator that calls it is one per signature: all parts
whose tensors are of the same types share it. Operators live as long as the process, parts as long
as the graphs that call them.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from anyop import _anyop
from anyop._accept import Acceptor

LIBRARY = "torch_host"

_operators: dict[str, Callable[..., Any]] = {}  # by the signature behind its name
_parts: weakref.WeakValueDictionary[int, Part] = weakref.WeakValueDictionary()
_numbers = itertools.count(1)
_lock = threading.Lock()
_raised = threading.local()


class Part:
    """A function of torch tensors, with what its calls cost so far."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], place: str) -> None:
        self.function, self.names, self.place = function, list(names), place
        self.calls = 0
        self.ns = 0
        self.number = next(_numbers)
        _parts[self.number] = self

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter_ns()
        result = self.function(*args)
        self.ns += time.perf_counter_ns() - start
        self.calls += 1
        return result


def _run(number: int, *args: Any) -> Any:
    try:
        return _parts[number](*args)
    except Exception as error:
        _raised.error = error
        raise


def take_raised() -> BaseException | None:
    """What the last part that failed in this thread raised; a graph's error is made of its text."""
    error = getattr(_raised, "error", None)
    _raised.error = None
    return error


def operator(parameters: Sequence[str], results: Sequence[str]) -> Callable[..., Any]:
    """The operator that calls a part, given its number first. `x0: f32[4, n]`, ..."""
    signature = f"(part: int, {', '.join(parameters)}) -> ({', '.join(results)})"
    signature = signature.replace("int, )", "int)")
    with _lock:
        if signature not in _operators:
            name = f"call_{len(_operators)}"
            names = [r.partition(":")[0] for r in results]
            row = (_run, True, False)
            _operators[signature] = _anyop.define(
                LIBRARY, name + signature, "", "", "", "Runs a part of a torch program.",
                __file__, "_host_call.py", row, row, Acceptor(f"{LIBRARY}.{name}", names),
            )[0]  # fmt: skip
        return _operators[signature]
