# SPDX-License-Identifier: Apache-2.0
"""Calls of built-in operators on NumPy arrays."""

from __future__ import annotations

import inspect
import pickle

import anyop
import ml_dtypes
import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
W = np.linspace(0.5, 2, 64, dtype=np.float32)


def rms_norm(x: np.ndarray, weight: np.ndarray | None = None, eps: float = 1e-6) -> np.ndarray:
    wide = x.astype(np.float64)
    y = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight.astype(np.float64)


def test_result_is_a_new_array() -> None:
    y = anyop.rms_norm(X, W)
    assert type(y) is np.ndarray
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, rms_norm(X, W), rtol=1e-5)


def test_arguments_by_keyword_in_any_order() -> None:
    expected = anyop.rms_norm(X, W, 1e-3)
    np.testing.assert_array_equal(anyop.rms_norm(eps=1e-3, weight=W, x=X), expected)
    names = {"".join(["we", "ight"]): W, "".join(["ep", "s"]): 1e-3}  # not interned
    np.testing.assert_array_equal(anyop.rms_norm(X, **names), expected)


def test_optional_argument_may_be_none_or_left_out() -> None:
    np.testing.assert_array_equal(anyop.rms_norm(X, None), anyop.rms_norm(X))
    np.testing.assert_allclose(anyop.rms_norm(X), rms_norm(X), rtol=1e-5)


def test_out_is_written_and_returned() -> None:
    out = np.full_like(X, np.nan)
    assert anyop.rms_norm(X, W, out=out) is out
    np.testing.assert_allclose(out, rms_norm(X, W), rtol=1e-5)
    assert anyop.rms_norm(X, W, out=None) is not out


def test_bf16_arrays_go_in_and_come_out() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    y = anyop.rms_norm(x, W.astype(ml_dtypes.bfloat16))
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(y.astype(np.float32), rms_norm(x, W), rtol=2e-2)


def test_rows_with_gaps_are_read_in_place() -> None:
    wide = np.random.default_rng(1).standard_normal((4, 128)).astype(np.float32)
    view = wide[::2, 32:96]
    np.testing.assert_allclose(anyop.rms_norm(view, W), rms_norm(view, W), rtol=1e-5)


def test_writes_into_rows_with_gaps_and_nothing_between() -> None:
    wide = np.full((4, 128), 7, np.float32)
    anyop.rms_norm(X, W, out=wide[::2, 32:96])
    np.testing.assert_allclose(wide[::2, 32:96], rms_norm(X, W), rtol=1e-5)
    assert (wide[1::2] == 7).all()
    assert (wide[:, :32] == 7).all()


def test_transposed_input_is_copied() -> None:
    x = np.ascontiguousarray(X.T).T
    assert x.strides[-1] != 4
    np.testing.assert_array_equal(anyop.rms_norm(x, W), anyop.rms_norm(X, W))


def test_memory_maps_are_arrays(tmp_path) -> None:
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", np.float32, "r", shape=X.shape)
    np.testing.assert_array_equal(anyop.rms_norm(mapped, W), anyop.rms_norm(X, W))


def test_no_elements_is_a_size() -> None:
    assert anyop.rms_norm(np.empty((0, 64), np.float32), W).shape == (0, 64)


def test_policy_of_one_call() -> None:
    anyop.reset_counters()
    anyop.rms_norm(X, W, policy="rms_norm=cpu_portable")
    assert [(c.op, c.kernel, c.calls) for c in anyop.counters()] == [
        ("anyop.rms_norm", "cpu_portable", 1)
    ]
    assert anyop.explain("rms_norm", X, W).kernels  # the policy ended with the call


def test_functions_are_builtins_with_signatures() -> None:
    assert inspect.isbuiltin(anyop.rms_norm)
    signature = inspect.signature(anyop.rms_norm)
    assert list(signature.parameters)[:4] == ["x", "weight", "eps", "weight_offset"]
    assert signature.parameters["eps"].default == 1e-6
    assert signature.parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "rms_norm(x: T[..., d], weight: T[d]?" in (anyop.rms_norm.__doc__ or "")


@pytest.mark.parametrize("name", ["rms_norm", "add"])
def test_functions_pickle_by_name(name: str) -> None:
    function = getattr(anyop, name)
    assert pickle.loads(pickle.dumps(function)) is function
