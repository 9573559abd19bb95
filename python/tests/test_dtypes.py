# SPDX-License-Identifier: Apache-2.0
"""The list of dtypes in the NumPy host: names, casts, graphs, and what a signature must name."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import anyop
import ml_dtypes
import numpy as np
import pytest
from anyop import _anyop

ALL = {name: (long, kind) for name, long, kind in _anyop.dtypes()}
FIRST = list(ALL)[:12]
CAST = [name for name in ALL if name != "f4e2m1x2"]
PAIRS = [(a, b) for a, b in itertools.product(CAST, CAST) if {a, b} - set(FIRST)]
SOME = [("f32", "u16"), ("u64", "f8e4m3fnuz"), ("c64", "c128"), ("f8e8m0", "f32")]


def test_each_dtype_has_a_numpy_dtype_or_is_refused_by_name() -> None:
    lacking = []
    for name, (long, _) in ALL.items():
        try:
            assert _anyop.numpy_dtype(name).name == long
            assert _anyop.dtype_name(_anyop.numpy_dtype(long)) == name
        except anyop.NotAvailable as error:
            lacking.append((name, str(error)))
    text = "NumPy has no dtype for f4e2m1x2. Try the call with PyTorch's tensors."
    assert lacking == [("f4e2m1x2", text)]


def values(name: str) -> np.ndarray[Any, Any]:
    """Numbers of a dtype: whole and broken ones, its extremes, and NaN where it has one."""
    kind, dtype = ALL[name][1], _anyop.numpy_dtype(name)
    if kind in ("int", "uint"):
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 97, info.max, info.max - 1, info.min], dtype)
    if kind == "bool":
        return np.array([False, True])
    if kind == "complex":
        return np.array([0, 1 - 2j, 1.5 + 0.25j, -3, 2j, 1e30], dtype)
    numbers = [0, 1, 2, 3, 0.75, 1.5, 5.3, 100, 230, 1e4, np.inf, np.nan]
    signed = numbers if name == "f8e8m0" else [*numbers, -1, -2.5, -240, -np.inf]
    with np.errstate(over="ignore"):
        return np.array(signed, np.float32).astype(dtype)


def expected(x: np.ndarray[Any, Any], to: str) -> np.ndarray[Any, Any]:
    """By NumPy and ml_dtypes, with anyop's own rules for what they leave open."""
    dtype, kind = _anyop.numpy_dtype(to), ALL[to][1]
    if x.dtype.kind in "iub" and kind in ("int", "uint"):
        return x.astype(dtype)
    if x.dtype.kind == "c" and kind not in ("complex", "bool"):
        x = x.real
    if kind in ("int", "uint"):
        wide, info = x.astype(np.float64), np.iinfo(dtype)
        low = [
            0 if np.isnan(v) else int(max(v, float(info.min))) for v in np.minimum(wide, 2.0**65)
        ]
        return np.array([min(v, info.max) for v in low], dtype)
    if kind == "float" and to.startswith("f8"):
        wide = x.astype(np.float64) if x.dtype.kind in "iub" else x.astype(np.float32)
        top = float(ml_dtypes.finfo(dtype).max)
        low = 2.0**-127 if to == "f8e8m0" else -top
        zero = np.where(wide == 0, low, wide) if to == "f8e8m0" else wide
        most = np.where(zero > top, top, zero)
        return np.where(most < -top, -top, most).astype(dtype)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize(
    ("source", "to"),
    [pytest.param(*p, marks=() if p in SOME else pytest.mark.exhaustive) for p in PAIRS],
)
def test_casts_are_those_of_numpy(source: str, to: str) -> None:
    x = values(source)
    for given in (x, np.repeat(x, 2)[::2], np.tile(x, 40)):
        got, wanted = anyop.cast(given, to), expected(given, to)
        assert got.dtype == wanted.dtype
        if ALL[to][1] == "float":
            np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
        else:
            np.testing.assert_array_equal(got, wanted)


def test_a_dtype_that_the_signature_does_not_name_is_refused() -> None:
    x = np.ones(3, np.uint16)
    same = anyop.define("unnamed(x: T[n], y: T[n]) -> (z: T[n])", lambda x, y: x, library="dt")
    np.testing.assert_array_equal(same(np.ones(3, "u1"), np.ones(3, "u1")), [1, 1, 1])
    with pytest.raises(anyop.InvalidArgument) as caught:
        same(x, x)
    assert str(caught.value) == (
        "dt.unnamed: x is u16[3], but the signature names no u16. Try a cast."
    )
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.cast(x, "f4e2m1x2")
    assert "to is f4e2m1x2, but must be f64, f32" in str(caught.value)


def test_graphs_take_and_keep_them(tmp_path: Path) -> None:
    weight = np.array([1 + 2j, 3, -4j], np.complex128)
    named = "where T in c64 | c128"
    twice = anyop.define(
        f"doubled(x: T[n], w: T[n]) -> (y: T[n]) {named}", lambda x, w: x + w, library="dt"
    )
    graph = anyop.graph(lambda x: anyop.cast(twice(x, weight), "c64"), "c128[3]")
    x = np.array([1j, 2, 3], np.complex128)
    np.testing.assert_array_equal(graph(x), (x + weight).astype(np.complex64))
    plain = anyop.graph(lambda x: anyop.cast(anyop.cast(x, "u16"), "f8e4m3fnuz"), "f32[n]")
    plain.save(tmp_path / "saved")
    again = anyop.load_graph(tmp_path / "saved")
    made = again(np.array([1, 2.7, 300], np.float32))
    np.testing.assert_array_equal(made.astype(np.float32), [1, 2, 240])


def test_a_scalar_of_numpy_is_a_tensor_without_dimensions() -> None:
    scale = anyop.define("scale(x: f32[n], by: f32[]) -> (y: f32[n])", lambda x, by: x * by,
                         library="dt")  # fmt: skip
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(scale(x, np.float32(2)), [0, 2, 4])
    with anyop.strict():
        np.testing.assert_array_equal(scale(x, x.max()), [0, 2, 4])
    with pytest.raises(ValueError) as caught:
        scale(x, np.float64(2))
    assert str(caught.value) == "dt.scale: by is f64[], but must be f32[]. Try a cast to f32."
    with pytest.raises(TypeError, match="by is 2.0, but must be a NumPy array"):
        scale(x, 2.0)
    count = anyop.define("count(x: mut f32[]) -> ()", lambda x: None, library="dt")
    with pytest.raises(TypeError, match="must be a NumPy array"):
        count(np.float32(1))


def test_optional_lists_and_dtypes_reach_kernels_in_cpp(probe: Any) -> None:
    x = np.ones(3, np.float32)
    assert probe.optional(x).tolist() == [-1, -1, 0, np.inf, 3]
    assert probe.optional(x, [], "i16", "b", 2.5).tolist() == [0, list(ALL).index("i16"), 1, 2.5, 3]
    assert probe.optional(x, [x, x], None, "", -np.inf).tolist() == [2, -1, 0, -np.inf, 3]
    assert "most=inf" in str(__import__("inspect").signature(probe.optional))


def test_what_is_written_may_be_strided() -> None:
    def add(x: Any, c: Any) -> Any:
        c += x
        return x

    add = anyop.define("strided(x: f32[n], c: mut f32[n]) -> (y: f32[n])", add, library="dt")
    x, memory = np.arange(3, dtype=np.float32), np.zeros((3, 2), np.float32)
    add(x, memory[:, 1])
    add(x, memory[::-1, 1])
    np.testing.assert_array_equal(memory[:, 1], [2, 2, 2])
    assert not memory[:, 0].any()
    with pytest.raises(anyop.Unsupported) as caught, anyop.strict():
        add(x, memory[:, 1])
    assert str(caught.value) == (
        "dt.strided: c is f32[3] with strides [2] and would be copied, which strict mode refuses. "
        "Try a contiguous tensor."
    )
    assert "c is copied first and back afterwards: no kernel takes strides [2]." in str(
        anyop.explain(add, x, memory[:, 1])
    )
