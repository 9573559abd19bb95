# SPDX-License-Identifier: Apache-2.0
"""Nodes of MindSpore's graphs: one `Custom` for each bound call, made while a graph is compiled."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import mindspore
from mindspore.graph._parse.resources import convert_object_map
from mindspore.ops import constexpr

import anyop
from anyop import _anyop
from anyop.hosting import BoundCall, bound_call, bound_graph
from anyop.hosting.facts import Operator
from anyop.hosting.gradient import no_gradient
from anyop.mindspore import _graph
from anyop.mindspore._compile import note_write, scope_of_compilation
from anyop.mindspore._gradient import WORDING
from anyop.mindspore._tensors import NAMES, OBJECTS_BY_NAME

_Function = Callable[..., Any]
# Makes a function one that MindSpore calls with constants while it compiles. Its results are not
# reused, because the scope in force is part of them.
_when_compiled: Callable[[_Function], _Function] = constexpr(check=False, reuse_result=False)
_operator = functools.cache(Operator)
_FLOATS = ("f64", "f32", "f16", "bf16")


class _Given:
    """A tensor of a call in a graph. shape: None where it is not known yet."""

    def __init__(self, index: int, op: Operator, dtype: Any, shape: Sequence[int] | None) -> None:
        if dtype not in NAMES:
            raise anyop.InvalidArgument(
                f"{op.display_name}: a tensor is {dtype}, but anyop has no such dtype. "
                "Try a cast to float32 or int64."
            )
        self.index, self.dtype, self.shape = index, NAMES[dtype], shape

    def __repr__(self) -> str:
        return "a MindSpore tensor"


class _Unknown:
    """A value that only the running graph knows."""


class _Arguments:
    """A call as `_graph.caller` describes it, bound to the operator's parameters."""

    def __init__(self, op: Operator, described: Sequence[Any], keywords: Sequence[str]) -> None:
        self.op, self.n_tensors = op, 0
        values = [self._value(*d) for d in described]
        n = len(values) - len(keywords)
        named = dict(zip(keywords, values[n:], strict=True))
        self.given: dict[str, Any] = _anyop.bind(op.name, *values[:n], **named)
        if self.given.pop("out", None) is not None:
            raise anyop.Unsupported(
                f"{op.display_name}: out is given, but a node of a graph makes its own results. "
                "Try the call without out."
            )
        self.given.pop("like", None)
        for p in op.params:
            value: Any = self.given.get(p.name)
            if p.is_tensor and not (value is None and p.is_optional):
                many = p.kind == "tensors" and _is_list(value)
                for i, v in enumerate(value if many else [value]):
                    _refuse_others(op, f"{p.name}[{i}]" if many else p.name, v)
        for p in op.params:
            if p.kind in _NUMBERS:
                _refuse_numbers(op, p.name, self.given.get(p.name))
        for name, value in self.given.items():
            if any(isinstance(v, _Unknown) for v in (value if _is_list(value) else [value])):
                raise anyop.InvalidArgument(
                    f"{op.display_name}: {name} is known only when the graph runs, but must be "
                    "known when it is compiled, because it becomes part of the node. Try a Python "
                    "number that is an attribute of the Cell, or a constant."
                )

    def _value(self, kind: str, value: Any, is_known: bool) -> Any:
        if kind == "tensor":
            self.n_tensors += 1
            return _Given(self.n_tensors - 1, self.op, *value)
        if kind == "list":
            return [self._value(*d) for d in value]
        return value if is_known else _Unknown()

    def bound(self) -> BoundCall:
        given = {name: _named(value) for name, value in self.given.items()}
        with scope_of_compilation():
            return bound_call(self.op.name, **given)

    def refuse_with_sizes(self) -> None:
        """Raises what is wrong with the call as PyNative does, where all sizes are known."""
        if any(t.shape is None for t in self.tensors):
            return
        values = [_without_data(self.given.get(p.name, p.default)) for p in self.op.params]
        _anyop.plan_memory(self.op.name, tuple(values), (True,) * len(self.op.results))

    @property
    def tensors(self) -> list[_Given]:
        """Those that the node takes, in its order."""
        found: list[_Given] = []
        for p in self.op.params:
            value = self.given.get(p.name)
            if p.is_tensor and value is not None:
                found += value if _is_list(value) else [value]
        return found


def _named(value: Any) -> Any:
    """A dtype of MindSpore's by its name; anything else as it is."""
    return NAMES.get(value, value) if isinstance(value, mindspore.Type) else value


def _without_data(value: Any) -> Any:
    """An argument as `plan_memory` takes it."""
    if _is_list(value):
        return [_without_data(v) for v in value]
    if not isinstance(value, _Given):
        return _named(value)
    shape = tuple(value.shape or ())
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return 0, value.dtype, shape, strides


# By the module of a value's type: its name in messages, and what makes it a tensor of MindSpore's.
_FOREIGN = {
    "numpy": ("NumPy array", "mindspore.Tensor({})"),
    "torch": ("torch tensor", "mindspore.Tensor({}.numpy())"),
    "jaxlib": ("JAX array", "mindspore.Tensor(numpy.asarray({}))"),
}


def _refuse_others(op: Operator, name: str, value: Any) -> None:
    """Refuses a value that is given for a tensor and is none of MindSpore's, as PyNative does."""
    if isinstance(value, _Given | _Unknown):
        return
    module = type(value).__module__.partition(".")[0]
    if module in _FOREIGN and hasattr(value, "shape"):
        noun, advice = _FOREIGN[module]
        raise anyop.WrongType(
            f"{op.display_name}: {name} is a {noun}, but the call has MindSpore tensors, and all "
            f"must come from one host. Try {advice.format(name)}."
        )
    shown = "None" if value is None else _anyop.show(value)
    raise anyop.WrongType(f"{op.display_name}: {name} is {shown}, but must be a MindSpore tensor.")


_NUMBERS = ("int", "float", "ints", "floats")
_BEYOND = -(2**63)  # what MindSpore's parser makes of an int of more than 64 bits


def _refuse_numbers(op: Operator, name: str, given: Any) -> None:
    """Refuses what is no number that a node can hold: a tensor, from which PyNative reads a number,
    and an int that MindSpore's parser has changed.
    """
    for value in given if _is_list(given) else [given]:
        if isinstance(value, _Given):
            raise anyop.WrongType(
                f"{op.display_name}: {name} is a MindSpore tensor, but must be a number that is "
                "known when the graph is compiled, because it becomes part of the node. Try a "
                f"Python number: {name}.item() outside of the graph."
            )
        if type(value) is int and value == _BEYOND:
            raise anyop.InvalidArgument(
                f"{op.display_name}: {name} is {value}, which MindSpore makes of every int beyond "
                "64 bits in a graph, but must be the number that is meant. Try a float, or a "
                "smaller int."
            )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


@functools.cache
def _keep_open() -> ctypes.CDLL:
    """Keeps the library of the nodes loaded. MindSpore opens and closes it at each inference, and
    all that it holds would be made anew each time.
    """
    return ctypes.CDLL(str(_graph.LIBRARY))


def _primitive_of(call: BoundCall, bprop: Any) -> Any:
    _keep_open()
    has_several = len(call.results) > 1
    function = "AnyopCalls" if has_several else "AnyopCall"
    attributes = {"call": call.text, "contract": call.contract}
    made = _graph.primitive(function, attributes, bprop, has_several)
    # Without it MindSpore leaves out a node whose results nobody reads, and with it the write.
    if any(is_written for _, _, is_written in call.inputs):
        made.add_prim_attr("side_effect_mem", True)
    return made


def _dtypes(call: BoundCall) -> tuple[Any, ...]:
    """MindSpore's dtypes of the results; None for one that the ranks of the arguments decide."""
    return tuple(OBJECTS_BY_NAME.get(dtype or "") for _, dtype, _ in call.results)


def _refusal(why: str) -> Any:
    """A primitive that hands a tensor on when a graph is compiled, and raises when it runs."""
    _keep_open()
    return _graph.primitive("AnyopRefuse", {"why": why})


def _gradient_of_node(op: Operator, call: BoundCall) -> Any:
    """What MindSpore calls for the gradient of a node."""
    kinds = [dtype in _FLOATS for _, dtype, _ in call.inputs]
    names = [name for name, _, _ in call.inputs]
    targets = [] if op.wiring is None else [op.params[i].name for i in op.wiring.targets]
    wanted = [name in targets and is_float for name, is_float in zip(names, kinds, strict=True)]
    try:
        if not any(wanted):
            raise anyop.Unsupported(no_gradient(op, WORDING))
        forward, gradient, sources, of = call.gradient(wanted)
        if forward != call:
            raise anyop.Unsupported(no_gradient(op, WORDING))
    except anyop.Unsupported as error:
        why = str(error)
        refused = _graph.no_gradient(tuple(_refusal(why) if k else None for k in kinds))
        return _graph.bprop(len(kinds), refused)
    places = [of.index(i) if i in of else -1 for i in range(len(names))]
    refusals = tuple(
        _refusal(
            f"{op.display_name}: {name} needs a gradient, but {op.display_name} has no gradient "
            f"for it. Try {WORDING.stop(name)}."
        )
        if is_float and place < 0
        else None
        for name, is_float, place in zip(names, kinds, places, strict=True)
    )
    numbers = {"result_gradient": 0, "input": 1, "result": 2}
    assert op.wiring is not None
    next_op = _operator(op.wiring.operator)

    @_when_compiled
    def make_node() -> Any:
        return _primitive_of(gradient, _gradient_of_node(next_op, gradient))

    wired = tuple((numbers[kind], i) for kind, i in sources)
    is_lone = len(call.results) == 1
    found = _graph.gradient(
        next_op.name, make_node, is_lone, _dtypes(gradient), wired, tuple(places), refusals
    )
    return _graph.bprop(len(kinds), found)


_known: set[str] = set()
_why_not = ""  # what keeps every call from being a node, which then says so


def know_operators(why_not: str) -> None:
    """Tells MindSpore's parser what stands in graphs for the operators that it does not know yet:
    those that are loaded now. why_not: what keeps every call from being a node, which then says so.
    """
    global _why_not
    _why_not = why_not
    for name, function in list(_anyop.functions().items()):
        if name not in _known:
            convert_object_map[function] = _graph.caller(name, _plan)
            library, _, short_name = name.rpartition(".")
            # As attributes are made when they are asked for, and the parser sees those alone that
            # are there already.
            getattr(anyop.ops[library], short_name)
            _known.add(name)


def know_wrapper(wrapper: Any) -> None:
    """Tells MindSpore's parser of `ModuleWrapper`, which hands a module on."""
    convert_object_map[wrapper] = _graph.unwrap


def check_count(graph: anyop.Graph, n: int, wanted: Sequence[str]) -> None:
    """Throws InvalidArgument for a graph that is given others than n tensors."""
    if n != len(wanted):
        raise anyop.InvalidArgument(
            f"graph {graph.name}: {n} inputs are given, but it takes {len(wanted)}: "
            f"{', '.join(wanted)}."
        )


def plan_of_graph(graph: anyop.Graph, numbers: dict[str, float], n_held: int) -> Any:
    """What `_graph.graph_caller` asks: of a compiled graph without memory of its own."""
    name = f"graph {graph.name}"

    @_when_compiled
    def plan(described: Any) -> Any:
        _check_interface(name)
        with scope_of_compilation():
            call = bound_graph(graph, **numbers)
        own = call.inputs[: len(call.inputs) - n_held]
        check_count(graph, len(described), [name for name, _, _ in own])
        for (kind, value, _), (input_name, dtype, _) in zip(described, own, strict=True):
            if kind != "tensor":
                shown = _anyop.show(value)
                raise anyop.WrongType(
                    f"{name}: {input_name} is {shown}, but must be a MindSpore tensor."
                )
            given = _named(value[0])
            if given != dtype:
                raise anyop.InvalidArgument(
                    f"{name}: {input_name} is {given}, but must be {dtype}. Try a cast to {dtype}."
                )
        if any(is_written for _, _, is_written in call.inputs):
            note_write()
        why = f"{name}: it has no gradient. Try its calls one by one."
        floats = [dtype in _FLOATS for _, dtype, _ in call.inputs]
        refused = _graph.no_gradient(tuple(_refusal(why) if k else None for k in floats))
        node = _primitive_of(call, _graph.bprop(len(floats), refused))
        written = tuple(i for i, (_, _, is_written) in enumerate(own) if is_written)
        return node, written, _dtypes(call)

    return plan


def _check_interface(name: str) -> None:
    if _why_not:
        raise anyop.NotAvailable(
            f"{name}: {_why_not}, but calls in graphs need MindSpore's interface as "
            "2.10 has it. Try that MindSpore, or PyNative."
        )


@_when_compiled
def _plan(name: str, described: Any, keywords: Any) -> Any:
    """What `_graph.caller` asks of a call."""
    op = _operator(name)
    _check_interface(op.display_name)
    if op.written:
        note_write()
    arguments = _Arguments(op, described, keywords)
    try:
        call = arguments.bound()
        node = _primitive_of(call, _gradient_of_node(op, call))
    except anyop.InvalidArgument:
        arguments.refuse_with_sizes()
        raise
    n = len(described) - len(keywords)
    written = [op.params[i].name for i in op.written]
    return (
        node,
        tuple(t.index for t in arguments.tensors),
        tuple(i for i in op.written if i < n),
        tuple(k for k in keywords if k in written),
        _dtypes(call),
    )
