# SPDX-License-Identifier: Apache-2.0
"""`anyop.torch.capture`: a program's graph, what a call needs beside it, its way through torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from anyop import _anyop
from anyop._graph.host import raise_as_raised
from anyop.torch._compile.capture import Capture
from anyop.torch._compile.functional import functionalized, is_functional
from anyop.torch._compile.in_place import lower_mutation
from anyop.torch._compile.program import attempt, copy_of, plan_results
from anyop.torch._lower.lower import Lowered, Lowering
from anyop.torch._lower.source import Source
from anyop.torch._nodes.fold import fold_constants
from anyop.torch._nodes.memory import Roots
from anyop.torch._nodes.sizes import Unconverted, attribute
from anyop.torch.names import aten_patterns


def capture(
    program: Any, *args: Any, dynamic: Any = None, freeze: bool = False, name: str = "",
    **kwargs: Any,
) -> Any:  # fmt: skip
    """See anyop.torch.capture."""
    if isinstance(program, torch.export.ExportedProgram):
        return _exported(program, freeze, name)
    shown = name or getattr(program, "__name__", type(program).__name__).strip("<>")
    with torch.no_grad():
        captured = Capture(shown, program, args, kwargs, dynamic)
        return _made(captured, freeze)


def _exported(program: Any, freeze: bool, name: str) -> Any:
    args, kwargs = program.example_inputs or ((), {})
    users = set(program.graph_signature.user_inputs)
    values = [n.meta.get("val") for n in program.graph.nodes if n.name in users]
    dynamic = [
        {d: str(n) for d, n in enumerate(v.shape) if isinstance(n, torch.SymInt)}
        if isinstance(v, torch.Tensor)
        else None
        for v in values
    ]
    functional = program.run_decompositions({})
    with torch.no_grad():
        module = functional.module()
        captured = Capture(name or "program", module, args, kwargs, dynamic)
        return _made(captured, freeze)


def _made(source: Capture, freeze: bool) -> Any:
    details = Details(source, freeze)
    conditions = bool(details.conditions)
    is_direct = source.is_flat and details.is_plain and source.out_spec.is_leaf()
    if source.is_flat and details.is_plain and source.out_spec.type is tuple:
        is_direct = all(s.is_leaf() for s in source.out_spec.children())
    if is_direct and details.lowered is not None:
        return _anyop.Captured(details.lowered.graph, details, details.rows, conditions)
    return _anyop.Captured(Spread(details), details, details.rows, False)


class Details:
    """What a captured graph was made of. Reports read it (Made)."""

    def __init__(self, source: Capture, freeze: bool) -> None:
        self.source, self.freeze, self.name = source, freeze, source.name
        self.lowered: Lowered | None = None
        self.targets: list[Any] = []  # what the caller overwrites at the end: see target
        self.rows: list[tuple[int, torch.Tensor, bool]] = []
        self.is_plain = False
        self.spread: Spread | None = None
        self.make()
        self.conditions = source.conditions()

    def make(self) -> None:
        lowered, self.why_not = attempt(self.lower, self.name)
        if lowered is None:
            self.lowered, self.rows, self.targets, self.is_plain = None, [], [], False

    def lower(self, is_frugal: bool) -> Lowered:
        source = self.source
        _refuse_reshaping(source)
        module = copy_of(source.module)
        recipes = plan_results(module)
        if not is_functional(module):
            with _disable_current_modes():
                module = functionalized(module, source.fakes, source.mode)
        left = lower_mutation(module, _is_writable, is_frugal)
        if is_frugal:
            aten_patterns.fuse(module)
        else:
            fold_constants(module)
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        for node, name in zip(placeholders, source.names, strict=True):
            node.name = name
        for node in module.graph.nodes:
            if node.op == "get_attr":
                tensor = attribute(module, str(node.target))
                node.name = source.known.get(id(tensor), node.name)
        lowering = Lowering(Source(module, {}, self.freeze, self.name, source.symbols))
        lowered = lowering.run(recipes, source.out_spec.is_leaf())
        self.kept = module  # whose attributes the graph reads
        self.lowered, self.rows = lowered, lowered.bound
        self.targets = [self.target(module, placeholders, node) for node in left]
        takes_all = lowered.inputs == list(range(len(source.fakes)))
        self.is_plain = lowered.returned.is_plain and takes_all
        return lowered

    def target(self, module: GraphModule, placeholders: list[Any], node: Any) -> Any:
        """The place of an argument that the caller overwrites, or a tensor of the program."""
        if node.op == "placeholder":
            return placeholders.index(node)
        return attribute(module, str(node.target))

    def refresh(self) -> tuple[Any, Any]:
        """The graph of what the bound tensors are now, and the rows of BoundTensors."""
        self.previous = self.lowered  # another thread may be in a call
        with torch.no_grad():
            self.make()
        if self.spread is None and self.lowered is not None and self.is_plain:
            return self.lowered.graph, self.rows
        return (self.spread or Spread(self)), self.rows

    def check(self, *args: Any, **_: Any) -> None:
        """Refuses sizes for which the program would have done something else."""
        if not all(isinstance(a, torch.Tensor) for a in args):
            return
        for holds, text, place in self.conditions:
            if holds(args):
                continue
            shown = ", ".join(
                f"{n} is {list(a.shape)}" for n, a in zip(self.source.names, args, strict=False)
            )
            at = f" at {place}" if place else ""
            raise _anyop.InvalidArgument(
                f"{self.name}: {text} must hold, as the program asks for it{at}, but {shown}. Try "
                "another graph for such sizes."
            )

    def check_elsewhere(self, error: Exception, tensors: Sequence[Any]) -> None:
        """Raises an error of the graph again, unless it refused arguments that are legal: memory
        with gaps, or shared, that is written."""
        raise_as_raised(error)
        if not self.source.fits(tensors) or _anyop.is_strict():
            raise error
        self.check(*tensors)

    def elsewhere(self, error: Exception, *args: Any) -> Any:
        """A call that the graph refused, through torch."""
        self.check_elsewhere(error, args)
        return self.source.tree(self.through_torch(args))

    def raise_again(self, error: Exception) -> None:
        """An error of a graph that had begun: what a part of the program raised, as it is."""
        raise_as_raised(error)
        raise error

    def through_torch(self, tensors: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return list(self.source.module(*tensors))

    def is_shared(self, tensors: Sequence[Any]) -> bool:
        """Whether memory that is overwritten at the end is also that of another tensor."""
        if not self.targets:
            return False
        written = [tensors[at] if isinstance(at, int) else at for at in self.targets]
        others = [*tensors, *(row[1] for row in self.rows)]
        once = {id(t): t.untyped_storage().data_ptr() for t in (*others, *written)}
        places = Counter(once.values())
        return any(places[once[id(w)]] > 1 for w in written)

    def report(self) -> Any:
        from anyop.torch._compile.report import report_of

        return report_of([self])


def _refuse_reshaping(source: Capture) -> None:
    """An argument's sizes and strides are changed by torch alone; so is its version counter where
    they stay as they are, as by squeeze_() of a tensor that has no dimension of size 1."""
    if source.reformed:
        raise Unconverted(f"{source.reformed[0]}, an argument, gets another shape or other strides")
    graph = source.module.graph
    roots = Roots(graph)
    for node in graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.inplace_view in tags and roots[node].op == "placeholder":
            raise Unconverted(f"{node.target} of an argument")


class Spread:
    """A call whose arguments or results are more than a row of tensors."""

    def __init__(self, details: Details) -> None:
        self.details = details
        details.spread = self

    def __str__(self) -> str:
        lowered = self.details.lowered
        return str(lowered.graph if lowered is not None else self.details.source.module.graph)

    __repr__ = __str__

    def __getattr__(self, name: str) -> Any:
        """What is asked of a graph."""
        details = self.__dict__["details"]
        if details.lowered is None:
            raise AttributeError(
                f"{details.name} has no graph of anyop's: it runs through torch: {details.why_not}"
            )
        return getattr(details.lowered.graph, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        details, source = self.details, self.details.source
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != source.spec:
            raise _anyop.InvalidArgument(
                f"{source.name}: the arguments are {spec}, but the graph was made of {source.spec}."
            )
        for given, made, is_tensor in zip(leaves, source.leaves, source.is_tensor, strict=True):
            if not is_tensor and given != made:
                raise _anyop.InvalidArgument(
                    f"{source.name}: an argument is {given!r}, but is part of the graph as "
                    f"{made!r}. Try a tensor, or another graph."
                )
        tensors = source.tensors(leaves)
        details.check(*tensors)
        return source.tree(self.run(tensors))

    def run(self, tensors: list[Any]) -> list[Any]:
        details = self.details
        lowered, targets = details.lowered, details.targets
        if lowered is None or details.is_shared(tensors):
            return details.through_torch(tensors)
        try:
            outs = lowered.graph(*[tensors[i] for i in lowered.inputs])
        except _anyop.Error as error:
            if _anyop.graph_has_begun():
                details.raise_again(error)
            details.check_elsewhere(error, tensors)
            return details.through_torch(tensors)
        outs = outs if isinstance(outs, tuple) else (outs,)
        for at, value in zip(targets, outs[len(outs) - len(targets) :], strict=True):
            (tensors[at] if isinstance(at, int) else at.detach()).copy_(value)
        return lowered.returned(outs, tensors)


def _is_writable(node: Any) -> bool:
    """Whether a graph may write to a tensor of the program in place."""
    return bool(node.meta["val"].is_contiguous())
