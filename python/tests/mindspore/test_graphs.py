# SPDX-License-Identifier: Apache-2.0
"""Operators in compiled graphs: how they are named, what is refused, scopes and gradients."""

from __future__ import annotations

import json
import re
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
     "rms_norm: eps is a MindSpore tensor, but must be a number that is known when the graph is "
     "compiled, because it becomes part of the node. Try a Python number: eps.item() outside of "
     "the graph."),
    (with_out, X, anyop.Unsupported,
     "rms_norm: out is given, but a node of a graph makes its own results. Try the call without "
     "out."),
    (misnamed, W, anyop.WrongType,
     "rms_norm: unknown argument 'wieght'. Did you mean 'weight'?"),
    (norm, Tensor(w[:3]), RuntimeError,
     "rms_norm: weight is f32[3], but must be f32[64] because x is f32[4, 64]."),
    (norm, W.astype(ms.complex64), anyop.InvalidArgument,
     "rms_norm: weight is c64[64], but must be f32[64] because x is f32[4, 64]. Try a cast to "
     "f32."),
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


class Portable(nn.Cell):
    def construct(self, x: Any) -> Any:
        return anyop.rms_norm(x)


@pytest.mark.parametrize("mode", ["jit", "graph"])
def test_a_scope_around_a_compiled_call_holds(mode: str) -> None:
    def kernel() -> str:
        anyop.reset_counters()
        if mode == "graph":
            ms.set_context(mode=ms.GRAPH_MODE)
        try:
            made = run(X).asnumpy()
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
        np.testing.assert_allclose(made, anyop.rms_norm(x), rtol=1e-5)
        return next(c.kernel for c in anyop.counters() if c.op == "anyop.rms_norm")

    net = Portable()
    run = net if mode == "graph" else ms.jit(net.construct)
    assert kernel() != "cpu_portable"
    with anyop.policy("rms_norm=cpu_portable"):
        assert kernel() == "cpu_portable"
        with anyop.strict(), anyop.batch_invariant(), anyop.threads(1):
            assert kernel() == "cpu_portable"
    assert kernel() != "cpu_portable"


TWO = Tensor(np.array([1, 2]))


def test_a_scope_holds_in_loops() -> None:
    run = ms.jit(normed_in_a_loop)
    wanted = run(X, TWO).asnumpy()
    anyop.reset_counters()
    with anyop.policy("rms_norm=cpu_portable"):
        np.testing.assert_allclose(run(X, TWO).asnumpy(), wanted, rtol=1e-4)
    assert {c.kernel for c in anyop.counters()} == {"cpu_portable"}


def normed_in_a_loop(x: Any, slots: Any) -> Any:
    i = slots[0] * 0
    while i < 2:
        x = anyop.rms_norm(x)
        i = i + 1
    return x


def test_a_scope_holds_in_gradients_of_a_graph() -> None:
    slope = ms.jit(ms.grad(norm_times_itself))
    wanted = slope(X).asnumpy()
    anyop.reset_counters()
    with anyop.policy("rms_norm_backward=cpu_portable"):
        np.testing.assert_allclose(slope(X).asnumpy(), wanted, rtol=1e-4, atol=1e-5)
    assert [c.kernel for c in anyop.counters() if "backward" in c.op] == ["cpu_portable"]


def norm_times_itself(x: Any) -> Any:
    return (anyop.rms_norm(x) * x).sum()


def test_the_timeline_has_the_names_of_operators(tmp_path: Path) -> None:
    def step(x: Any) -> Any:
        return (anyop.rms_norm(x) * anyop.gelu(x)).sum()

    both, slope = ms.jit(step), ms.jit(ms.grad(step))
    profiler = ms.profiler.profile(
        activities=[ms.profiler.ProfilerActivity.CPU],
        on_trace_ready=ms.profiler.tensorboard_trace_handler(str(tmp_path)),
    )
    eager = ms.grad(lambda x: (anyop.sigmoid(x) * anyop.softmax(x)).sum())
    with profiler:
        both(X).asnumpy()
        slope(X).asnumpy()
        anyop.relu2(X)
        eager(X).asnumpy()
        with pytest.raises(anyop.InvalidArgument):
            anyop.layer_norm(X, Tensor(np.ones(3, np.float32)))
        profiler.step()
    anyop.silu_and_mul(X)  # no longer
    (told,) = tmp_path.rglob("trace_view.json")
    names = {str(event.get("name")) for event in json.loads(told.read_text())}
    both_ways = {f"anyop.{n}{way}" for n in ("sigmoid", "softmax") for way in ("", "_backward")}
    assert {"anyop.relu2", "anyop.layer_norm", *both_ways} <= names  # in PyNative
    assert "anyop.silu_and_mul" not in names
    for name in ("rms_norm", "gelu", "rms_norm_backward", "gelu_backward"):
        assert any(n.startswith(f"Default/anyop.{name}/Custom") for n in names), (name, names)
    assert not any(n.startswith("Default/Custom") for n in names)


def test_operators_that_come_later_are_known() -> None:
    @anyop.define("ms_later(x: T[...]) -> (y: T[...]) where T in f32")
    def ms_later(x: Any) -> Any:
        return x + 1

    np.testing.assert_array_equal(ms.jit(call_later)(X).asnumpy(), x + 1)


def call_later(x: Any) -> Any:
    return anyop.ops.user.ms_later(x)


def call_raising(x: Any) -> Any:
    return anyop.ops.user.ms_raises(x)


def test_what_a_function_raises_is_a_text_in_a_graph() -> None:
    @anyop.define("ms_raises(x: T[...]) -> (y: T[...]) where T in f32")
    def ms_raises(x: Any) -> Any:
        raise KeyError("why")

    with pytest.raises(KeyError):  # in PyNative as it was raised
        call_raising(X)
    with pytest.raises(RuntimeError) as caught:
        ms.jit(call_raising)(X).asnumpy()
    text = " ".join(str(caught.value).split())
    assert re.search(r"ms_raises\(\) raised KeyError: 'why' \(test_graphs.py, line \d+\)", text)


def test_status_says_that_all_works() -> None:
    assert anyop.mindspore.status() == ""


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
    numbers = {name: number for name, number, _ in _mindspore.dtypes()}
    for name, number in numbers.items():
        kind = getattr(ms, "bool_" if name == "bool" else name)
        assert ms.common.dtype.type_size_in_bytes(kind) and number > 0
    assert (numbers["float32"], numbers["bfloat16"], numbers["int64"]) == (43, 45, 35)
