# SPDX-License-Identifier: Apache-2.0
"""What a wrong call reads, word for word, and the class of its exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

X = np.ones((2, 8), np.float32)
W = np.ones(8, np.float32)
READ_ONLY = np.ones((2, 8), np.float32)
READ_ONLY.flags.writeable = False


def check(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, anyop.Error)


def strided(*strides: int) -> np.ndarray:
    """f32[2, 8] at these strides, in elements."""
    memory = np.zeros(64, np.float32)
    return np.lib.stride_tricks.as_strided(memory, (2, 8), [4 * s for s in strides])


NESTED: list[Any] = []
NESTED.append(NESTED)

VALUES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: anyop.rms_norm(X, W[:7]),
        "rms_norm: weight is f32[7], but must be f32[8] because x is f32[2, 8].",
    ),
    (
        lambda: anyop.rms_norm(np.ones((2, 8), np.int8), None),
        "rms_norm: x is i8[2, 8], but T must be f32, f16 or bf16. Try a cast.",
    ),
    (
        lambda: anyop.rms_norm(X, W.astype(np.float64)),
        "rms_norm: weight is f64[8], but must be f32[8] because x is f32[2, 8]. Try a cast to f32.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=X.astype(np.float64)),
        "rms_norm: y is f64[2, 8], but must be f32[2, 8] because x is f32[2, 8]. Try a tensor of "
        "f32.",
    ),
    (
        lambda: anyop.silu_and_mul(np.ones(7, np.float32)),
        "silu_and_mul: the last dimension of x is 7, but must be 2*d, a multiple of 2.",
    ),
    (
        lambda: anyop.rms_norm(np.ones((2, 8), "V2")),
        "rms_norm: x is |V2[2, 8], but anyop has no such dtype. Try a cast to f32 or i64.",
    ),
    (
        lambda: anyop.rms_norm(np.ones((2, 8), np.complex64)),
        "rms_norm: x is c64[2, 8], but T must be f32, f16 or bf16. Try a cast.",
    ),
    (
        lambda: anyop.rms_norm(X.astype(">f4")),
        "rms_norm: x has the bytes of its elements swapped, but must be in this machine's order. "
        "Try x.astype(x.dtype.newbyteorder('=')).",
    ),
    (
        lambda: anyop.rms_norm(np.ones((1,) * 9, np.float32)),
        "rms_norm: x has 9 dimensions, but must have at most 8.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=READ_ONLY),
        "rms_norm: y is read-only, but is written. Try a copy.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=np.empty((2, 7), np.float32)),
        "rms_norm: y is f32[2, 7], but must be f32[2, 8] because x is f32[2, 8].",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=strided(0, 1)),
        "rms_norm: y is f32[2, 8] with strides [0, 1], but must have no stride 0, because it is "
        "written. Try a contiguous tensor.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=strided(1, 0)),
        "rms_norm: y is f32[2, 8] with strides [1, 0], but must have no stride 0, because it is "
        "written. Try a contiguous tensor.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=strided(4, 1)),
        "rms_norm: y is f32[2, 8] with strides [4, 1], of which some elements share memory, but it "
        "is written. Try a contiguous tensor.",
    ),
]


@pytest.mark.parametrize(("call", "text"), VALUES)
def test_wrong_values_are_value_errors(call: Callable[[], Any], text: str) -> None:
    check(call, ValueError, text)


TYPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: anyop.rms_norm(), "rms_norm: x is missing."),
    (lambda: anyop.rms_norm(None), "rms_norm: x is None, but must be a NumPy array."),
    (
        lambda: anyop.rms_norm([1.0, 2.0]),
        "rms_norm: x is [1.0, 2.0], but must be a NumPy array. Try numpy.asarray(x).",
    ),
    (
        lambda: anyop.rms_norm(X, wieght=W),
        "rms_norm: unknown argument 'wieght'. Did you mean 'weight'?",
    ),
    (
        lambda: anyop.rms_norm(X, y=W),
        "rms_norm: unknown argument 'y'. Try x, weight, eps, weight_offset, out or policy.",
    ),
    (lambda: anyop.rms_norm(X, x=X), "rms_norm: x is given twice."),
    (
        lambda: anyop.rms_norm(X, W, 1, 2, 3),
        "rms_norm: 5 positional arguments are given, but at most 4 are taken. "
        "Try help(anyop.rms_norm).",
    ),
    (lambda: anyop.rms_norm(X, W, "a"), "rms_norm: eps is 'a', but must be a number."),
    (lambda: anyop.rms_norm(X, W, True), "rms_norm: eps is True, but must be a number."),
    (
        lambda: anyop.rms_norm(X, W, np.array(True)),
        "rms_norm: eps is array(True), but must be a number.",
    ),
    (
        lambda: anyop.top_k(X, 2, np.array([True])),
        "top_k: sorted is array([ True]), but must be True or False.",
    ),
    (
        lambda: anyop.top_k(X, 2, np.array(1)),
        "top_k: sorted is array(1), but must be True or False.",
    ),
    (
        lambda: anyop.rms_norm(X, W, np.complex64(1 + 2j)),
        f"rms_norm: eps is {np.complex64(1 + 2j)!r}, but must be a number.",
    ),
    (
        lambda: anyop.rms_norm(X, W, np.array(2j)),
        "rms_norm: eps is array(0.+2.j), but must be a number.",
    ),
    (
        lambda: anyop.rms_norm(X, W, out=[1]),
        "rms_norm: y is [1], but must be a NumPy array. Try numpy.asarray(y).",
    ),
    (
        lambda: anyop.softmax(X, out=False),
        "softmax: y is False in out, but only results with '?' can be left out.",
    ),
    (
        lambda: anyop.softmax(X, policy="none", out=False),
        "softmax: y is False in out, but only results with '?' can be left out.",
    ),
    (
        lambda: anyop.softmax(X, out=True),
        "softmax: y is True, but must be a NumPy array. Try numpy.asarray(y).",
    ),
    (
        lambda: anyop.explain(anyop.softmax, X, out=False),
        "softmax: y is False in out, but only results with '?' can be left out.",
    ),
    (
        lambda: anyop.softmax(NESTED),
        "softmax: x is [[...]], but must be a NumPy array. Try numpy.asarray(x).",
    ),
    (
        lambda: anyop.softmax(X, out=NESTED),
        "softmax: y is [[...]], but must be a NumPy array. Try numpy.asarray(y).",
    ),
    (
        lambda: anyop.softmax(X, **{"\udc80": 1}),
        "softmax: unknown argument '\\udc80'. Try x, scale, out or policy.",
    ),
    (
        lambda: anyop.softmax("\ud800"),
        "softmax: x is '\\ud800', but must be a NumPy array. Try numpy.asarray(x).",
    ),
    (
        lambda: anyop.rms_norm(X, like=np),
        "rms_norm: like is given, but the tensors of the call say where results belong. "
        "Leave it out.",
    ),
    (
        lambda: anyop.rms_norm(np.ma.masked_array([1.0, 2.0])),
        "rms_norm: x is a masked array, but masks are not read. Try x.filled(0).",
    ),
]


@pytest.mark.parametrize(("call", "text"), TYPES)
def test_wrong_objects_are_type_errors(call: Callable[[], Any], text: str) -> None:
    check(call, TypeError, text)


PROBE: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"n": 2.5}, TypeError, "n is 2.5, but must be an int."),
    ({"n": True}, TypeError, "n is True, but must be an int."),
    ({"n": np.array([1])}, TypeError, "n is array([1]), but must be an int."),
    (
        {"n": 2**63},
        ValueError,
        "n is 9223372036854775808, but must be an int of at most 64 bits.",
    ),
    ({"f": 1j}, TypeError, "f is 1j, but must be a number."),
    ({"b": 1}, TypeError, "b is 1, but must be True or False."),
    ({"w": 1}, TypeError, "w is 1, but must be a word, as a str."),
    ({"w": "gren"}, ValueError, "w is 'gren', but must be 'red' or 'green'. Did you mean 'green'?"),
    (
        {"to": "f33"},
        ValueError,
        "to is 'f33', but must be one of the dtypes f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, "
        "i32, i16, i8, u8, bool, u16, u32, u64, c64, c128, f8e8m0, f8e4m3fnuz, f8e5m2fnuz, "
        "f4e2m1x2.",
    ),
    ({"to": 3}, TypeError, "to is 3, but must be a dtype: a name like 'bf16', or a NumPy dtype."),
    ({"sizes": 3}, TypeError, "sizes is 3, but must be a list of ints."),
    ({"sizes": "12"}, TypeError, "sizes is '12', but must be a list of ints."),
    ({"sizes": [1, 2.5]}, TypeError, "sizes[1] is 2.5, but must be an int."),
    ({"gains": ["a"]}, TypeError, "gains[0] is 'a', but must be a number."),
    ({"policy": 3}, TypeError, "policy is 3, but must be a str."),
    (
        {"policy": "\udcff"},
        ValueError,
        "policy is '\\udcff', but must be a text that UTF-8 has codes for, without a null "
        "character.",
    ),
    (
        {"policy": "no\0ne"},
        ValueError,
        "policy is 'no\\x00ne', but must be a text that UTF-8 has codes for, without a null "
        "character.",
    ),
    (
        {"w": "\ud800"},
        ValueError,
        "w is '\\ud800', but must be 'red' or 'green'.",
    ),
    ({"sizes": NESTED}, TypeError, "sizes[0] is [[...]], but must be an int."),
]


@pytest.mark.parametrize(("arguments", "kind", "text"), PROBE)
def test_every_kind_is_checked(
    probe: Any, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    check(lambda: probe.describe(**arguments), kind, f"probe.describe: {text}")


def test_lists_within_themselves_are_no_lists_of_tensors(probe: Any) -> None:
    text = "probe.total: xs[0] is [[...]], but must be a NumPy array. Try numpy.asarray(xs[0])."
    check(lambda: probe.total(NESTED), TypeError, text)
    text = "softmax: x is [[...]], but must be a NumPy array. Try numpy.asarray(x)."
    check(lambda: anyop.graph(lambda x: anyop.softmax(NESTED, out=x), "f32[n]"), TypeError, text)
    pytest.importorskip("torch")  # from now on such objects may be proxies of torch.fx
    check(lambda: anyop.softmax(NESTED), TypeError, text)


class Element:
    shown = 0

    def __repr__(self) -> str:
        Element.shown += 1
        return "element"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda e: [e] * 10**6, "[element, element, element, element, element, element, eleme..."),
        (lambda e: (e,) * 10**6, "(element, element, element, element, element, element, eleme..."),
        (lambda e: dict.fromkeys(range(10**6), e), "{0: element, 1: element, 2: element, 3: element, 4: element,..."),  # noqa: E501
        (lambda e: {*range(10**6)}, "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1..."),  # noqa: E501
        (lambda e: frozenset({e}), "frozenset({element})"),
        (lambda e: [[(e,)], {}, set(), "a", (1, 2)], "[[(element,)], {}, set(), 'a', (1, 2)]"),
        (lambda e: "a" * 10**7, "'" + "a" * 59 + "..."),
        (lambda e: b"a" * 10**7, "b'" + "a" * 58 + "..."),
        (lambda e: 1 << 10**6, "an int of 1000001 bits"),
        (lambda e: "ä" * 58, "'" + "ä" * 58 + "'"),
        (lambda e: "ä" * 59, "'" + "ä" * 59 + "..."),
    ],
)  # fmt: skip
def test_no_more_of_an_object_is_made_than_shown(make: Callable[[Any], Any], text: str) -> None:
    Element.shown = 0
    wrong = make(Element())
    check(
        lambda: anyop.softmax(wrong),
        TypeError,
        f"softmax: x is {text}, but must be a NumPy array. Try numpy.asarray(x).",
    )
    assert Element.shown < 100


def test_lists_of_arrays_are_checked(probe: Any) -> None:
    x, name = np.ones(2, np.float32), "probe.total: "
    check(
        lambda: probe.total([x, 3]),
        TypeError,
        name + "xs[1] is 3, but must be a NumPy array. Try numpy.asarray(xs[1]).",
    )
    with pytest.raises(TypeError, match="xs is array.*, but must be a list of NumPy arrays"):
        probe.total(x)


def test_mut_arguments_must_be_writeable(probe: Any) -> None:
    frozen = np.ones(2, np.float32)
    frozen.flags.writeable = False
    text = "probe.bump: xs[0] is read-only, but is written. Try a copy."
    check(lambda: probe.bump([frozen]), ValueError, text)
    assert frozen[0] == 1


def test_out_of_several_results_has_their_number(probe: Any) -> None:
    x = np.ones(4, np.float32)
    check(
        lambda: probe.halves(x, out=(None,)),
        TypeError,
        "probe.halves: out is (None,), but must be a tuple of 2 (low, high). "
        "Try None for those to allocate.",
    )
    check(
        lambda: probe.halves(x, out=(False, None)),
        TypeError,
        "probe.halves: low is False in out, but only results with '?' can be left out.",
    )
    check(
        lambda: probe.halves(x, out=False),
        TypeError,
        "probe.halves: out is False, but must be a tuple of 2 (low, high). "
        "Try None for those to allocate.",
    )
    check(
        lambda: probe.bump([x], out=x),
        TypeError,
        "probe.bump: out is given, but the operator has no result.",
    )


def test_a_result_that_must_be_computed_cannot_be_left_out(probe: Any) -> None:
    torch = pytest.importorskip("torch")
    text = "softmax: y is False in out, but only results with '?' can be left out."
    calls: list[Callable[[], Any]] = [
        lambda: anyop.softmax(torch.ones(2, 8), out=False),
        lambda: anyop.softmax(torch.ones(2, 8, requires_grad=True), out=False),
        lambda: anyop.graph(lambda x: anyop.softmax(x, out=False), "f32[n]"),
    ]
    for call in calls:
        check(call, TypeError, text)
    g = anyop.graph(lambda x: anyop.softmax(x), "f32[n, 8]", name="g")
    text = "g: out is False in out, but only results with '?' can be left out."
    check(lambda: g(X, out=False), TypeError, text)
    dx = probe.gradient(W, W, out=(False, False)).dx
    assert dx is None


def test_outputs_may_not_share_memory(probe: Any) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="probe.halves: low"):
        probe.halves(x, out=(x[:2], None))
    np.testing.assert_array_equal(x, np.ones(4))


def test_error_classes_are_also_pythons() -> None:
    pairs = [
        (anyop.InvalidArgument, ValueError),
        (anyop.WrongType, TypeError),
        (anyop.Unsupported, NotImplementedError),
        (anyop.NotAvailable, RuntimeError),
        (anyop.OutOfMemory, MemoryError),
        (anyop.Internal, RuntimeError),
    ]
    for ours, pythons in pairs:
        assert issubclass(ours, anyop.Error)
        assert issubclass(ours, pythons)
