# SPDX-License-Identifier: Apache-2.0
"""A torch program, traced with examples of its arguments."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx import GraphModule
from torch.fx import traceback as fx_traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from anyop import _anyop
from anyop.hosting.sentences import clause
from anyop.torch._compile.comparisons import Comparisons, remember_class
from anyop.torch._compile.modes import in_modes, modes_of
from anyop.torch._lower.outputs import sizes_of_arguments
from anyop.torch._nodes.lines import shown_place, user_frames, user_place
from anyop.torch._nodes.sizes import attribute, evaluator, expression


class _Shapes(ShapeEnv):
    """Keeps the user's line of each decision about sizes."""

    def __init__(self) -> None:
        # Else torch takes equal sizes of the example for one size, and 0 and 1 for fixed ones.
        super().__init__(duck_shape=False, specialize_zero_one=False)
        self.places: dict[int, str] = {}  # by id of the guard

    def evaluate_expr(self, *args: Any, **kwargs: Any) -> Any:
        known = len(self.guards)
        result = super().evaluate_expr(*args, **kwargs)
        for guard in self.guards[known:]:
            self.places[id(guard)] = shown_place(user_frames())
        return result


# A torch operator of which no fake knows sizes that vary, as constant_pad_nd by less than nothing,
# or expand of a tensor without elements.
_KNOWS_NO_SYMBOLS = (
    "with symbolic sizes/strides",
    "SymIntArrayRef expected to contain only concrete integers",
    "0 not in VR[1, 1]",
)


# Operators whose results tell of elements.
_ASKS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_ARRAYS = (torch.Tensor.numpy, torch.Tensor.__array__)


class _Reshapes(Exception):
    """A program changes the sizes or strides of a tensor that is no argument."""

    def __init__(self, func: Any) -> None:
        name = func._schema.name.partition("::")[2]
        super().__init__(f"changes by {name} the form of a tensor that the program holds")


class _Lines(TorchDispatchMode):
    """Tells the tracer the user's line of each operator.

    torch computes with single numbers, and where all tensors are real ones, while it traces, writes
    included: these are taken back.
    """

    supports_higher_order_operators = True

    def __init__(self, comparisons: Comparisons) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.comparisons = comparisons
        self.written: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # and their contents
        self.held: dict[int, torch.Tensor] = {}  # real ones that came from outside
        self.made: dict[int, torch.Tensor] = {}  # in the program
        self.is_read = False  # whether the program asked for elements of these

    def take_back(self) -> None:
        with _disable_current_modes():
            for tensor, before in self.written.values():
                tensor.detach().copy_(before)

    def keep(self, func: Any, args: Any) -> None:
        if not func._schema.is_mutable:
            return
        tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        real = [t for t in tensors if not isinstance(t, FakeTensor)]
        for t in real:
            if (t.numel() == 1 or len(real) == len(tensors)) and id(t) not in self.written:
                with _disable_current_modes():
                    self.written[id(t)] = (t, t.detach().clone())

    def note_reads(self, func: Any, args: Any, made: Any) -> None:
        """What the program asks of tensors that it holds is part of what is traced. torch computes
        with these; of others nobody knows elements, so that asking raises."""
        tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        real = [t for t in tensors if not isinstance(t, FakeTensor)]
        is_real = len(real) == len(tensors)
        self.note(t for t in real if is_real or t.numel() == 1)
        results = [t for t in pytree.tree_leaves(made) if isinstance(t, torch.Tensor)]
        own = [t for t in results if not isinstance(t, FakeTensor)]
        self.made.update((id(t), t) for t in own if id(t) not in self.held)
        self.is_read |= not _ASKS.isdisjoint(func.tags)

    def note(self, tensors: Iterable[torch.Tensor]) -> None:
        self.held.update((id(t), t) for t in tensors if id(t) not in self.made)

    def refuse_reshaping(self, func: Any, args: Any) -> None:
        """Refuses to change the form of a real tensor in place: tracing itself would change it."""
        if torch.Tag.inplace_view not in func.tags:
            return
        tensors = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        if tensors and not isinstance(tensors[0], FakeTensor):
            raise _Reshapes(func)

    def refuse_resizing(self, func: Any, kwargs: Any, made: Any) -> None:
        """As refuse_reshaping, for a tensor given as `out=` that the call has resized."""
        names = [a.name for a in func._schema.arguments if a.is_out]
        outs = [kwargs[name] for name in names if name in kwargs]
        for out, result in zip(outs, pytree.tree_leaves(made), strict=False):
            if not isinstance(out, FakeTensor) and out.shape != result.shape:
                raise _Reshapes(func)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frames = user_frames()[-1:]
        fx_traceback.set_stack_trace([f'File "{f.filename}", line {f.lineno}' for f in frames])
        if not isinstance(func, torch._ops.OpOverload):  # torch.cond and the like trace their parts
            return func(*args, **(kwargs or {}))
        self.refuse_reshaping(func, args)
        self.keep(func, (args, kwargs))
        self.comparisons.see(func, args)
        made = func(*args, **(kwargs or {}))
        self.note_reads(func, (args, kwargs), made)
        if func._schema.is_mutable:
            self.refuse_resizing(func, kwargs or {}, made)
        return made


class _Reads(TorchFunctionMode):
    """Sees what reads a tensor's memory without an operator."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self.lines = lines

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _ARRAYS:  # over memory that tracing does not fill
            raise DataDependentOutputException(func)
        if func is torch.Tensor.tolist and not isinstance(args[0], FakeTensor):
            self.lines.note(args[:1])
            self.lines.is_read = True
        return func(*args, **(kwargs or {}))


class Capture:
    """One program with examples of its arguments."""

    def __init__(
        self, name: str, program: Callable[..., Any], args: tuple[Any, ...],
        kwargs: dict[str, Any], dynamic: Any,
    ) -> None:  # fmt: skip
        self.name, self.program = name, program
        self.made_of = (name, program, args, kwargs, dynamic)
        self.modes = modes_of(program)
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.is_tensor = [isinstance(leaf, torch.Tensor) for leaf in self.leaves]
        self.names = _leaf_names(program, args, kwargs)
        self.is_flat = all(isinstance(a, torch.Tensor) for a in (*args, *kwargs.values()))
        self.known: dict[int, str] = {}  # names of a module's tensors, by id
        if isinstance(program, torch.nn.Module):
            for key, tensor in (*program.named_parameters(), *program.named_buffers()):
                self.known[id(tensor)] = re.sub(r"\W", "_", key)
        self.refuse_nested()
        dims = _dynamic_dims(name, dynamic, self, args, kwargs)
        self.comparisons = Comparisons(name)
        traced = self.traced(dims)
        while self.comparisons.is_doubtful:
            traced = self.traced(dims)
        self.reformed = self.reformed_by_program(traced)
        self.check_dynamic()

    def refuse_nested(self) -> None:
        for name, tensor in zip(self.names, self.tensors(self.leaves), strict=True):
            if tensor.is_nested:
                raise _anyop.InvalidArgument(
                    f"{self.name}: {name} is nested, but must be a strided tensor, whose sizes are "
                    f"those of a graph. Try {name}.to_padded_tensor(0.0)."
                )

    def traced(self, dims: list[dict[int, str]]) -> list[Any]:
        """Traces the program. What stood for the arguments."""
        self.symbols: dict[Any, str] = {}
        self.shapes = _Shapes()
        traced = self.fake_inputs(dims)
        self.fakes = [fake.detach() for fake in traced]  # of the types before the program ran
        with self.comparisons.ordered():
            self.module = self.trace(traced)
        return traced

    def fake_inputs(self, dims: list[dict[int, str]]) -> list[Any]:
        self.mode = FakeTensorMode(shape_env=self.shapes, allow_non_fake_inputs=True)
        first: dict[str, Any] = {}
        fakes = []
        self.wanted: list[tuple[int, int, str]] = []  # tensor, dimension, its name
        for i, tensor in enumerate(self.tensors(self.leaves)):
            mine = dims[i]
            kinds = [DimDynamic.DYNAMIC if d in mine else DimDynamic.STATIC
                     for d in range(tensor.dim())]  # fmt: skip
            fake = self.mode.from_tensor(
                tensor.detach(),
                symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds),
                # With a source torch would take the example's number for that of every call.
                source=ConstantSource(self.names[i]) if tensor.dim() else None,
            )
            for d, name in mine.items():
                self.wanted.append((i, d, name))
                self.symbols[expression(fake.shape[d])] = name
                torch._check(fake.shape[d] == first.setdefault(name, fake.shape[d]))
            remember_class(fake, tensor)
            fakes.append(fake)
        return fakes

    def again(self) -> Capture:
        """The same program as it is now: with tensors of another form beside its arguments."""
        with in_modes(self.program, self.modes):
            return Capture(*self.made_of)

    def held(self) -> list[torch.Tensor]:
        """The tensors that the program uses beside its arguments."""
        found = {n.target: attribute(self.module, n.target) for n in self.module.graph.nodes
                 if n.op == "get_attr"}  # fmt: skip
        return [t for t in found.values() if isinstance(t, torch.Tensor)]

    def forget_tensors(self) -> None:
        """Tracing refers to the program's own tensors weakly, which keeps torch from exchanging
        them (torch.utils.swap_tensors, as Module.to may)."""
        describer = self.mode.fake_tensor_converter.meta_converter.describer
        describer.lookup_tensor.clear()
        describer.lookup_storage.clear()

    def tensors(self, leaves: list[Any]) -> list[Any]:
        return [leaf for leaf, is_tensor in zip(leaves, self.is_tensor, strict=True) if is_tensor]

    def flat(self, *tensors: Any) -> list[Any]:
        """The program, from tensors to tensors."""
        lines = _Lines(self.comparisons)
        try:
            with fx_traceback.preserve_node_meta(), lines, _Reads(lines):
                made = self.call(tensors)
        finally:
            lines.take_back()
        self.read = list(lines.held.values()) if lines.is_read else []
        returned, self.out_spec = pytree.tree_flatten(made, is_leaf=_is_size)
        self.sizes_at = [len(leaf) if _is_size(leaf) else -1 for leaf in returned]
        return [n for leaf in returned for n in (leaf if _is_size(leaf) else [leaf])]

    def call(self, tensors: Sequence[Any]) -> Any:
        """The program itself, with these tensors."""
        given = iter(tensors)
        leaves = [
            next(given) if is_tensor else leaf
            for leaf, is_tensor in zip(self.leaves, self.is_tensor, strict=True)
        ]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.program(*args, **kwargs)

    def tree(self, made: Sequence[Any]) -> Any:
        """What the program returns, made of its leaves. torch.Size is a leaf to torch's trees, so
        that its numbers were returned one by one."""
        rest = iter(made)
        leaves = [next(rest) if n < 0 else torch.Size([next(rest) for _ in range(n)])
                  for n in self.sizes_at]  # fmt: skip
        return pytree.tree_unflatten(leaves, self.out_spec)

    def trace(self, fakes: list[Any]) -> GraphModule:
        before = len(self.shapes.guards)
        try:
            # make_fx refuses compiled functions, also those that torch itself compiles: as plain
            # functions they are traced like others.
            is_traced = torch._dynamo.config.patch(error_on_nested_fx_trace=False)
            with self.mode, is_traced, torch.compiler.set_stance("force_eager"):
                trace = make_fx(self.flat, _allow_non_fake_inputs=True)
                module: GraphModule = trace(*fakes)
        except _anyop.Error:
            raise
        except Exception as error:
            refusal = self.refusal(error)
            if refusal is error:  # which must not become its own cause
                raise
            raise refusal from error
        self.guards = self.shapes.guards[before:]
        return module

    def reformed_by_program(self, fakes: list[Any]) -> list[str]:
        """The arguments that have other sizes or strides after the program, as what `out=` resizes.
        Refuses a program that puts other memory into one: tracing does not see it."""
        found = []
        nodes = self.module.graph.nodes
        placeholders = [n for n in nodes if n.op == "placeholder"]
        given_memory = {n.args[0] for n in nodes if "set_" in str(n.target) and n.args}
        for name, node, now, before in zip(
            self.names, placeholders, fakes, self.fakes, strict=True
        ):
            is_same_memory = now.untyped_storage()._cdata == before.untyped_storage()._cdata
            if not is_same_memory and node not in given_memory:
                raise _anyop.InvalidArgument(
                    f"{self.name}: {name}.data gets another tensor, but a graph knows tensors by "
                    f"their memory. Try {name}.copy_() of that tensor."
                )
            if now.shape != before.shape or now.stride() != before.stride():
                found.append(name)
        return found

    def refusal(self, error: Exception) -> Exception:
        """The error that says what the program did that a graph cannot hold, and on which line."""
        from torch._subclasses.fake_tensor import DynamicOutputShapeException

        data = (DataDependentOutputException, DynamicOutputShapeException,
                GuardOnDataDependentSymNode)  # fmt: skip
        place = user_place(error)
        if isinstance(error, _Reshapes):
            return _anyop.InvalidArgument(
                f"{self.name}: {place} {error}, but a graph takes such tensors as they are. Try a "
                "view, as squeeze and t make one, or give the tensor as an argument."
            )
        if self.wanted and any(text in str(error) for text in _KNOWS_NO_SYMBOLS):
            names = ", ".join(dict.fromkeys(name for _, _, name in self.wanted))
            return _anyop.InvalidArgument(
                f"{self.name}: {place} calls what torch has for fixed sizes only "
                f"({clause(error)}), but these vary: {names}. Try fixed sizes."
            )
        if not isinstance(error, data):
            return error
        return _anyop.InvalidArgument(
            f"{self.name}: {place} asks for the elements of a tensor, but a graph is made before "
            "there are numbers: if, while, int() and .item() cannot depend on them. Try "
            "torch.where, or do it outside of the graph."
        )

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether tensors are of the types that the program was made for."""
        if len(args) != len(self.fakes) or not all(map(_fits, args, self.fakes)):
            return False
        sizes: dict[str, int] = {}
        return all(args[i].shape[d] == sizes.setdefault(name, args[i].shape[d])
                   for i, d, name in self.wanted)  # fmt: skip

    def check_dynamic(self) -> None:
        """Refuses a program for which a size that is said to vary does not."""
        placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        sizes = [expression(placeholders[i].meta["val"].shape[d]) for i, d, _ in self.wanted]
        fixed = [(w, n) for w, n in zip(self.wanted, sizes, strict=True) if isinstance(n, int)]
        for (_, _, name), size in fixed:
            raise _anyop.InvalidArgument(
                f"{self.name}: {name} varies, but the program works for {name} = {size} only"
                f"{self.why_fixed()}. Try {self.spelling({name for (_, _, name), _ in fixed})}."
            )

    def spelling(self, fixed: set[str]) -> str:
        """`dynamic` as it would be without the sizes that do not vary."""
        rows: dict[str, dict[int, str]] = {}
        for i, d, name in self.wanted:
            if name not in fixed:
                rows.setdefault(self.names[i], {})[d] = name
        return f"dynamic={rows}" if rows else "fixed sizes, without dynamic"

    def why_fixed(self) -> str:
        equal_first = sorted(self.guards, key=lambda g: not isinstance(g.expr, sympy.Eq))
        for guard in equal_first:
            place = self.shapes.places.get(id(guard))
            if place:
                return f", as {self.shown(guard.expr)} is asked for at {place}"
        return ""

    def shown(self, expr: Any) -> str:
        """A condition with the names of sizes, as Python has it."""
        from torch.utils._sympy.printers import PythonPrinter

        text = PythonPrinter().doprint(expr)
        # The longest symbols first: s1 is a part of s10.
        for symbol, name in sorted(self.symbols.items(), key=lambda row: -len(str(row[0]))):
            text = text.replace(str(symbol), name)
        return str(text)

    def conditions(self) -> list[tuple[Any, str, str, bool]]:
        """(function of the call's tensors, text, place, whether it is of sizes below 2 only) of
        what was decided about sizes."""
        sources = sizes_of_arguments(self.module.graph)
        rows = []
        for guard in self.guards:
            expr = self.shapes.replace(guard.expr)
            if not expr.free_symbols:
                continue
            place = self.shapes.places.get(id(guard), "")
            rows.append((evaluator(expr, sources), self.shown(expr), place, _holds_from_two(expr)))
        return rows


def _holds_from_two(expr: Any) -> bool:
    """Whether a condition holds for all sizes that are tried, from 2 on. torch's operators ask for
    sizes of 1, which they repeat, and for tensors without elements."""
    symbols = sorted(expr.free_symbols, key=str)
    tried = itertools.product((2, 3, 5, 16, 97), repeat=len(symbols))
    # 625 are all choices for up to four symbols.
    rows = (dict(zip(symbols, row, strict=True)) for row in itertools.islice(tried, 625))
    return all(bool(expr.subs(row)) for row in rows)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)


def _fits(tensor: Any, fake: torch.Tensor) -> bool:
    """Whether a tensor has the type that the program was made for; sizes that vary are free."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.dtype == fake.dtype
        and tensor.dim() == fake.dim()
        and all(expression(n) == m or not isinstance(expression(n), int)
                for n, m in zip(fake.shape, tensor.shape, strict=True))
    )  # fmt: skip


def _leaf_names(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """A name per tensor, that of its parameter where it is one."""
    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        parameters = [
            p.name if p.kind is not inspect.Parameter.VAR_POSITIONAL else ""
            for p in inspect.signature(function).parameters.values()
        ]
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    rows = [(parameters[i] if i < len(parameters) else "", a) for i, a in enumerate(args)]
    for name, value in (*rows, *kwargs.items()):
        tensors = [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
        for k in range(len(tensors)):
            base = name or "x"
            full = base if len(tensors) == 1 and name else f"{base}{k if name else len(names)}"
            names.append(full if full not in names else f"{full}_{len(names)}")
    return names


def _dynamic_dims(
    shown: str, dynamic: Any, capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[dict[int, str]]:
    """Per tensor: names of its dimensions that vary."""
    tensors, names = capture.tensors(capture.leaves), capture.names
    if not dynamic:
        return [{} for _ in tensors]
    if dynamic is True:
        return [{d: f"{n}_{d}" for d in range(t.dim())}
                for n, t in zip(names, tensors, strict=True)]  # fmt: skip
    if isinstance(dynamic, Mapping):
        unknown = [key for key in dynamic if key not in names]
        if unknown:
            raise _anyop.InvalidArgument(
                f"{shown}: dynamic names {unknown[0]!r}, but the tensors are {', '.join(names)}."
            )
        rows = [dynamic.get(name) for name in names]
    else:
        rows = list(dynamic) if isinstance(dynamic, Iterable) else [dynamic]
    for row in rows:
        if row is not None and not isinstance(row, Mapping):
            spelled = {names[0] if names else "x": {0: "n"}}
            raise _anyop.InvalidArgument(
                f"{shown}: dynamic has {row!r}, but must have a name for each size that varies, by "
                f"its dimension. Try dynamic={spelled}, or dynamic=True."
            )
    if len(rows) != len(tensors):
        raise _anyop.InvalidArgument(
            f"{shown}: dynamic has {len(rows)} elements, but there are {len(tensors)} tensors: "
            f"{', '.join(names)}."
        )
    return [
        {int(d) % max(t.dim(), 1): str(n) for d, n in (row or {}).items()}
        for row, t in zip(rows, tensors, strict=True)
    ]
