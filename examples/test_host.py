# SPDX-License-Identifier: Apache-2.0
"""The host in examples/host: what anyop gives a framework that it knows nothing of."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "host"), str(HERE.parent / "python" / "tests" / "hosting")]
import numpy_calls  # noqa: E402
import toy  # noqa: E402
from anyop import hosting  # noqa: E402
from anyop.hosting.facts import Operator  # noqa: E402
from numpy_calls import DIFFERENTIABLE, OPERATORS  # noqa: E402


def to_toy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return toy.from_numpy(value.copy())
    return [to_toy(v) for v in value] if isinstance(value, list) else value


def to_numpy(value: Any) -> Any:
    if isinstance(value, toy.Tensor):
        return np.from_dlpack(value)
    return [to_numpy(v) for v in value] if isinstance(value, (list, tuple)) else value


def listed(made: Any) -> list[Any]:
    return [] if made is None else list(made) if isinstance(made, tuple) else [made]


def has_dlpack(values: list[Any]) -> bool:
    """NumPy itself exports no bfloat16 and no float8."""
    arrays = [a for v in values for a in (v if isinstance(v, list) else [v])]
    return all(a.dtype.kind in "fiub" for a in arrays if isinstance(a, np.ndarray))


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.short_name)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_operator_computes_what_it_computes_on_arrays(op: Operator, dtype: str) -> None:
    values = numpy_calls.example(op, dtype=dtype)
    if not has_dlpack(values):
        pytest.skip("NumPy exports no such dtype")
    arrays = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    tensors = [to_toy(v) for v in values]
    like = {} if op.needs_tensor else {"like": toy}
    try:
        wanted = numpy_calls.call(op, arrays)
        made = listed(op.function(*tensors, **like))
    except BufferError:
        pytest.skip("NumPy reads no such dtype")
    assert len(made) == len(wanted)
    for mine, theirs in zip(made, wanted, strict=True):
        if theirs is None:
            assert mine is None
            continue
        assert isinstance(mine, toy.Tensor)
        if theirs.dtype.kind != "V":  # a dtype that NumPy cannot read
            np.testing.assert_array_equal(to_numpy(mine), theirs, strict=True)
    for i in op.written:  # in place
        np.testing.assert_array_equal(to_numpy(tensors[i]), arrays[i])


X = np.random.default_rng(1).standard_normal((3, 8), np.float32)
W = np.random.default_rng(2).standard_normal(8, np.float32)


def test_results_are_given_or_allocated() -> None:
    x, w, y = to_toy(X), to_toy(W), to_toy(np.zeros_like(X))
    assert anyop.rms_norm(x, w, out=y) is y
    np.testing.assert_array_equal(to_numpy(y), anyop.rms_norm(X, W))
    made = anyop.rms_norm(x, w)
    assert to_numpy(made).ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: anyop.rms_norm(to_toy(X), to_toy(W[:5])), ValueError,
         "rms_norm: weight is f32[5], but must be f32[8] because x is f32[3, 8]."),
        (lambda: anyop.rms_norm(to_toy(X), W), TypeError,
         "rms_norm: weight is a NumPy array, but the call has toy tensors, and all must come from "
         "one host. Try toy.Tensor(weight.__dlpack__())."),
        (lambda: anyop.rms_norm(X, to_toy(W)), TypeError,
         "rms_norm: weight is a toy tensor, but the call has NumPy arrays, and all must come from "
         "one host. Try numpy.from_dlpack(weight)."),
        (lambda: anyop.rms_norm(to_toy(X), 3), TypeError,
         "rms_norm: weight is 3, but must be a toy tensor."),
        (lambda: anyop.softmax(to_toy(np.zeros((1,) * 9, np.float32))), ValueError,
         "softmax: x has 9 dimensions, but must have at most 8."),
        (lambda: anyop.softmax(to_toy(np.zeros(3, np.complex64))), ValueError,
         "softmax: x is c64[3], but T must be f32, f16 or bf16. Try a cast."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_as_anywhere(call: Any, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def test_strides_are_read() -> None:
    x = np.asfortranarray(X)
    made = anyop.softmax(toy.from_numpy(x))
    np.testing.assert_array_equal(to_numpy(made), anyop.softmax(x))


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.short_name)
def test_gradients_are_those_of_the_gradient_operator(op: Operator) -> None:
    """The sum over results of y * dy, whose gradients the tape must give."""
    values = numpy_calls.example(op, dtype="f32", words=True)
    if not has_dlpack(values):
        pytest.skip("NumPy exports no such dtype")
    assert op.wiring is not None
    tensors = [to_toy(v) for v in values]
    for i in op.wiring.targets:
        if isinstance(tensors[i], toy.Tensor) and values[i].dtype == np.float32:
            tensors[i].needs_gradient = True
    made = listed(op.function(*tensors))
    wanted_results = numpy_calls.call(op, values)
    r = min(op.wiring.results)
    dy = np.random.default_rng(3).standard_normal(wanted_results[r].shape).astype(np.float32)
    if wanted_results[r].dtype != np.float32:
        pytest.skip("a result of another dtype")
    made[r].backward(toy.from_numpy(dy))
    arguments = []
    places = {"param": values, "result": wanted_results}
    gradient = Operator(op.wiring.operator)
    for (kind, index), p in zip(op.wiring.sources, gradient.params, strict=True):
        if kind != "result_gradient":
            arguments.append(places[kind][index])
        elif index == r:
            arguments.append(dy)
        else:
            arguments.append(None if p.is_optional else np.zeros_like(wanted_results[index]))
    wanted = numpy_calls.call(gradient, arguments)
    seen = 0
    for i, of in zip(op.wiring.targets, wanted, strict=True):
        if of is not None and getattr(tensors[i], "needs_gradient", False):
            np.testing.assert_array_equal(to_numpy(tensors[i].gradient), of)
            seen += 1
    assert seen


def test_a_chain_has_a_gradient() -> None:
    x = toy.from_numpy(X, needs_gradient=True)
    y = anyop.add(anyop.softmax(x), x)
    y.backward(toy.from_numpy(np.ones_like(X)))
    s = anyop.softmax(X)
    wanted = anyop.softmax_backward(np.ones_like(X), s, scale=1.0) + 1
    np.testing.assert_allclose(to_numpy(x.gradient), wanted, rtol=1e-6)


def test_what_has_no_gradient_is_refused() -> None:
    x = toy.from_numpy(X, needs_gradient=True)
    with pytest.raises(anyop.Unsupported, match="it has no gradient, but one was asked for"):
        anyop.top_k(x, 2)


def test_a_number_that_needs_a_gradient_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy.Tensor, "__float__", lambda self: 0.5, raising=False)
    x, scale = to_toy(np.ones((2, 4), np.float32)), to_toy(np.ones((), np.float32))
    np.testing.assert_allclose(to_numpy(anyop.softmax(x, scale)), np.full((2, 4), 0.25))
    scale.needs_gradient = True
    with pytest.raises(TypeError, match="softmax: scale is .*, but must be a number. A number has "
                       "no gradient. Try a number of Python."):  # fmt: skip
        anyop.softmax(x, scale)


def test_explain_and_graphs_take_its_tensors() -> None:
    x, w = to_toy(X), to_toy(W)
    assert "rms_norm" in str(anyop.explain(anyop.rms_norm, x, w))
    g = anyop.graph(lambda x: anyop.rms_norm(x, w), "f32[n, 8]")
    made = g(x)
    assert isinstance(made, toy.Tensor)
    np.testing.assert_array_equal(to_numpy(made), anyop.rms_norm(X, W))
    with pytest.raises(ValueError, match="a graph cannot take these tensors: a gradient is needed"):
        g(toy.from_numpy(X, needs_gradient=True))


def test_functions_get_its_tensors() -> None:
    seen = []

    @anyop.define("twice_of(x: T[n]) -> (y: T[n]) where T in f32 | f64")
    def twice_of(x: Any) -> Any:
        seen.append(type(x))
        return toy.from_numpy(np.from_dlpack(x) * 2) if isinstance(x, toy.Tensor) else x * 2

    np.testing.assert_array_equal(to_numpy(twice_of(to_toy(W))), W * 2)
    np.testing.assert_array_equal(twice_of(W), W * 2)
    assert seen == [toy.Tensor, np.ndarray]

    def own(x: Any) -> Any:
        return to_toy(to_numpy(x) * 4)

    four = anyop.define(
        "four_of(x: T[n]) -> (y: T[n]) where T in f32", numpy=lambda x: x * 3, toy=own
    )
    np.testing.assert_array_equal(to_numpy(four(to_toy(W))), W * 4)
    np.testing.assert_array_equal(four(W), W * 3)
    with pytest.raises(TypeError, match="unknown argument 'numpi'. Did you mean 'numpy'"):
        anyop.define("five_of(x: T[n]) -> (y: T[n]) where T in f32", numpi=own)


def test_a_framework_has_one_host() -> None:
    with pytest.raises(ValueError, match="toy has a host already"):
        anyop.hosting.register(toy._adapter.record(toy.Tensor))


def test_bound_calls_are_for_frameworks_that_see_every_call() -> None:
    with pytest.raises(ValueError) as caught:
        hosting.register(toy._adapter.record(toy.Tensor), bound=lambda *_: None)
    assert str(caught.value) == (
        "register_host: bound is given, but the record of toy has no sees_calls: only a framework "
        "that sees every call is given bound calls. Leave it out."
    )


def test_sizes_that_nobody_knows_are_inferred() -> None:
    call = hosting.bound_call("rms_norm", "f32", "f32", eps=1e-5)
    assert call.infer([(None, [None, 8]), (None, [8])]) == (("f32", (-1, 8)),)
    assert call.infer([(None, None), (None, [8])]) == (("f32", None),)
    with pytest.raises(ValueError, match="must be"):
        call.infer([(None, [None, 8]), (None, [9])])
    (y,) = hosting.find_bound_call(call.text).run([to_toy(X), to_toy(W)])
    np.testing.assert_array_equal(y, anyop.rms_norm(X, W, eps=1e-5))
