# SPDX-License-Identifier: Apache-2.0
"""A torch program that runs as a graph of anyop's: made at its first call, from real tensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from anyop import _anyop
from anyop._graph.host import raise_as_raised
from anyop.torch._compile.in_place import lower_mutation
from anyop.torch._compile.numbers import Numbers, is_same
from anyop.torch._lower.defects import log_defect
from anyop.torch._lower.lower import Lowered, Lowering
from anyop.torch._lower.outputs import Recipes, plan
from anyop.torch._lower.source import Source
from anyop.torch._nodes.fold import fold_constants
from anyop.torch._nodes.sizes import Fatal, Unconverted, attribute
from anyop.torch._route import fast
from anyop.torch._route.route import environment
from anyop.torch.names import aten_patterns


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
        self.bound: Any = None  # BoundTensors
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
            is_bound = self.bound is None or self.bound.hold(args)
            if self._call is not None and is_bound and _are(self._call, args):
                return self._call
            self._call = self._made(list(args))
            return self._call

    def _made(self, args: list[Any]) -> Callable[[Any], Any]:
        self.why_not = "" if fast.status()["active"] else str(fast.status()["reason"])
        if not self.why_not:
            made: Callable[[Any], Any] | None
            made, self.why_not = attempt(lambda is_frugal: self._lower(args, is_frugal), self.name)
            if made is not None:
                return made
        self.lowered, self.bound = None, None
        self._log()
        return lambda args: self.module(*args)

    def _lower(self, args: list[Any], is_frugal: bool) -> Callable[[Any], Any]:
        module = copy_of(self.module)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        bound = {
            placeholders[i]: args[i].detach()
            for i in self.bound_places
            if isinstance(args[i], torch.Tensor)
        }

        def is_writable(node: Node) -> bool:
            return bool(node.meta["val"].is_contiguous())

        recipes = plan_results(module)
        self.numbers.fix(module, args)
        left = lower_mutation(module, is_writable, is_frugal)
        if is_frugal:
            aten_patterns.fuse(module)
        else:
            fold_constants(module)
        lowered = Lowering(Source(module, bound, self.frozen, self.name)).run(recipes)
        self.lowered = lowered
        self.bound = _anyop.BoundTensors(lowered.bound) if lowered.bound else None
        self._log()
        targets = [placeholders.index(target) for target in left]
        call = _caller(lowered, targets, self.module)
        call.numbers = self.numbers.values  # type: ignore[attr-defined]
        return call

    def _log(self) -> None:
        if environment("ANYOP_LOG") != "graph":
            return
        from anyop.torch._compile.report import report_of

        print(report_of([self]), file=sys.stderr)


def _are(call: Callable[[Any], Any], args: Any) -> bool:
    """Whether numbers are what a call was made for."""
    values = getattr(call, "numbers", None)
    return not values or all(is_same(args[i], value) for i, value in values.items())


def copy_of(module: GraphModule) -> GraphModule:
    """With a graph of its own, and the same tensors, detached."""
    graph = torch.fx.Graph()
    values: dict[Node, Node] = {}
    returned = graph.graph_copy(module.graph, values)
    for old, new in values.items():
        new.meta = dict(old.meta)
    graph.output(returned)
    first: dict[int, Node] = {}  # one node per tensor
    for node in list(graph.nodes):
        if node.op == "get_attr":
            same = first.setdefault(id(attribute(module, str(node.target))), node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)
    return GraphModule(module, graph)


def plan_results(module: GraphModule) -> Recipes:
    """How the module's results are made; it returns only what they are made of from now on."""
    recipes = plan(module)
    (output,) = (n for n in module.graph.nodes if n.op == "output")
    output.args = (tuple(recipes.roots),)
    return recipes


def attempt(lower: Callable[[bool], Any], name: str) -> tuple[Any, str]:
    """(what lower makes, "") or (None, why it makes nothing). It is asked twice: with all that
    saves work, and with less of it, where that is what fails.

    An exception that is no refusal is a defect of anyop's: it is logged, and the program runs
    through torch. In strict mode both are errors.
    """
    why = ""
    for is_frugal in (True, False):
        try:
            return lower(is_frugal), ""
        except (Unconverted, Fatal, _anyop.Error) as error:
            why = why or str(error)
        except Exception as error:
            if _anyop.is_strict():
                raise
            why = why or f"{type(error).__name__}: {error}"
            log_defect(name, error)
    if _anyop.is_strict():
        raise _anyop.Unsupported(
            f"{name}: it runs through torch: {why}. Try it without anyop.strict()."
        )
    return None, why


def _is_first_call() -> bool:
    """Whether the only mode is the one in which AOTAutograd makes a program's first call."""
    modes = _get_current_dispatch_mode_stack()
    first = "_AnalyzeCustomOpInputOutputMode"
    return bool(modes) and all(type(mode).__name__ == first for mode in modes)


def _caller(lowered: Lowered, targets: list[int], module: GraphModule) -> Callable[[Any], Any]:
    """What runs per call: arguments for the graph, the graph, results of what it returned."""
    graph, inputs, parts, returned = lowered.graph, lowered.inputs, lowered.parts, lowered.returned
    reason, probe = _anyop.torch_reason, torch.zeros(1)

    def run(args: Any, _keeps: Any = parts) -> Any:
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
            if _anyop.graph_has_begun() or _anyop.is_strict():
                raise
            log_defect(graph.name, error)
            return module(*args)
        if returned.is_plain:
            return outs
        for at, value in zip(targets, outs[len(outs) - len(targets) :], strict=True):
            args[at].copy_(value)
        return returned(outs, args)

    return run
