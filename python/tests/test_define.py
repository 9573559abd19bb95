# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python, called from NumPy."""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable
from typing import Any

import anyop
import ml_dtypes
import numpy as np
import pytest

X = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
_number = iter(range(10**6))


def define(signature: str, function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """anyop.define under a name that no other test has; `f` in the signature stands for it."""
    name = f"f{next(_number)}"
    return anyop.define(signature.replace("f(", f"{name}(", 1), function, **options)


@anyop.define(
    "twice(x: T[..., d], by: float = 2.0) -> (y: T[..., d] over x) where T in f32 | f64 | bf16",
    library="defined",
    flops="size(x)",
)
def twice(x: Any, by: float) -> Any:
    """twice: multiplies, by two if nothing else is said."""
    return (x * by).astype(x.dtype)


def test_is_an_operator_of_the_registry() -> None:
    assert anyop.ops.defined.twice is twice
    assert "defined" in list(anyop.ops)
    np.testing.assert_array_equal(twice(X), 2 * X)
    np.testing.assert_array_equal(twice(X, by=3), 3 * X)
    out = np.empty_like(X)
    assert twice(X, out=out) is out
    np.testing.assert_array_equal(out, 2 * X)
    info = anyop.info("defined.twice")
    assert info["doc"].startswith("twice: multiplies")
    assert info["file"] == __file__
    assert info["source"].startswith("test_define.py:")
    assert "defined.twice" in [s["name"] for s in anyop.specs()]


def test_explain_counters_and_policies_know_it() -> None:
    assert anyop.explain(twice, X).kernel == "cpu_python"
    anyop.reset_counters()
    twice(X)
    (row,) = anyop.counters()
    assert (row.op, row.kernel, row.calls) == ("defined.twice", "cpu_python", 1)
    with anyop.policy("defined.twice=cpu_python"):
        twice(X)
    with pytest.raises(ValueError, match="no kernel 'cpu_avx'.*only cpu_python"):
        anyop.policy("defined.twice=cpu_avx").__enter__()
    with pytest.raises(anyop.NotAvailable, match="'defined.twcie'.*Did you mean 'defined.twice'"):
        anyop.info("defined.twcie")


def test_wrong_calls_read_as_those_of_any_operator() -> None:
    with pytest.raises(ValueError) as caught:
        twice(X.astype(np.int32))
    assert str(caught.value) == (
        "defined.twice: x is i32[2, 3], but T must be f64, f32 or bf16. Try a cast."
    )
    with pytest.raises(ValueError, match=r"y is f32\[3\], but must be f32\[2, 3\] because x is"):
        twice(X, out=np.empty(3, np.float32))
    with pytest.raises(TypeError, match="unknown argument 'yb'. Did you mean 'by'"):
        twice(X, yb=1)


def test_gets_every_kind_of_argument() -> None:
    seen: list[Any] = []

    @define(
        "f(x: f32[n], ids: I[m]? = None, k: int = 3, s: float = 1, b: bool = True, "
        "w: 'one' | 'two' = 'two', t: dtype = bf16, ns: int[] = [1, 2], fs: float[] = [0.5]) "
        "-> (y: t[n]) where I in i32 | i64"
    )
    def f(
        x: Any, ids: Any, k: int, s: float, b: bool, w: str, t: Any, ns: list[int], fs: list[float]
    ) -> Any:
        seen[:] = [ids, k, s, b, w, t, ns, fs]
        return x.astype(t)

    y = f(X[0])
    assert y.dtype == ml_dtypes.bfloat16
    dtype = np.dtype(ml_dtypes.bfloat16)
    assert seen == [None, 3, 1.0, True, "two", dtype, [1, 2], [0.5]]
    assert type(seen[2]) is float
    f(X[0], np.arange(2), 4, 2, False, "one", np.float64, (7,), ())
    np.testing.assert_array_equal(seen[0], [0, 1])
    assert seen[1:] == [4, 2.0, False, "one", np.dtype(np.float64), [7], []]


LATER = ["u2", "u8", "c8", "c16", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize(
    "dtype",
    [
        "f8",
        "f4",
        "f2",
        "bfloat16",
        "float8_e4m3fn",
        "float8_e5m2",
        "i8",
        "i4",
        "i2",
        "i1",
        "u1",
        "?",
        "u4",
        *(pytest.param(d, marks=pytest.mark.exhaustive) for d in LATER),
    ],
)
def test_sees_each_dtype_and_layout_in_place(dtype: str) -> None:
    every = " | ".join(name for name, _, _ in anyop._anyop.dtypes())
    seen: list[Any] = []

    @define(f"f(x: T[..., d]) -> (y: T[..., d]) where T in {every}")
    def f(x: Any) -> Any:
        seen[:] = [x.ctypes.data, x.strides, x.flags.writeable]
        return x

    base = np.arange(24).reshape(4, 6).astype(getattr(ml_dtypes, dtype, dtype))
    for x in (base, base[::2, 1:3], base[1], base[:, :1], base[:0]):
        seen.clear()
        assert f(x).tobytes() == x.tobytes()  # NaNs too
        assert seen == ([x.ctypes.data, x.strides, False] if x.size else [])
    scattered = base[:, ::2]  # no kernel sees such strides: a copy
    assert f(scattered).tobytes() == scattered.tobytes()
    assert seen[0] != scattered.ctypes.data


def test_what_is_not_mut_cannot_be_written() -> None:
    def write(x: Any) -> Any:
        x[0] = 1
        return x

    x = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        define("f(x: f32[n]) -> (y: f32[n])", write)(x)
    assert not x.any()


def test_writes_mut_arguments_in_place_also_in_lists() -> None:
    @define("f(x: mut f32[n], more: mut f32[m]*, b: f32[n]) -> ()")
    def f(x: Any, more: list[Any], b: Any) -> None:
        x += b
        for one in more:
            one *= 2

    x, more = np.zeros(3, np.float32), [np.ones(2, np.float32), np.full((2, 2), 3, np.float32)[1]]
    assert f(x, more, X[0]) is None
    np.testing.assert_array_equal(x, X[0])
    np.testing.assert_array_equal(more, [[2, 2], [6, 6]])


def test_several_results_are_a_named_tuple() -> None:
    @define("f(x: f32[n], k: int) -> (y: f32[n], total: f32[], top: i64[k]?) where k >= 0")
    def f(x: Any, k: int) -> Any:
        return x + 1, x.sum(), np.argsort(-x)[:k]

    result = f(X[0], 2)
    assert type(result)._fields == ("y", "total", "top")
    np.testing.assert_array_equal(result.y, X[0] + 1)
    assert result.total.shape == ()
    assert result.total == X[0].sum()
    np.testing.assert_array_equal(result.top, [2, 1])
    assert f(X[0], 2, out=(None, None, False)).top is None


def test_a_function_may_write_out_itself() -> None:
    @define("f(x: f32[n]) -> (y: f32[n])")
    def one(x: Any, out: Any) -> Any:
        return np.add(x, 1, out=out)

    @define("f(x: f32[n]) -> (y: f32[n], z: f32[n]?)")
    def two(x: Any, *, out: Any) -> None:
        out[0][...] = x
        if out[1] is not None:
            out[1][...] = -x

    np.testing.assert_array_equal(one(X[0]), X[0] + 1)
    np.testing.assert_array_equal(two(X[0]).z, -X[0])
    assert two(X[0], out=(None, False)).z is None


WRONG_RETURNS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (
        lambda x: x.astype(np.float64),
        ValueError,
        "returned f64[6] for y, but the signature promises f32[6]. Try .astype(float32).",
    ),
    (lambda x: x[1:], ValueError, "returned f32[5] for y, but the signature promises f32[6]."),
    (lambda x: None, ValueError, "returned None for y, but the signature promises f32[6]."),
    (lambda x: [1.0], ValueError, "returned a list for y, but the signature promises f32[6]."),
    (
        lambda x: x.astype(np.complex64),
        ValueError,
        "returned c64[6] for y, but the signature promises f32[6]. Try .astype(float32).",
    ),
    (
        lambda x: x.astype(">f4"),
        ValueError,
        "returned >f4[6] for y, but the signature promises f32[6]. Try .astype(float32).",
    ),
]


@pytest.mark.parametrize(("function", "kind", "text"), WRONG_RETURNS)
def test_what_is_returned_must_be_what_was_promised(
    function: Any, kind: type[Exception], text: str
) -> None:
    op = define("f(x: f32[n]) -> (y: f32[n])", function)
    with pytest.raises(kind) as caught:
        op(X.ravel())
    assert str(caught.value) == f"{anyop.info(op)['name']}: <lambda>() {text}"
    assert isinstance(caught.value, anyop.Error)


@pytest.mark.parametrize(
    ("promised", "returned"),
    [("f32", "i32"), ("i16", "f16"), ("i8", "u8"), ("u8", "bool"), ("f16", "bf16"),
     ("f8e5m2", "f8e4m3"), ("bf16", "i16"), ("f64", "i64"), ("bool", "i8")],
)  # fmt: skip
def test_dtypes_of_the_same_size_are_told_apart(promised: str, returned: str) -> None:
    wrong = anyop._anyop.numpy_dtype(returned)
    op = define(f"f(x: f32[n]) -> (y: {promised}[n])", lambda x: np.ones(x.shape).astype(wrong))
    with pytest.raises(ValueError) as caught:
        op(X[0])
    assert f"returned {returned}[3] for y, but the signature promises {promised}[3]." in str(
        caught.value
    )


def test_the_number_of_results_must_fit() -> None:
    op = define("f(x: f32[n]) -> (y: f32[n], z: f32[n])", lambda x: (x,))
    with pytest.raises(ValueError, match=r"returned 1 values, but must return a tuple of 2 \(y, z"):
        op(X[0])
    none = define("f(x: mut f32[n]) -> ()", lambda x: x)
    with pytest.raises(ValueError, match=r"returned f32\[3\], but must return None"):
        none(X[0].copy())


def test_what_a_function_raises_arrives_as_it_is() -> None:
    class Mine(Exception):
        pass

    def fails(x: Any) -> Any:
        local = x + 1
        raise Mine("no", local.shape)

    op = define("f(x: f32[n]) -> (y: f32[n])", fails, flops="1000000 * n")
    for _ in range(3):  # also where Python's lock is given back
        with pytest.raises(Mine) as caught:
            op(X[0])
        assert caught.value.args == ("no", (3,))
        frames = [f.name for f in traceback.extract_tb(caught.value.__traceback__)]
        assert frames[-1] == "fails"
        assert caught.value.__traceback__.tb_next.tb_frame.f_locals["x"].tolist() == X[0].tolist()  # type: ignore[union-attr]


def test_a_function_may_call_operators_and_itself() -> None:
    @define("f(x: f32[n], k: int) -> (y: f32[n])")
    def down(x: Any, k: int) -> Any:
        return down(twice(x), k - 1) if k else anyop.add(x, x)

    np.testing.assert_array_equal(down(X[0], 50), X[0] * np.float32(2**51))


def test_arguments_may_be_kept_but_lent_memory_may_not() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x[1:])
        return x

    op = define("f(x: f32[n]) -> (y: f32[n])", keep)
    x = np.arange(6, dtype=np.float32)
    op(x)
    assert kept[0].base is not None  # the caller's own array stays alive
    del x
    gc.collect()
    assert kept[0].tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match=r"keep\(\) keeps an argument.*Try a copy"):
        op(np.arange(12, dtype=np.float32)[::2])  # a copy that lives for the call only


def test_threads_call_at_once() -> None:
    x = np.ones((64, 64), np.float32)
    wrong: list[Any] = []

    def work(by: float) -> None:
        for _ in range(200):
            if not (twice(x, by) == by).all():
                wrong.append(by)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_same_contract_again_binds_nothing() -> None:
    signature = "same(x: f32[n]) -> (y: f32[n])"

    def make() -> Any:
        def f(x: Any) -> Any:
            return x + 1

        return f

    first = anyop.define(signature, make())
    assert anyop.define(signature, make()) is first  # the same code
    with pytest.warns(RuntimeWarning, match="user.same is defined already, with the same sig"):
        assert anyop.define(signature, lambda x: x + 2) is first
    np.testing.assert_array_equal(first(X[0]), X[0] + 1)
    with pytest.raises(ValueError) as caught:
        anyop.define("same(x: f64[n]) -> (y: f64[n])", lambda x: x)
    assert str(caught.value) == (
        f"user.same of {__file__} is\n  same(x: f64[n]) -> (y: f64[n])\n"
        f"but {__file__} has already registered\n  {signature}"
    )


def add_one(x: Any, by: float = 1.0) -> Any:
    return x + by


REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    (
        "bad(x: f32[n) -> (y: f32[n])",
        add_one,
        {},
        "the signature of bad, line 1, column 13: expected , or ] after a dimension.\n"
        "    bad(x: f32[n) -> (y: f32[n])\n                ^",
    ),
    (
        "bad(z: f32[n], by: float) -> (y: f32[n])",
        add_one,
        {},
        "user.bad: add_one(x, by) must take the parameters of the signature, in order: (z, by).",
    ),
    (
        "bad(x: f32[n], by: float = 2.0) -> (y: f32[n])",
        add_one,
        {},
        "user.bad: add_one() has the default by=1.0, but the signature, whose defaults hold, has "
        "2.0. Leave it out of the function.",
    ),
    (
        "bad(x: f32[n]) -> (y: f32[n])",
        lambda *x: x,
        {},
        "user.bad: <lambda>(*x) must take the parameters of the signature, in order: (x).",
    ),
    (
        "bad(x: f32[n]) -> (y: f32[n])",
        type,
        {},
        "user.bad: the parameters of <class 'type'> cannot be read. Try a def around it.",
    ),
    (
        "bad(x: f32[n]) -> (y: f32[n])",
        lambda x: x,
        {"library": "anyop"},
        "anyop.bad: the library anyop holds built-in operators only. Try library='user'.",
    ),
    (
        "bad(x: f32[n]) -> (y: f32[n])",
        lambda x: x,
        {"library": "my-ops"},
        "my-ops.bad: the library is 'my-ops', but must be a name: letters, digits and _.",
    ),
    (
        "bad(x: f32[n]) -> (y: f32[n])",
        lambda x: x,
        {"library": "defined", "gradient": "twise"},
        "defined.bad: its gradient is 'twise', but the library defined has no such operator yet. "
        "Did you mean 'twice'? Try defining the gradient first.",
    ),
]


@pytest.mark.parametrize(("signature", "function", "options", "text"), REFUSED)
def test_contradictions_are_refused(
    signature: str, function: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError) as caught:
        anyop.define(signature, function, **options)
    assert str(caught.value).removeprefix(f"{__file__}: ") == text
    assert f"{options.get('library', 'user')}.bad" not in [s["name"] for s in anyop.specs()]


def test_a_gradient_must_fit_by_its_names() -> None:
    back = define("f(dy: f32[n], z: f32[n]) -> (dx: f32[n]?)", lambda dy, z: dy)
    name = anyop.info(back)["name"].removeprefix("user.")
    with pytest.raises(ValueError, match="cannot be its gradient: its parameter 'z' is no param"):
        define("f(x: f32[n]) -> (y: f32[n])", lambda x: x, gradient=name)
