# SPDX-License-Identifier: Apache-2.0
"""`anyop.torch.capture`: a program's graph, what a call needs beside it, its way through torch."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from anyop import _anyop
from anyop._graph.host import raise_as_raised
from anyop.hosting.sentences import clause
from anyop.torch._compile.capture import Capture
from anyop.torch._compile.copies import reduced
from anyop.torch._compile.functional import functionalized, is_functional
from anyop.torch._compile.pipeline import Made, Traced, is_contiguous, make
from anyop.torch._lower.lower import Lowered
from anyop.torch._nodes.memory import Roots
from anyop.torch._nodes.sizes import Unconverted, attribute
from anyop.torch._route import fast


def capture(
    program: Any, *args: Any, dynamic: Any = None, freeze: bool = False, name: str = "",
    **kwargs: Any,
) -> Any:  # fmt: skip
    """See anyop.torch.capture."""
    if isinstance(program, torch.export.ExportedProgram):
        return _exported(program, freeze, name)
    if not callable(program):
        raise _anyop.WrongType(
            f"anyop.torch.capture: the program is {_anyop.show(program)}, but must be a function, "
            "a module or an exported program."
        )
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
    graph, rows, has_conditions = details.parts()
    return _anyop.Captured(graph, details, rows, has_conditions)


class Details:
    """What a captured graph was made of. Reports read it (report.Made)."""

    def __init__(self, source: Capture, freeze: bool) -> None:
        self.source, self.freeze, self.name = source, freeze, source.name
        self.made: Made | None = None
        self.spread: Spread | None = None
        self.why_untraced = ""  # with the tensors that the program holds as they are now
        self.make()

    @property
    def lowered(self) -> Lowered | None:
        return self.made.lowered if self.made is not None else None

    def make(self) -> None:
        """The graph of what the bound tensors are now."""
        self.made, self.why_not = None, self.why_untraced
        if not self.why_untraced:
            self.made, self.why_not = make(self.traced())
        self.source.forget_tensors()
        self.conditions = [] if self.why_untraced else self.source.conditions()
        if self.made is not None:
            self.rows = self.made.lowered.bound
        else:  # the trace is run by torch: it must be made anew if a tensor gets another form
            self.rows = [(-1, t, False) for t in self.source.held() if fast.status()["active"]]
        read = self.source.read if fast.status()["active"] else []
        self.rows = [*self.rows, *((-1, tensor, True) for tensor in read)]
        self.forms = self.forms_now()

    def forms_now(self) -> list[Any]:
        """The forms of tensors, and the contents that the program asked for while it was traced. If
        one changes, the program must be traced anew."""
        return [*map(_form, (t for _, t, _ in self.rows)), *map(_contents, self.source.read)]

    def traced(self) -> Traced:
        source = self.source

        def functional(module: GraphModule) -> GraphModule:
            _refuse_reshaping(source)
            if is_functional(module):
                return module
            with _disable_current_modes():
                return functionalized(module, source.fakes, source.mode)

        def named(module: GraphModule) -> None:
            placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
            for node, name in zip(placeholders, source.names, strict=True):
                node.name = name
            for node in module.graph.nodes:
                if node.op == "get_attr":
                    tensor = attribute(module, str(node.target))
                    node.name = source.known.get(id(tensor), node.name)

        return Traced(
            source.module, self.name, functional, is_contiguous, named, is_frozen=self.freeze,
            symbols=source.symbols, is_single=source.out_spec.is_leaf(),
        )  # fmt: skip

    def parts(self) -> tuple[Any, Any, bool]:
        """What is called, the rows of HeldTensors, whether new sizes must be checked before."""
        made = self.made
        if made is not None and self.spread is None and self.is_direct(made):
            return made.lowered.graph, self.rows, bool(self.conditions)
        return (self.spread or Spread(self)), self.rows, False

    def is_direct(self, made: Made) -> bool:
        """Whether a call of the program is a call of the graph: tensors in, tensors out."""
        source, out = self.source, self.source.out_spec
        is_row = out.type is tuple and all(s.is_leaf() for s in out.children())
        takes_all = made.lowered.inputs == list(range(len(source.fakes)))
        return made.is_plain and source.is_flat and takes_all and (out.is_leaf() or is_row)

    def refresh(self) -> tuple[Any, Any, bool]:
        """The parts, as the bound tensors are now."""
        self.previous = self.made  # another thread may be in a call of it
        with torch.no_grad():
            if self.forms != self.forms_now():
                self.trace_again()
            self.make()
        return self.parts()

    def trace_again(self) -> None:
        try:
            self.source, self.why_untraced = self.source.again(), ""
        except Exception as error:  # a call of the program says what it has to say of it
            said = clause(error, self.name)
            self.why_untraced = f"a tensor got another form, and tracing says: {said}"

    def check(self, *args: Any, **_: Any) -> bool:
        """Whether the graph is of these sizes: not always where some are below 2. Refuses others
        for which the program would have done something else."""
        if not all(isinstance(a, torch.Tensor) for a in args):
            return True
        is_of_graph = True
        for holds, text, place, is_of_small in self.conditions:
            if holds(args):
                continue
            if is_of_small:
                is_of_graph = False
                continue
            shown = ", ".join(
                f"{n} is {list(a.shape)}" for n, a in zip(self.source.names, args, strict=False)
            )
            at = f" at {place}" if place else ""
            raise _anyop.InvalidArgument(
                f"{self.name}: {text} must hold, as the program asks for it{at}, but {shown}. Try "
                "another graph for such sizes."
            )
        return is_of_graph

    def check_elsewhere(self, error: Exception, tensors: Sequence[Any]) -> None:
        """Raises an error of the graph again, unless it refused arguments that are legal: memory
        with gaps, or shared, that is written."""
        raise_as_raised(error)
        if not self.source.fits(tensors) or _anyop.is_strict() or _asks_for_gradient(tensors):
            raise error
        self.check(*tensors)

    def elsewhere(self, error: Exception, *args: Any) -> Any:
        """A call that the graph refused, through torch."""
        self.check_elsewhere(error, args)
        return self.through_torch(args)

    def raise_again(self, error: Exception) -> None:
        """An error of a graph that had written something: what a part of the program raised, as it
        is."""
        raise_as_raised(error)
        raise error

    def through_torch(self, tensors: Sequence[Any]) -> Any:
        """What the program returns. Where a mode or a transformation of functions is on, the
        program itself is called: a mode acts on what it calls, not on what that was traced as, and
        its derivatives are those that it defines."""
        source = self.source
        if self.why_untraced or is_transformed() or _anyop.torch_reason(_PLAIN):
            return self.call(*tensors)
        with torch.no_grad():
            return source.tree(list(source.module(*tensors)))

    def call(self, *tensors: Any) -> Any:
        """The program itself."""
        with contextlib.nullcontext() if is_transformed() else torch.no_grad():
            return self.source.call(tensors)

    def is_shared(self, tensors: Sequence[Any]) -> bool:
        """Whether memory that is overwritten at the end is also that of another tensor."""
        targets = self.made.targets if self.made is not None else []
        if not targets:
            return False
        written = [tensors[at] if isinstance(at, int) else at for at in targets]
        others = [*tensors, *(row[1] for row in self.rows)]
        # A tensor counts once, though it may be an argument, bound and written.
        once = {id(t): t.untyped_storage().data_ptr() for t in (*others, *written)}
        places = Counter(once.values())
        return any(places[once[id(w)]] > 1 for w in written)

    def report(self) -> Any:
        from anyop.torch._compile.report import report_of

        return report_of([self])

    def reduced(self) -> tuple[Any, ...]:
        """The function and arguments by which pickle makes the captured graph again."""
        source = self.source
        made: tuple[Any, ...] = reduced(capture, source.made_of, source.modes, self.freeze)
        return made


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
        """An attribute of the graph: callers need not know that more than a graph is called."""
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
        return self.run(tensors) if details.check(*tensors) else details.call(*tensors)

    def run(self, tensors: list[Any]) -> Any:
        details, made = self.details, self.details.made
        if made is None or details.is_shared(tensors):
            return details.through_torch(tensors)
        try:
            outs = made.lowered.graph(*[tensors[i] for i in made.lowered.inputs])
        except _anyop.Error as error:
            if _anyop.graph_has_written():
                details.raise_again(error)
            return details.elsewhere(error, *tensors)
        outs = outs if isinstance(outs, tuple) else (outs,)
        return details.source.tree(made.finish(outs, tensors))


_PLAIN = torch.zeros(1)


def is_transformed() -> bool:
    """Whether a call is one of vmap, grad, jvp and the like, or of forward-mode AD."""
    is_within = torch._C._functorch.peek_interpreter_stack() is not None
    return is_within or torch.autograd.forward_ad._current_level >= 0


def _asks_for_gradient(tensors: Sequence[Any]) -> bool:
    """Whether autograd wants one, which no graph has. In transformations torch computes it."""
    is_on = torch.is_grad_enabled() and not is_transformed()
    return is_on and any(t.requires_grad for t in tensors)


def _contents(tensor: torch.Tensor) -> tuple[int, int]:
    """A value that changes when a tensor is written, as far as torch counts that."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def _form(tensor: torch.Tensor) -> Any:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()
