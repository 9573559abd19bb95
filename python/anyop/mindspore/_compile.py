# SPDX-License-Identifier: Apache-2.0
"""What this host adds to the compilation of every graph of MindSpore.

A graph belongs to the scope in which it is called: MindSpore runs it on threads of its own, so that
the scope is part of the nodes, and another scope is another graph. What was made in another process
(MindSpore's compile cache knows no scopes, MindIR is as it was exported) runs in the scope and with
the operators that it was made with, or not at all. And a graph that writes into a view of what it
is given is refused: MindSpore copies views, and the write would be lost.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mindspore
from mindspore._c_expression import GraphExecutor_, JitExecutor_, MSContext, ms_ctx_param

import anyop
from anyop import _anyop
from anyop.hosting import BoundCall, find_bound_call

# Primitives whose result is a view of their first input, or may be one. Of others than these and
# _CARRIERS, which hand their first input on, the result is computed.
_VIEWS = frozenset((
    "AsStrided", "BroadcastTo", "BroadcastToView", "Chunk", "ChunkView", "Diagonal",
    "DiagonalView", "ExpandAs", "ExpandDims", "ExpandDimsView", "Flatten", "FlattenExt",
    "ImagView", "Narrow", "NarrowView", "RealView", "Reshape", "SelectExtView", "Slice",
    "SliceExt", "SliceExtView", "Split", "SplitTensor", "SplitTensorView", "SplitWithSize",
    "SplitWithSizeView", "Squeeze", "StridedSlice", "Transpose", "TransposeExtView",
    "TransposeView", "UnstackExtView", "Unstack", "View",
))  # fmt: skip
_CACHE = "MS_COMPILER_CACHE_ENABLE"
_CARRIERS = frozenset(("Depend", "Load", "StopGradient", "TupleGetItem"))


class _Compilation:
    """The one that is under way. MindSpore looks at branches and loops on threads of its own, so
    that what belongs to the compilation cannot belong to a thread.
    """

    def __init__(self) -> None:
        self.scope = _anyop.enter_scope()  # as it is
        self.has_writes = False


_one_at_a_time = threading.RLock()
_current: list[_Compilation] = []


def note_write() -> None:
    """While a graph is compiled: a node of it writes."""
    if _current:
        _current[-1].has_writes = True


@contextlib.contextmanager
def scope_of_compilation() -> Iterator[None]:
    """The scope in which the graph is called that is compiled, on any thread."""
    own = _anyop.enter_scope()
    try:
        if _current:
            _anyop.leave_scope(_current[-1].scope)
        yield
    finally:
        _anyop.leave_scope(own)


def follow(prepare: Callable[[], None]) -> None:
    """Follows the compilation of every graph, in graph mode and by `mindspore.jit`. prepare() runs
    before each: what graphs alone need is not made where none is compiled.
    """
    for executor in (GraphExecutor_, JitExecutor_):
        executor.generate_arguments_key = _with_scope(executor.generate_arguments_key)
        executor.compile = _with_check(executor.compile, prepare)


def _with_scope(generate_key: Callable[..., Any]) -> Callable[..., Any]:
    """The key by which MindSpore finds a graph that it compiled, and the scope of this call."""

    def generate_arguments_key(self: Any, *args: Any) -> Any:
        key, scope = generate_key(self, *args), _anyop.scope_text()
        return f"{key}{scope}" if scope else key

    return generate_arguments_key


def _with_check(
    compile_graph: Callable[..., Any], prepare: Callable[[], None]
) -> Callable[..., Any]:
    def once(self: Any, phase: Any, arguments: Any) -> tuple[bool, _Values | None]:
        """(whether it is compiled, its values where there is something to look for)."""
        with _one_at_a_time:
            prepare()
            _current.append(_Compilation())
            try:
                is_compiled = compile_graph(self, *arguments)
            finally:
                has_writes = _current.pop().has_writes
        if not is_compiled or not (has_writes or _is_cache_on() or _may_hold_mindir()):
            return is_compiled, None
        # Of some graphs MindSpore tells nothing.
        return is_compiled, _Values(self.get_func_graph_proto(phase, "mind_ir", False) or b"")

    def compile(self: Any, obj: Any, args: Any, kwargs: Any, phase: Any, *options: Any) -> Any:
        arguments = (obj, args, kwargs, phase, *options)
        is_compiled, values = once(self, phase, arguments)
        # From MindSpore's cache, which knows no scopes: compiled anew, without the cache.
        if values and values.why_elsewhere() and _is_cache_on():
            self.del_net_res(None, {phase})
            with _without_cache():
                is_compiled, values = once(self, phase, arguments)
        if values:
            why = values.why_elsewhere()
            if why:
                raise anyop.InvalidArgument(why)
            _refuse_lost_writes(values)
        return is_compiled

    return compile


def _is_cache_on() -> bool:
    """Whether MindSpore may have read the graph from its compile cache, and asked for no node."""
    is_on = os.environ.get(_CACHE) == "1"
    return is_on or bool(mindspore.get_context("enable_compile_cache"))


@contextlib.contextmanager
def _without_cache() -> Iterator[None]:
    """MindSpore numbers the graphs in its cache as they are compiled: one that is compiled again
    must not take the next number.
    """
    context, flag = MSContext.get_instance(), ms_ctx_param.enable_compile_cache
    was_on, variable = context.get_param(flag), os.environ.pop(_CACHE, None)
    context.set_param(flag, False)
    try:
        yield
    finally:
        context.set_param(flag, was_on)
        if variable is not None:
            os.environ[_CACHE] = variable


def _may_hold_mindir() -> bool:
    """Whether there are graphs that were loaded, which any other may call."""
    return bool(_loaded())


@functools.cache
def _loaded() -> list[bool]:
    """Not empty once a graph was loaded; follows them from the first compilation on."""
    kind = mindspore.nn.GraphCell
    found = [True for o in gc.get_objects() if issubclass(type(o), kind)]
    start = kind.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        found.append(True)
        start(self, *args, **kwargs)

    kind.__init__ = functools.wraps(start)(__init__)
    return found


def _refuse_lost_writes(values: _Values) -> None:
    for node, call in values.calls():
        for (name, _, is_written), value in zip(call.inputs, node.input, strict=False):
            why = values.why_lost(value, node) if is_written else ""
            if why:
                raise anyop.Unsupported(f"{_name_of(call)}: {name} is {why}")


def _name_of(call: BoundCall) -> str:
    return call.text.split(" ", 1)[1].split("(")[0].removeprefix("anyop.")


def _is_parameter(value: Any) -> bool:
    """Whether an input is a Parameter, by its ref_key: that of another input that is written is no
    name, but an address.
    """
    return any(t.ref_key and not t.ref_key.startswith("0x") for t in value.tensor)


class _Values:
    """Where the values of a compiled graph and its functions come from."""

    def __init__(self, graph: bytes) -> None:
        from mindspore.train.mind_ir_pb2 import ModelProto

        model = ModelProto()
        model.ParseFromString(graph)
        graphs = [model.graph, *model.functions]
        self.nodes = [node for graph in graphs for node in graph.node]
        self._makers = {name: node for node in self.nodes for name in node.output}
        self._inputs = {v.name for v in model.graph.input if not _is_parameter(v)}
        self._parameters = {v.name for v in [*model.graph.input, *model.graph.parameter]}
        self._parameters -= self._inputs
        self._in_main = {name for node in model.graph.node for name in node.output}
        self._primitives = {p.name: p for p in model.primitives}
        self._arguments: dict[str, list[str]] = {}  # of functions, by parameter
        parameters = {f.name: [v.name for v in f.input] for f in model.functions}
        for node in self.nodes:
            function, values = self._called(node)
            for parameter, value in zip(parameters.get(function, ()), values, strict=False):
                self._arguments.setdefault(parameter, []).append(value)

    def _called(self, node: Any) -> tuple[str, Sequence[str]]:
        if self._kind(node) == "Partial":
            return node.input[0], node.input[1:]
        return node.op_type.removeprefix("REF::"), node.input

    def _kind(self, node: Any) -> str:
        primitive = self._primitives.get(node.op_type.removeprefix("REF::"))
        return primitive.op_type if primitive else ""

    def _attribute(self, node: Any, name: str) -> str:
        primitive = self._primitives.get(node.op_type.removeprefix("REF::"))
        attributes = primitive.attribute if primitive else ()
        return next((str(a.s.decode()) for a in attributes if a.name == name), "")

    def calls(self) -> Iterator[tuple[Any, BoundCall]]:
        """The nodes that are bound calls."""
        for node in self.nodes:
            text = self._attribute(node, "call")
            if text.startswith("anyop.call/"):
                yield node, find_bound_call(text)

    def why_elsewhere(self) -> str:
        """What says that the graph was made in another scope than this one, or with operators of
        another contract than those that are loaded; "" if it was made here.
        """
        scope = _anyop.scope_text()
        for node, call in self.calls():
            name, contract = _name_of(call), self._attribute(node, "contract")
            if contract != call.contract:
                return (
                    f"{name}: the graph was made with contract {contract or 'unknown'}, but the "
                    f"library that is loaded has contract {call.contract}. Try making the graph "
                    "anew, or load the library that it was made with."
                )
            if call.scope != scope:
                made, here = (s.removeprefix(" in ") or "no scope" for s in (call.scope, scope))
                return (
                    f"{name}: the graph was made in {made}, but is called in {here}, and a graph "
                    "that is loaded keeps its scope. Try the call in the same scope, or export "
                    "the graph in that of the call."
                )
        return ""

    def why_lost(self, value: str, writer: Any) -> str:
        """Why a write into a value does not reach the input or Parameter that it is; "" if it
        does, or if the value is computed.
        """
        for by, origin in self._origins(value, "", set()):
            shown = origin.rpartition(":")[2]
            if by:
                return (
                    f"a view of {shown} (by {by}), but must be whole in a graph, where MindSpore "
                    f"copies a view and the write would be lost. Try {shown} itself, in the shape "
                    "in which it is written, or PyNative."
                )
            if origin in self._inputs and not self._in_main.issuperset(writer.output):
                return (
                    f"the input {shown}, but must be a Parameter in a branch or loop of a graph, "
                    "or after one, where MindSpore copies inputs and the write would be lost. "
                    "Try a Parameter of the Cell, or PyNative."
                )
        return ""

    def _origins(self, value: str, by: str, seen: set[str]) -> Iterator[tuple[str, str]]:
        """(the primitive that makes a view of it or "", the input or Parameter) of a value."""
        if value in seen:
            return
        seen.add(value)
        if value in self._inputs or value in self._parameters:
            yield by, value
            return
        for argument in self._arguments.get(value, ()):
            yield from self._origins(argument, by, seen)
        node = self._makers.get(value)
        kind = self._kind(node) if node else ""
        if node and (kind in _VIEWS or kind in _CARRIERS):
            yield from self._origins(node.input[0], by or kind * (kind in _VIEWS), seen)
