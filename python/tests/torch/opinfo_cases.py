# SPDX-License-Identifier: Apache-2.0
"""Calls of single ATen operators that have a converter, out of torch's own database of samples."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from anyop.torch._compile.program import Program
from anyop.torch._nodes import converters
from anyop.torch._proof import proof
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def targets() -> set[Any]:
    """The torch operators that have a converter or are views of a graph; patterns are proven where
    they are taken."""
    known = {*converters._converters, *converters._internal, *converters._views}
    return {t for t in known if isinstance(t, torch._ops.OpOverload)}


@dataclass
class Case:
    target: Any
    args: Any
    kwargs: Any

    @property
    def tensors(self) -> list[torch.Tensor]:
        leaves = pytree.tree_leaves((self.args, self.kwargs))
        return list({id(t): t for t in leaves if isinstance(t, torch.Tensor)}.values())

    def key(self) -> str:
        """What tells cases apart: types, strides and numbers."""
        shown = pytree.tree_map_only(torch.Tensor, _type_of, (self.args, self.kwargs))
        return f"{self.target} {shown}"

    def with_tensors(self, made: Sequence[Any]) -> tuple[Any, Any]:
        by_id = {id(t): m for t, m in zip(self.tensors, made, strict=True)}
        given: tuple[Any, Any] = pytree.tree_map_only(
            torch.Tensor, lambda t: by_id[id(t)], (self.args, self.kwargs)
        )
        return given

    def copies(self) -> list[torch.Tensor]:
        """Of the tensors, as they lie in memory."""
        return [_copied(t) for t in self.tensors]


def _type_of(t: torch.Tensor) -> str:
    return f"{t.dtype}{list(t.shape)}{t.stride()}{t.storage_offset()}"


def _copied(t: torch.Tensor) -> torch.Tensor:
    memory = t.new_empty(0).set_(t.untyped_storage().clone())  # type: ignore[call-overload]
    return memory.as_strided(t.shape, t.stride(), t.storage_offset())


class _Collect(TorchDispatchMode):
    def __init__(self, wanted: set[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.wanted, self.cases = wanted, list[Case]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.wanted:
            kept = (args, kwargs)
            if func._schema.is_mutable:
                kept = pytree.tree_map_only(torch.Tensor, _copied, kept)
            self.cases.append(Case(func, *kept))
        return func(*args, **kwargs)


def _calls(op: Any, dtype: torch.dtype, wanted: set[Any]) -> Iterator[Case]:
    """What an operator of the database comes down to; its own name where that is composite."""
    name = op.name.rpartition(".")[2]
    direct = next((t for t in wanted if t._schema.name == f"aten::{name}"), None)
    for sample in op.sample_inputs("cpu", dtype):
        given = (sample.input, *sample.args)
        ways = [lambda s=sample: op(s.input, *s.args, **s.kwargs)]
        if op.inplace_variant is not None:
            ways.append(lambda s=sample: op.inplace_variant(s.input.clone(), *s.args, **s.kwargs))
        for way in ways:
            with _Collect(wanted) as collect, torch.no_grad():
                try:
                    way()
                except Exception:  # noqa: S112  samples for other devices, samples of errors
                    continue
            yield from collect.cases
        if direct is not None and all(direct is not c.target for c in collect.cases):
            yield Case(direct, given, sample.kwargs)


def _beside(case: Case) -> Iterator[Case]:
    """Operators that no sample calls, with the arguments of one that is like them."""
    if case.target is _aten.gelu.default:
        yield Case(_aten.gelu_backward.default, (case.args[0] * 0.5, *case.args), case.kwargs)
    if case.target is _aten.convolution.default:
        x, weight, bias, *numbers = case.args
        dy = case.target(*case.args).detach().contiguous()
        sizes = None if bias is None else list(bias.shape)
        masks = [[True, True, bias is not None], [False, True, False], [True, False, False]]
        for mask in masks:
            given = (dy, x, weight, sizes, *numbers, mask)
            yield Case(_aten.convolution_backward.default, given, {})
    if case.target is _aten._to_copy.default and list(case.kwargs) == ["dtype"]:
        convert = torch.ops.prims.convert_element_type.default
        yield Case(convert, (case.args[0], case.kwargs["dtype"]), {})


@contextlib.contextmanager
def without_stacks() -> Iterator[None]:
    """For each sample torch notes the calls that lead to it, once for the test's name and once for
    each kind of device that it seeds, where it is not in use: nine tenths of the time in a process
    that has run other tests, and a GB."""
    with (
        mock.patch.object(common_utils, "extract_test_fn", lambda: None),
        mock.patch.object(core, "extract_test_fn", lambda: None),  # imported by name
        mock.patch.object(torch, "manual_seed", torch.default_generator.manual_seed),
    ):
        yield


def cases(most: int | None, dtypes: Sequence[torch.dtype]) -> list[Case]:
    """Distinct ones; at most so many for each operator and type of a sample, from all samples."""
    found: dict[Any, dict[str, Case]] = {}
    with warnings.catch_warnings(), without_stacks():
        warnings.simplefilter("ignore")
        for op in op_db:
            for dtype in dtypes:
                if op.supports_dtype(dtype, "cpu") and "jiterator" not in op.name:
                    for one in _calls(op, dtype, targets()):
                        for case in filter(_is_plain, (one, *_beside(one))):
                            found.setdefault((case.target, dtype), {}).setdefault(case.key(), case)
    rows = [list(many.values()) for many in found.values()]
    return [case for row in rows for case in row[:: max(1, len(row) // (most or len(row)))]]


def _is_plain(case: Case) -> bool:
    is_plain = all(t.layout is torch.strided and not t.is_complex() for t in case.tensors)
    return bool(case.tensors) and is_plain


@dataclass
class Ran:
    """is_lowered: without a host node. why: what differs from torch, "" if nothing does."""

    is_lowered: bool
    why: str


def run(case: Case) -> Ran:
    """A program of the one call, through the backend and through torch. What is a view is also
    read by another operator, since a view that is returned is made by torch. Where several results
    are more than a converter makes, one of the first alone is also tried."""
    made = _run(case, None)
    if made.is_lowered or made.why or len(case.target._schema.returns) < 2:
        return made
    return _run(case, 1)


def _run(case: Case, many: int | None) -> Ran:
    """many: how many of the results are returned."""
    try:
        wanted, read, before = _eager(case)
    except Exception:
        return Ran(False, "")  # no program: the sample is for other code
    if any(isinstance(t, torch.Tensor) and t.is_complex() for t in wanted):
        return Ran(False, "")  # no tensor of a graph's
    wanted = wanted[:many]
    module = _module(case, len(wanted), read)
    program = Program(module, [], False, "case")
    try:
        program(case.copies())
        given = case.copies()
        made = list(program(given))  # again, with a graph that was used
    except Exception as error:
        return Ran(False, f"it raises {type(error).__name__}: {error}")
    lowered = program.lowered
    is_lowered = lowered is not None and all(row.kind != "host" for row in lowered.rows)
    return Ran(is_lowered, _compared(case, wanted, made, before, given))


def _flat(made: Any) -> list[Any]:
    """Without results that nobody asked for, of an output_mask."""
    return [t for t in made if t is not None] if isinstance(made, (tuple, list)) else [made]


def _eager(case: Case) -> tuple[list[Any], bool, list[torch.Tensor]]:
    """Results, whether others are made of these, and what the arguments are then."""
    given = case.copies()
    args, kwargs = case.with_tensors(given)
    with torch.no_grad():
        made = _flat(case.target(*args, **kwargs))
        read = case.target in converters._views
        made += [t.clone() for t in made] if read else []
    return made, read, given


def _module(case: Case, n: int, read: bool) -> Any:
    graph, mode = torch.fx.Graph(), FakeTensorMode()
    nodes = []
    for i, tensor in enumerate(case.tensors):
        node = graph.placeholder(f"x{i}")
        node.meta["val"] = mode.from_tensor(tensor)
        nodes.append(node)
    args, kwargs = case.with_tensors(nodes)

    def add(target: Any, args: Any, kwargs: Any) -> Any:
        node = graph.call_function(target, args, kwargs)
        fakes = pytree.tree_map_only(torch.fx.Node, lambda n: n.meta["val"], (args, kwargs))
        with mode, torch.no_grad():
            node.meta["val"] = target(*fakes[0], **fakes[1])
        return node

    call = add(case.target, args, kwargs)
    is_one = isinstance(call.meta["val"], torch.Tensor)
    many = n // 2 if read else n
    places = [] if is_one else [i for i, t in enumerate(call.meta["val"]) if t is not None]
    made = [call] if is_one else [add(operator.getitem, (call, i), {}) for i in places[:many]]
    made += [add(_aten.clone.default, (node,), {}) for node in made] if read else []
    graph.output(tuple(made))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def _exact(case: Case) -> list[Any]:
    """Results in f64."""

    def wide(t: torch.Tensor) -> torch.Tensor:
        return t.double() if t.is_floating_point() else t

    args, kwargs = case.with_tensors([wide(t) for t in case.tensors])
    with torch.no_grad():
        return _flat(case.target(*args, **kwargs))


def _compared(
    case: Case, wanted: list[Any], made: list[Any], before: list[Any], given: list[Any]
) -> str:
    if len(wanted) != len(made):
        return f"{len(made)} results of {len(wanted)}"
    best: list[Any] = [None] * len(wanted)
    if any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in wanted):
        with contextlib.suppress(RuntimeError):  # no f64 of it
            best = [*_exact(case), *best][: len(wanted)]
    for i, (w, m, b) in enumerate(zip(wanted, made, best, strict=True)):
        why = proof.different(w, m, b)
        if why:
            return f"result {i}: {why}"
        if isinstance(w, torch.Tensor) and _strides(w) != _strides(m):
            return f"result {i}: strides {m.stride()} instead of {w.stride()}"
    if _shared([*before, *wanted]) != _shared([*given, *made]):
        return "it shares other memory"
    if any(proof.different(w, m, w) for w, m in zip(before, given, strict=True)):
        return "its arguments are others"
    return ""


def _strides(t: torch.Tensor) -> list[int]:
    """Of dimensions along which there is more than one element."""
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n != 1] if t.numel() else []


def _shared(tensors: list[Any]) -> list[int]:
    """For each the first one whose memory it lies in."""
    places = [
        t.untyped_storage().data_ptr() if isinstance(t, torch.Tensor) and t.numel() else -i - 1
        for i, t in enumerate(tensors)
    ]
    return [places.index(p) for p in places]
