# SPDX-License-Identifier: Apache-2.0
"""A torch program that runs as a graph of anyop's: made at its first call, from real tensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from anyop import _anyop
from anyop._graph.host import raise_as_raised
from anyop.torch._compile.numbers import Numbers, is_same
from anyop.torch._compile.pipeline import Made, Traced, is_contiguous, make
from anyop.torch._lower.defects import log_defect
from anyop.torch._lower.lower import Lowered
from anyop.torch._route import fast
from anyop.torch._route.route import environment


class Program:
    """A graph of functional ATen operators. Called with all of its arguments, in a list or tuple.

    bound: places of arguments that stay the same tensors from call to call: the graph reads them
    where they lie and is made anew if one moves, or, where they are frozen, is written.
    """

    def __init__(
        self, module: GraphModule, bound: Sequence[int] = (), frozen: bool = False, name: str = ""
    ) -> None:
        self.module, self.bound_places, self.frozen = module, list(bound), frozen
        self.name = name or "program"
        self.lowered: Lowered | None = None
        self.bound: Any = None  # HeldTensors
        self.numbers = Numbers()
        self.why_not = ""  # why all of it runs through torch
        self.calls = self.ns = 0
        self._lock = threading.Lock()
        self._call: Callable[[Any], Any] | None = None

    def __call__(self, args: Any) -> Any:
        call, bound = self._call, self.bound
        if call is None or (bound is not None and not bound.hold(args)) or not _are(call, args):
            call = self.make(args)
        return call(args)

    def make(self, args: Any) -> Callable[[Any], Any]:
        """The graph of these arguments' types."""
        with self._lock, torch.no_grad(), _disable_current_modes():
            # Another thread may have made it while this one waited.
            is_bound = self.bound is None or self.bound.hold(args)
            if self._call is not None and is_bound and _are(self._call, args):
                return self._call
            self._call = self._made(list(args))
            return self._call

    def _made(self, args: list[Any]) -> Callable[[Any], Any]:
        made = None
        self.why_not = "" if fast.status()["active"] else str(fast.status()["reason"])
        if not self.why_not:
            made, self.why_not = make(self._traced(args))
        if made is None:
            self.lowered, self.bound = None, None
            self._log()
            return lambda args: self.module(*args)
        self.lowered = made.lowered
        self.bound = _anyop.HeldTensors(made.lowered.bound) if made.lowered.bound else None
        self._log()
        call = _caller(made, self.module)
        call.numbers = self.numbers.values  # type: ignore[attr-defined]
        return call

    def _traced(self, args: list[Any]) -> Traced:
        def functional(module: GraphModule) -> GraphModule:
            """It is functional already, by AOTAutograd, but for its last writes."""
            self.numbers.fix(module, args)
            return module

        bound = {i: t.detach() for i in self.bound_places if isinstance(t := args[i], torch.Tensor)}
        return Traced(
            self.module, self.name, functional, is_contiguous, bound=bound, is_frozen=self.frozen,
            args=args,
        )  # fmt: skip

    def _log(self) -> None:
        if environment("ANYOP_LOG") != "graph":
            return
        from anyop.torch._compile.report import report_of

        print(report_of([self]), file=sys.stderr)


def _are(call: Callable[[Any], Any], args: Any) -> bool:
    """Whether numbers are what a call was made for."""
    values = getattr(call, "numbers", None)
    return not values or all(is_same(args[i], value) for i, value in values.items())


def _is_first_call() -> bool:
    """Whether the only mode is the one in which AOTAutograd makes a program's first call."""
    modes = _get_current_dispatch_mode_stack()
    first = "_AnalyzeCustomOpInputOutputMode"
    return bool(modes) and all(type(mode).__name__ == first for mode in modes)


def _is_torchs(arg: Any) -> bool:
    """Whether no graph takes an argument that torch takes: conjugate, a size of nested tensors."""
    if isinstance(arg, torch.Tensor):
        return bool(_anyop.torch_reason(arg))
    return isinstance(arg, torch.SymInt)


def _caller(made: Made, module: GraphModule) -> Callable[[Any], Any]:
    """The function that runs per call: it gathers the graph's arguments, runs the graph and makes
    the program's results of its results."""
    lowered = made.lowered
    graph, inputs, is_plain = lowered.graph, lowered.inputs, made.is_plain
    reason, probe = _anyop.torch_reason, torch.zeros(1)

    def run(args: Any) -> Any:
        given = [args[i] for i in inputs]
        try:
            if reason(probe):  # a profiler, a mode: torch itself must see the calls
                if not _is_first_call():
                    return module(*args)
                with _disable_current_modes():
                    outs = graph(*given)
            else:
                outs = graph(*given)
        except _anyop.Error as error:
            raise_as_raised(error)
            if _anyop.graph_has_written() or _anyop.is_strict():
                raise
            through_torch = module(*args)  # which raises what torch has to say of the arguments
            if not any(map(_is_torchs, args)):
                log_defect(graph.name, error)
            return through_torch
        return outs if is_plain else made.finish(outs, args)

    return run
