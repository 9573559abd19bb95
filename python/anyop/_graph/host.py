# SPDX-License-Identifier: Apache-2.0
"""Host nodes: calls of Python functions as part of a graph. `anyop.host`, and parts of torch
programs that have no operator.

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

TORCH = "torch_host"  # the library of parts that take tensors, whoever calls

_operators: dict[tuple[str, str], Callable[..., Any]] = {}  # by library and signature
# Of the parts that are alive. Operators outlive them, so they know a part by its number alone.
_rows: dict[int, _Row] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()
_now = threading.local()  # .row: runs in this thread; .error: what the last one raised


class _Row:
    """What a call of a part needs."""

    __slots__ = ("calls", "function", "name", "ns")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self.calls = self.ns = 0


class Part:
    """A function of arrays or tensors, with what its calls cost so far. Ends with its graphs."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], place: str) -> None:
        self.names, self.place, self.number = list(names), place, next(_numbers)
        self._row = _rows[self.number] = _Row(function, self.names[0])
        weakref.finalize(self, _rows.pop, self.number, None)

    @property
    def calls(self) -> int:
        return self._row.calls

    @property
    def ns(self) -> int:
        return self._row.ns


def run(number: int, *args: Any, _clock: Any = time.perf_counter_ns) -> Any:
    """The kernel of every host node."""
    row = _rows.get(number)
    if row is None:
        raise _anyop.InvalidArgument(
            f"part {number} is gone with the graph that it was made for. Try to keep that graph."
        )
    _now.row = row
    start = _clock()
    try:
        result = row.function(*args)
    except RecursionError:  # reaches the caller as it is
        raise
    except Exception as error:
        _now.error = error
        raise
    row.ns += _clock() - start
    row.calls += 1
    return result


def raise_as_raised(error: BaseException) -> None:
    """Raises again the exception of a part, if a graph's error was made of it: such an error holds
    the exception's text. Does nothing for an error of the graph's own, even if a part failed in
    this thread before and nobody asked for its exception.
    """
    raised: BaseException | None = getattr(_now, "error", None)
    _now.error = None
    text = f"{type(raised).__name__}: {raised}".partition("\n")[0].rstrip()
    if raised is not None and text in str(error):
        raise raised from None


class _PartAcceptor(Acceptor):
    """Speaks of the part's function."""

    def __call__(self, function: Any, host: str, returned: Any, results: tuple[Any, ...]) -> None:
        super().__call__(_now.row.name, host, returned, results)


def operator(
    parameters: Sequence[str], results: Sequence[str], library: str = "host"
) -> Callable[..., Any]:
    """The operator that calls a part, given its number first. `x0: f32[4, n]`, ..."""
    rows = ", ".join(["part: int", *parameters])
    signature = f"({rows}) -> ({', '.join(results)})"
    key = (library, signature)
    with _lock:
        if key not in _operators:
            name = f"call_{len(_operators)}"
            names = [r.partition(":")[0] for r in results]
            is_torch = library == TORCH  # operators of torch keep nothing of what they are given
            row = (run, "torch" if is_torch else "", False, is_torch)
            _operators[key] = _anyop.define(
                library, name + signature, "", "", "", "Runs a function of the host.", __file__,
                "host.py", [row], _PartAcceptor(f"{library}.{name}", names),
            )[0]  # fmt: skip
        return _operators[key]
