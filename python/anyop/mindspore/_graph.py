# SPDX-License-Identifier: Apache-2.0
"""Graph mode and `mindspore.jit`, as MindSpore's parser reads them.

The parser asks a table of its own for the function that stands for a builtin one. What it finds
for an operator is `call` below, whose source it compiles: that describes the arguments, of which
`_node.py` makes a node while the graph is compiled. The functions of this file are written in the
part of Python that graphs have; Python itself calls only those that return them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Parameter, Tensor, bfloat16, nn, ops
from mindspore.ops import constexpr
from mindspore.ops import signature as sig
from mindspore.ops.functional import isconstant, scalar_to_tensor

import anyop
from anyop.hosting.build import PACKAGE

LIBRARY = PACKAGE / "anyop_mindspore.so"


def primitive(
    function: str, attributes: dict[str, str], bprop: Any = None, has_several: bool = False
) -> Any:
    """A `Custom` that runs a function of bindings/mindspore/nodes.cc, which infers its results."""
    made = ops.Custom(f"{LIBRARY}:{function}", None, None, "aot", bprop=bprop)
    # With it MindSpore takes the library's inference in C++: one in Python fails for unknown sizes.
    made.add_prim_attr("reg_op_name", function)
    for name, value in attributes.items():
        made.add_prim_attr(name, value)
    made.multi_output = has_several
    made.add_prim_attr("multi_output", has_several)
    return made


class Run(nn.Cell):  # type: ignore[misc]
    """Calls a node: in MindSpore's timeline nodes have the scope of the Cell that calls them, here
    the name of an operator. A call of an unpacked list would lose it.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._scope = f"Default/{name}"

    def construct(self, node: Any, t: Any) -> Any:
        c0 = lambda: node(*t)
        c1 = lambda: node(t[0])
        c2 = lambda: node(t[0], t[1])
        c3 = lambda: node(t[0], t[1], t[2])
        c4 = lambda: node(t[0], t[1], t[2], t[3])
        c5 = lambda: node(t[0], t[1], t[2], t[3], t[4])
        c6 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5])
        c7 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5], t[6])
        c8 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7])
        c9 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8])
        c10 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9])
        c11 = lambda: node(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10])
        calls: Any = (c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11)
        return calls[len(t) if len(t) < len(calls) else 0]()


class _TouchEach(nn.Cell):  # type: ignore[misc]
    """Stands before a write into tensors that are no Parameters. MindSpore orders what reads a
    tensor and what writes it by the primitives that it finds while it parses; the node of an
    operator is made later.
    """

    def __init__(self) -> None:
        super().__init__()
        self._scope = "Default/anyop.before_write"
        self.touch = primitive("AnyopTouch", {})
        self.touch.add_prim_attr("side_effect_mem", True)
        self.touch.set_signatures((sig.make_sig("x", sig.sig_rw.RW_WRITE),))

    def construct(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            for v in value:
                if not isinstance(v, Parameter):
                    self.touch(v)
        elif isinstance(value, Tensor) and not isinstance(value, Parameter):
            self.touch(value)
        return 0


_touch_each = _TouchEach()


def _sizes(value: Any) -> Any:
    """Those of a tensor; None where only the running graph knows them."""
    return value.shape if isconstant(value.shape) else None


def _describe(value: Any) -> Any:
    """(kind, value, whether it is known now): the dtype and sizes of a tensor, a list, or another
    value.
    """
    if isinstance(value, Tensor):
        return ("tensor", (value.dtype, _sizes(value)), True)
    if isinstance(value, (list, tuple)):
        return ("list", [_describe_element(v) for v in value], True)
    return ("value", value, isconstant(value))


def _describe_element(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("tensor", (value.dtype, _sizes(value)), True)
    return ("value", value, isconstant(value))


def _tensors(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [v for v in value if isinstance(v, Tensor)]
    if isinstance(value, Tensor):
        return [value]
    return []


_when_compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = constexpr(check=False)


@_when_compiled
def _of_number(dtype: Any) -> Any:
    """The dtype; of bf16 MindSpore has no numbers."""
    if dtype == bfloat16:
        raise anyop.Unsupported(
            "anyop: a result without dimensions is bf16, but MindSpore's graphs take it for a "
            "number, of which they have none in bf16. Try float32, a dimension of 1, or PyNative."
        )
    return dtype


def _from_number(made: Any, dtype: Any) -> Any:
    return scalar_to_tensor(made, _of_number(dtype))


def _as_tensors(made: Any, dtypes: Any) -> Any:
    """What a node made. MindSpore takes results of a `Custom` without dimensions for numbers."""
    if len(dtypes) < 2:
        return made if isinstance(made, Tensor) else _from_number(made, dtypes[0])
    found: list[Any] = []
    for i in range(len(dtypes)):
        one = made[i] if isinstance(made[i], Tensor) else _from_number(made[i], dtypes[i])
        found = found + [one]
    return tuple(found)


def caller(name: str, plan: Any) -> Any:
    """The function that stands for an operator in graphs.

    plan(name, described, keywords): of constants, the node, which tensors it takes, by their
    numbers, which arguments it writes, by position and by keyword, and the dtypes of its results. A
    call that has none returns a tensor that means nothing.
    """
    run = Run(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        values = list(args) + list(kwargs.values())
        described = [_describe(v) for v in values]
        tensors: list[Any] = []
        for v in values:
            tensors = tensors + _tensors(v)
        node, order, positions, keywords, dtypes = plan(name, described, list(kwargs.keys()))
        # Of these, not of `tensors`: MindSpore orders what it sees to be the very value.
        for i in positions:
            _touch_each(args[i])
        for keyword in keywords:
            _touch_each(kwargs[keyword])
        return _as_tensors(run(node, [tensors[i] for i in order]), dtypes)

    return call


def graph_caller(name: str, plan: Any) -> Any:
    """The same for a compiled graph. A Cell holds so many tensors that a loop over them is deeper
    than the parser goes, so that they stand beside the inputs; MindSpore orders writes into them.

    plan(described): the node, which of the inputs it writes, and the dtypes of its results.
    """
    run = Run(name)

    def call(inputs: Any, held: Any) -> Any:
        node, written, dtypes = plan([_describe(v) for v in inputs])
        for i in written:
            _touch_each(inputs[i])
        return _as_tensors(run(node, inputs + held), dtypes)

    return call


def gradient(
    name: str, make_node: Any, is_lone: bool, dtypes: Any, sources: Any, places: Any, refusals: Any
) -> Any:
    """What finds the gradients of a node's inputs, from these, its results and their gradients.

    name: of the gradient's operator. make_node(): its node. is_lone: whether the node has one
    result, and no tuple of them. dtypes: of the gradient's results. sources: per input of it, (0,
    r) for the gradient of result r, (1, i) for an input and (2, r) for a result. places: per input
    of the node, which result of the gradient is its own, or -1. refusals: for an input without one,
    what refuses it if it is used, or None where it is no number that could have one.
    """
    run = Run(name)

    def find(inputs: Any, out: Any, dout: Any) -> Any:
        groups = ((dout,), inputs, (out,)) if is_lone else (dout, inputs, out)
        made = run(make_node(), [groups[kind][i] for kind, i in sources])
        slopes = _as_tensors(made, dtypes)
        slopes = (slopes,) if len(dtypes) == 1 else slopes
        found: list[Any] = []
        for i in range(len(inputs)):
            if places[i] >= 0:
                found = found + [slopes[places[i]]]
            elif refusals[i] is not None:
                found = found + [refusals[i](inputs[i])]
            else:
                found = found + [ops.zeros_like(inputs[i])]
        return tuple(found)

    return find


def no_gradient(refusals: Any) -> Any:
    """The same for a node that has no gradient."""

    def find(inputs: Any, out: Any, dout: Any) -> Any:
        found: list[Any] = []
        for i in range(len(inputs)):
            if refusals[i] is not None:
                found = found + [refusals[i](inputs[i])]
            else:
                found = found + [ops.zeros_like(inputs[i])]
        return tuple(found)

    return find


def bprop(n: int, find: Any) -> Any:
    """The function that MindSpore asks for: with a parameter for each of n inputs. None where there
    are more than are written here: MindSpore itself then refuses to differentiate.
    """
    # The parser knows functions without a name by their lines.
    f1 = lambda p, o, d: find((p,), o, d)
    f2 = lambda p, q, o, d: find((p, q), o, d)
    f3 = lambda p, q, r, o, d: find((p, q, r), o, d)
    f4 = lambda p, q, r, s, o, d: find((p, q, r, s), o, d)
    f5 = lambda p, q, r, s, t, o, d: find((p, q, r, s, t), o, d)
    f6 = lambda p, q, r, s, t, u, o, d: find((p, q, r, s, t, u), o, d)
    f7 = lambda p, q, r, s, t, u, v, o, d: find((p, q, r, s, t, u, v), o, d)
    f8 = lambda p, q, r, s, t, u, v, w, o, d: find((p, q, r, s, t, u, v, w), o, d)
    f9 = lambda p, q, r, s, t, u, v, w, x, o, d: find((p, q, r, s, t, u, v, w, x), o, d)
    f10 = lambda p, q, r, s, t, u, v, w, x, y, o, d: find((p, q, r, s, t, u, v, w, x, y), o, d)
    written = (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10)
    return written[n - 1] if 0 < n <= len(written) else None


def unwrap(name: Any, module: Any) -> Any:
    """What stands for `anyop.mindspore.ModuleWrapper`."""
    return module
