# SPDX-License-Identifier: Apache-2.0
"""MindSpore's tensors outside of graphs: memory, messages, gradients."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyop
import mindspore as ms
import numpy as np
import pytest
from anyop.hosting.facts import Operator
from calls import to_array, to_tensor
from mindspore import Parameter, Tensor, ops
from numpy_calls import LEAVES_OUT, left_out

RANDOM = np.random.default_rng(0)
x = RANDOM.standard_normal((4, 64)).astype(np.float32)
w = RANDOM.standard_normal(64).astype(np.float32)
X, W = Tensor(x), Tensor(w)


@pytest.mark.parametrize("order", ["import anyop, mindspore", "import mindspore, anyop"])
def test_it_starts_by_itself(order: str) -> None:
    program = f"""{order}
import numpy
print(type(anyop.gelu(mindspore.Tensor(numpy.ones(3, "f4")))).__name__, anyop._anyop.hosts())
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.strip() == "Tensor ['numpy', 'torch', 'mindspore']"


def test_memory_is_used_as_it_is() -> None:
    y = ops.zeros((8, 64))
    assert anyop.rms_norm(X, W, out=y[4:]) is not None
    np.testing.assert_array_equal(y.asnumpy()[:4], np.zeros((4, 64), "f4"))
    np.testing.assert_array_equal(y.asnumpy()[4:], anyop.rms_norm(x, w))
    z = ops.zeros((64, 4))
    anyop.gelu(X, out=z.T)  # a view with strides
    np.testing.assert_array_equal(z.asnumpy(), anyop.gelu(x).T)
    np.testing.assert_array_equal(anyop.gelu(X[::2, 1:]).asnumpy(), anyop.gelu(x[::2, 1:]))


def test_what_is_queued_is_waited_for() -> None:
    big = Tensor(RANDOM.standard_normal((600, 600)).astype(np.float32))
    made = big
    for _ in range(5):
        made = ops.matmul(made, big)  # queued
    np.testing.assert_array_equal(anyop.gelu(made).asnumpy(), anyop.gelu(made.asnumpy()))


def test_caches_are_written_in_place() -> None:
    key, slots = Tensor(np.ones((2, 1, 4), "f4")), Tensor(np.array([1, 2]))
    caches = [Parameter(ops.zeros((2, 4, 4)), name=name) for name in "ab"]
    views = [c.reshape((2, 4, 1, 4)) for c in caches]
    anyop.reshape_and_cache(key, key, *views, slots)
    assert [float(c.sum()) for c in caches] == [8.0, 8.0]


LACKING = ["f8e4m3", "f8e5m2", "f8e8m0", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1x2"]
OWN = [name for name, _, _ in anyop._anyop.dtypes() if name not in LACKING]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "u32" else pytest.mark.exhaustive) for n in OWN],
)
def test_every_dtype_that_mindspore_has_goes_in_and_comes_out(name: str) -> None:
    made = anyop.cast(X, name)
    assert anyop._anyop.dtype_name(made.dtype) == name
    wanted = anyop.cast(x, name)
    np.testing.assert_array_equal(to_array(made), wanted)
    np.testing.assert_array_equal(anyop.cast(made, "f32").asnumpy(), anyop.cast(wanted, "f32"))

    @ms.jit
    def there_and_back(t: Any) -> Any:
        return anyop.cast(anyop.cast(t, name), "f32")

    np.testing.assert_array_equal(there_and_back(X).asnumpy(), anyop.cast(wanted, "f32"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "f8e8m0" else pytest.mark.exhaustive) for n in LACKING],
)
def test_a_dtype_that_mindspore_lacks_is_refused_by_name(name: str) -> None:
    made = anyop.define(f"made_{name}(x: f32[n]) -> (y: {name}[n])", lambda x: x, library="lacks")
    with pytest.raises(TypeError) as caught:
        made(W)
    assert f"MindSpore has no tensors of {name} on the CPU." in str(caught.value)


@anyop.define("tally_backward(dy: f32[n]) -> (dx: f32[n]?)")
def tally_backward(dy: Any) -> Any:
    return dy + dy


@anyop.define("tally(x: f32[n], seen: mut f32[n]) -> (y: f32[n])", gradient="tally_backward")
def tally(x: Any, seen: Any) -> Any:
    seen.asnumpy()[:] += x.asnumpy()  # MindSpore's own += makes another tensor
    return x + x


def test_what_an_operator_writes_beside_its_results_forbids_no_gradient() -> None:
    seen = Parameter(ops.zeros(64), name="seen", requires_grad=False)
    made = ms.grad(lambda t: tally(t, seen).sum())(W)
    np.testing.assert_array_equal(made.asnumpy(), np.full(64, 2, "f4"))
    np.testing.assert_array_equal(seen.asnumpy(), w)


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: anyop.rms_norm(X, w), anyop.WrongType,
     "rms_norm: weight is a NumPy array, but the call has MindSpore tensors, and all must come "
     "from one host. Try mindspore.Tensor(weight)."),
    (lambda: anyop.rms_norm(x, W), anyop.WrongType,
     "rms_norm: weight is a MindSpore tensor, but the call has NumPy arrays, and all must come "
     "from one host. Try weight.asnumpy()."),
    (lambda: anyop.rms_norm(X, Tensor(w[:3])), anyop.InvalidArgument,
     "rms_norm: weight is f32[3], but must be f32[64] because x is f32[4, 64]."),
    (lambda: anyop.rms_norm(X, W, epss=1), anyop.WrongType,
     "rms_norm: unknown argument 'epss'. Did you mean 'eps'?"),
    (lambda: anyop.gelu(X.astype(ms.complex64)), anyop.InvalidArgument,
     "gelu: x is c64[4, 64], but T must be f32, f16 or bf16. Try a cast."),
    (lambda: anyop.gelu(ops.ones((1,) * 9)), anyop.InvalidArgument,
     "gelu: x has 9 dimensions, but must have at most 8."),
    (lambda: anyop.gelu(Tensor(shape=(4,), dtype=ms.float32, init=ms.common.initializer.One())),
     anyop.InvalidArgument, "gelu: x has no memory."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), CALLS)
def test_wrong_calls(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def loss(x: Any, w: Any) -> Any:
    return (anyop.rms_norm(x, w) * x).sum()


def test_gradients_are_the_operators_own() -> None:
    dx, dw = ms.grad(loss, (0, 1))(X, W)
    ours = anyop.rms_norm_backward(x, x, w, eps=1e-6, weight_offset=0.0)
    np.testing.assert_allclose(dx.asnumpy(), ours[0] + anyop.rms_norm(x, w), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(dw.asnumpy(), ours[1])
    parameter = Parameter(W, name="w")
    found = ms.grad(lambda x: loss(x, parameter), None, [parameter])(X)
    np.testing.assert_array_equal(found[0].asnumpy(), dw.asnumpy())


def test_a_gradient_with_an_unused_result() -> None:
    dx = ms.grad(lambda x: anyop.add_rms_norm(x, X, W)[1].sum())(Tensor(x))
    np.testing.assert_array_equal(dx.asnumpy(), np.ones_like(x))


def test_what_is_constant_in_a_gradient_needs_none() -> None:
    other = Tensor(x)
    y = ops.zeros((4, 64))

    def program(x: Any) -> Any:
        anyop.rms_norm(other, Tensor(w), out=y)  # no gradient: straight to the kernel
        return (anyop.gelu(x) * y).sum()

    ms.grad(program)(Tensor(x))
    np.testing.assert_array_equal(y.asnumpy(), anyop.rms_norm(x, w))


STOP = "Try the call on tensors from mindspore.ops.stop_gradient"
REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: anyop.sigmoid_backward(x, X).sum(),
     f"sigmoid_backward: it has no gradient, but one was asked for. {STOP}."),
    (lambda x: anyop.linear(x, Tensor(x.asnumpy()), activation="relu").sum(),
     "linear: activation is 'relu', but must be 'none' where a gradient is needed, because "
     f"linear_backward takes no other. {STOP}."),
    (lambda x: anyop.gelu(x, out=ops.zeros((4, 64))).sum(),
     "gelu: out is given, but x needs a gradient, and memory that is given has none. Try the call "
     "without out."),
    (lambda x: anyop.rotary_embedding(None, x.reshape((4, 1, 64)), None, Tensor(x.asnumpy())),
     "rotary_embedding: query needs a gradient, but query is written in place, through which none "
     f"flows. {STOP}, and a Parameter with requires_grad=False."),
]  # fmt: skip


@pytest.mark.parametrize(("program", "text"), REFUSED)
def test_gradients_that_are_refused(program: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(anyop.Unsupported) as caught:
        ms.grad(program)(Tensor(x))
    ms.common.api._pynative_executor.clear_res()  # MindSpore itself stays in the gradient
    assert str(caught.value) == text


def test_two_threads() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        own = np.random.default_rng(seed).standard_normal((16, 64)).astype(np.float32)
        for _ in range(50):
            made = anyop.softmax(Tensor(own)).asnumpy()
            if not np.array_equal(made, anyop.softmax(own)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_of_python_get_tensors() -> None:
    seen: list[Any] = []

    @anyop.define("twice(x: T[...]) -> (y: T[...]) where T in f32")
    def twice(x: Any) -> Any:
        seen.append(type(x).__name__)
        return anyop.add(x, x)

    np.testing.assert_array_equal(twice(X).asnumpy(), 2 * x)
    assert seen == ["Tensor"]


def test_explain_and_counters() -> None:
    assert anyop.explain(anyop.gelu, X).error == ""
    anyop.reset_counters()
    anyop.gelu(X)
    assert [(c.op, c.calls) for c in anyop.counters()] == [("anyop.gelu", 1)]


@pytest.mark.parametrize("op", LEAVES_OUT, ids=lambda op: op.name)
def test_what_may_be_absent_is_left_out_by_keyword(op: Operator) -> None:
    with_none, without = ({n: to_tensor(v) for n, v in some.items()} for some in left_out(op))
    made, wanted = op.function(**without), op.function(**with_none)
    written = [(value, with_none[name]) for name, value in without.items()]
    results = zip(*(r if isinstance(r, tuple) else (r,) for r in (made, wanted)), strict=True)
    for one, other in (*results, *written):
        np.testing.assert_array_equal(to_array(one), to_array(other))
