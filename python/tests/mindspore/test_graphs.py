# SPDX-License-Identifier: Apache-2.0
"""Operators in compiled graphs: how they are named, what is refused, writes and gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop
import anyop.mindspore
import mindspore as ms
import numpy as np
import pytest
from anyop import _mindspore
from anyop import rms_norm as imported
from mindspore import Parameter, Tensor, nn, ops

RANDOM = np.random.default_rng(0)
x = RANDOM.standard_normal((4, 64)).astype(np.float32)
w = RANDOM.standard_normal(64).astype(np.float32)
X, W = Tensor(x), Tensor(w)
wanted = anyop.rms_norm(x, w, eps=1e-5)


class Named(nn.Cell):
    """The ways to name an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.op, self.module = anyop.rms_norm, anyop
        self.wrapped = anyop.mindspore.ModuleWrapper("anyop", anyop)

    def construct(self, x: Any, w: Any) -> Any:
        inside = anyop.mindspore.ModuleWrapper("anyop", anyop)
        return (
            self.op(x, w, 1e-5),
            self.module.rms_norm(x, w, 2e-5),
            self.wrapped.rms_norm(x, w, eps=3e-5),
            inside.rms_norm(x, weight=w, eps=4e-5),
            imported(x, w, 5e-5),
            anyop.ops.anyop.rms_norm(x, w, 6e-5),
        )


def test_every_name_is_one_node() -> None:
    anyop.reset_counters()
    results = [made.asnumpy() for made in ms.jit(Named().construct)(X, W)]
    assert sum(c.calls for c in anyop.counters()) == 6
    for i, made in enumerate(results):
        np.testing.assert_array_equal(made, anyop.rms_norm(x, w, eps=(i + 1) * 1e-5))


def norm(x: Any, w: Any) -> Any:
    return anyop.rms_norm(x, w, eps=1e-5)


@pytest.mark.parametrize("capture", ["ast", "bytecode"])
def test_capture_modes(capture: str) -> None:
    compiled = ms.jit(norm, capture_mode=capture)
    np.testing.assert_array_equal(compiled(X, W).asnumpy(), wanted)
    np.testing.assert_array_equal(compiled(X * 2, W).asnumpy(), anyop.rms_norm(2 * x, w, eps=1e-5))


def with_eps(x: Any, eps: Any) -> Any:
    return anyop.rms_norm(x, eps=eps)


def with_out(x: Any, y: Any) -> Any:
    return anyop.rms_norm(x, out=y)


def misnamed(x: Any, w: Any) -> Any:
    return anyop.rms_norm(x, wieght=w)


def no_word(x: Any, w: Any) -> Any:
    return anyop.linear(x, w, activation="rely")


REFUSED: list[tuple[Callable[..., Any], Any, type[Exception], str]] = [
    (with_eps, ms.mutable(1e-5), anyop.InvalidArgument,
     "rms_norm: eps is known only when the graph runs, but must be known when it is compiled, "
     "because it becomes part of the node. Try a Python number that is an attribute of the Cell, "
     "or a constant."),
    (with_eps, "big", anyop.WrongType, "rms_norm: eps is 'big', but must be a number."),
    (with_eps, W, anyop.WrongType,
     "rms_norm: eps is a MindSpore tensor, but must be a number."),
    (with_out, X, anyop.Unsupported,
     "rms_norm: out is given, but a node of a graph makes its own results. Try the call without "
     "out."),
    (misnamed, W, anyop.WrongType,
     "rms_norm: unknown argument 'wieght'. Did you mean 'weight'?"),
    (norm, Tensor(w[:3]), RuntimeError,
     "rms_norm: weight is f32[3], but must be f32[64] because x is f32[4, 64]."),
    (norm, W.astype(ms.complex64), anyop.InvalidArgument,
     "rms_norm: a tensor is Complex64, but anyop has no such dtype. Try a cast to float32 or "
     "int64."),
]  # fmt: skip


@pytest.mark.parametrize(("program", "argument", "error", "text"), REFUSED)
def test_what_a_graph_refuses(
    program: Callable[..., Any], argument: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        ms.jit(program)(X, argument)
    assert text in str(caught.value)
    if error is not RuntimeError:
        assert str(caught.value).split("\n")[0] == text


def test_a_wrong_word_is_refused() -> None:
    with pytest.raises(anyop.Error) as caught:
        ms.jit(no_word)(X, Tensor(x))
    assert "activation is 'rely'" in str(caught.value)


def test_the_scope_of_the_compilation_is_in_the_node() -> None:
    def program(x: Any) -> Any:
        return anyop.rms_norm(x)

    with anyop.policy("rms_norm=cpu_portable"):
        compiled = ms.jit(program)
        compiled(X).asnumpy()
    anyop.reset_counters()
    compiled(X).asnumpy()
    assert ["portable" in c.kernel for c in anyop.counters()] == [True]


def test_operators_that_come_later_are_known() -> None:
    @anyop.define("ms_later(x: T[...]) -> (y: T[...]) where T in f32")
    def ms_later(x: Any) -> Any:
        return x + 1

    np.testing.assert_array_equal(ms.jit(call_later)(X).asnumpy(), x + 1)


def call_later(x: Any) -> Any:
    return anyop.ops.user.ms_later(x)


def test_status_says_that_all_works() -> None:
    assert anyop.mindspore.status() == ""


# ---- Writes.

KEY = Tensor(np.ones((2, 1, 4), "f4"))
SLOTS = Tensor(np.array([1, 2]))


def cache(name: str = "") -> Any:
    zeros = Tensor(np.zeros((2, 4, 1, 4), "f4"))
    return Parameter(zeros, name=name) if name else zeros


class Inputs(nn.Cell):
    """Writes what it is given, and reads it before and after."""

    def construct(self, key: Any, slots: Any, keys: Any, values: Any) -> Any:
        before = keys.sum()
        anyop.reshape_and_cache(key, key, keys, values, slots)
        between = keys.sum()
        anyop.reshape_and_cache(key * 2, key, keys, value_cache=values, slot_mapping=slots)
        return before, between, keys.sum()


class Parameters(nn.Cell):
    """The same with caches of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.keys, self.values = Inputs(), cache("keys"), cache("values")

    def construct(self, key: Any, slots: Any) -> Any:
        return self.inner(key, slots, self.keys, self.values)


@pytest.mark.parametrize("mode", ["pynative", "jit", "graph"])
@pytest.mark.parametrize("what", ["inputs", "parameters"])
def test_reads_and_writes_keep_their_order(mode: str, what: str) -> None:
    net = Parameters() if what == "parameters" else Inputs()
    caches = [net.keys, net.values] if what == "parameters" else [cache(), cache()]
    arguments = (KEY, SLOTS, *([] if what == "parameters" else caches))
    if mode == "graph":
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        run = ms.jit(net.construct) if mode == "jit" else net
        made = [float(t.asnumpy()) for t in run(*arguments)]
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert made == [0.0, 8.0, 16.0]
    assert [float(c.asnumpy().sum()) for c in caches] == [16.0, 8.0]


class Decoder(nn.Cell):
    """A step over the caches of several layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        zeros = [Tensor(np.zeros((8, 8, 1, 4), "f4")) for _ in range(2 * layers)]
        self.caches = ms.ParameterTuple([Parameter(z, name=f"c{i}") for i, z in enumerate(zeros)])
        self.layers = layers

    def construct(self, x: Any, slot: Any) -> Any:
        for i in range(self.layers):
            keys, values = self.caches[2 * i], self.caches[2 * i + 1]
            anyop.reshape_and_cache(x, x, keys, values, slot)
            x = anyop.rms_norm(x + keys.sum(), eps=1e-5)
        return x


@pytest.mark.parametrize("mode", ["jit", "graph"])
def test_64_steps_of_a_decoder(mode: str) -> None:
    eager, compiled = Decoder(3), Decoder(3)
    run = ms.jit(compiled.construct) if mode == "jit" else compiled
    for step in range(64):
        x = Tensor(RANDOM.standard_normal((1, 1, 4)).astype(np.float32))
        slot = Tensor(np.array([step]))
        wanted = eager(x, slot).asnumpy()
        if mode == "graph":
            ms.set_context(mode=ms.GRAPH_MODE)
        try:
            np.testing.assert_array_equal(run(x, slot).asnumpy(), wanted)
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
    for ours, theirs in zip(compiled.caches, eager.caches, strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


# ---- Gradients.


def loss(x: Any, w: Any) -> Any:
    return (anyop.rms_norm(x, w) * x).sum()


def unused(x: Any, w: Any) -> Any:
    return anyop.add_rms_norm(x, x * 2, w)[0].sum()


@pytest.mark.parametrize("program", [loss, unused])
def test_gradients_are_those_of_pynative(program: Callable[..., Any]) -> None:
    wanted = ms.grad(program, (0, 1))(Tensor(x), Tensor(w))
    inside = ms.jit(ms.grad(program, (0, 1)))(X, W)
    outside = ms.grad(ms.jit(program), (0, 1))(Tensor(x), Tensor(w))
    for a, b, c in zip(wanted, inside, outside, strict=True):
        np.testing.assert_array_equal(b.asnumpy(), a.asnumpy())
        np.testing.assert_array_equal(c.asnumpy(), a.asnumpy())


class Weighted(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(w), name="w")

    def construct(self, x: Any) -> Any:
        return loss(x, self.w)


def test_gradients_of_parameters() -> None:
    net = Weighted()
    wanted = ms.grad(net, None, net.trainable_params())(X)
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        made = ms.grad(net, None, net.trainable_params())(X)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    np.testing.assert_array_equal(made[0].asnumpy(), wanted[0].asnumpy())


def without_gradient(x: Any) -> Any:
    return anyop.sigmoid_backward(x, x).sum()


def unused_without_gradient(x: Any) -> Any:
    return (ops.stop_gradient(anyop.sigmoid_backward(x, x)) * x).sum()


def activated(x: Any) -> Any:
    return anyop.linear(x, x, activation="relu").sum()


@pytest.mark.parametrize(("program", "text"), [
    (without_gradient, "sigmoid_backward: it has no gradient, but one was asked for. Try the call "
     "on tensors from mindspore.ops.stop_gradient."),
    (activated, "linear: activation is 'relu', but must be 'none' where a gradient is needed, "
     "because linear_backward takes no other."),
])  # fmt: skip
def test_a_gradient_is_refused_and_never_zero(program: Callable[..., Any], text: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        ms.jit(ms.grad(program))(X).asnumpy()
    assert text in str(caught.value)


def test_a_gradient_that_nothing_uses_is_not_refused() -> None:
    made = ms.jit(ms.grad(unused_without_gradient))(X)
    np.testing.assert_array_equal(made.asnumpy(), anyop.sigmoid_backward(x, x))


# ---- What is mirrored of MindSpore.


def test_the_mirrors_are_those_of_the_installed_mindspore() -> None:
    include = Path(ms.__file__).parent / "include" / "mindspore"
    text = (include / "ccsrc" / "utils" / "custom_aot_extra.h").read_text()
    functions = [line.split() for line in text.splitlines() if "= 0;" in line]
    order = [" ".join(words).split("(")[0].split()[-1] for words in functions]
    assert order[:5] == ["HasAttr", "GetAttrBool", "GetAttrInt", "GetAttrFloat", "GetAttrStr"]
    numbers = dict(_mindspore.dtypes())
    for name, number in numbers.items():
        kind = getattr(ms, "bool_" if name == "bool" else name)
        assert ms.common.dtype.type_size_in_bytes(kind) and number > 0
    assert (numbers["float32"], numbers["bfloat16"], numbers["int64"]) == (43, 45, 35)
