# SPDX-License-Identifier: Apache-2.0
"""What anyop.graph and graphs refuse, word for word, with the user's line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

X = np.ones((6, 64), np.float32)
WEIGHT = np.ones(64, np.float32)
UNKNOWN = (
    ", but a graph is made before there are numbers: if, while, int() and range() cannot depend on "
    "them. Try an operator, a fixed size, or do it outside of the graph."
)
FOREIGN = ", but a graph holds operators of anyop only."
OUTSIDE = " Try an operator, anyop.host, or do it outside of the graph."


def scaled(x: Any, eps: Any) -> Any:
    return anyop.rms_norm(x, WEIGHT, eps)


def check(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, anyop.Error)


def branch(x: Any) -> Any:
    if x:
        return x
    return None


def count(x: Any) -> Any:
    total = 0
    for i in range(x.shape[0]):
        total += i
    return x


def grow(x: Any) -> Any:
    while x.shape[0] > 4:
        x = x[1:]
    return x


CONTROL = [
    (branch, 1, "asks whether x, f32[n, 64] is true"),
    (count, 2, "asks for the number n"),
    (grow, 1, "asks whether n > 4"),
    (lambda x: int(x[0, 0]), 0, "asks for the number v3, f32[]"),
    (lambda x: float(x[0, 0]), 0, "asks for the number v3, f32[]"),
    (lambda x: [row for row in x], 0, "iterates over x, f32[n, 64]"),  # noqa: C416
    (lambda x: len(x), 0, "asks for the len() of x, f32[n, 64]"),
    (lambda x: x.tolist(), 0, "asks for the elements of x, f32[n, 64]"),
    (lambda x: 1 in x, 0, "asks for the elements of x, f32[n, 64]"),
    (lambda x: x.shape[0] // 2, 0, "asks for n // 2"),
    (lambda x: x.shape[0] == 3, 0, "asks whether n == 3"),
    (lambda x: x.shape[0] / 2, 0, "asks for n / 2"),
    (lambda x: 0.5 * x.shape[0], 0, "asks for 0.5 * n"),
    (lambda x: 2 ** x.shape[0], 0, "asks for 2 ** n"),
    (lambda x: abs(x.shape[0]), 0, "asks for abs(n)"),
    (lambda x: divmod(x.shape[0], 3), 0, "asks for n // 3"),
    (lambda x: min(x.shape[0], 3), 0, "asks whether n > 3"),
    (lambda x: np.zeros((x.shape[0], 4)), 0, "asks for the number n"),
    (lambda x: [0] * x.shape[0], 0, "asks for the number n"),
    (lambda x: [row for row in range(9) if row < x.shape[0]], 0, "asks whether n > 0"),
]


@pytest.mark.parametrize(("function", "line", "text"), CONTROL)
def test_control_flow_on_values_names_the_line(
    function: Callable[..., Any], line: int, text: str
) -> None:
    place = f"test_graph_errors.py:{function.__code__.co_firstlineno + line}"
    check(
        lambda: anyop.graph(function, "f32[n, 64]"),
        ValueError,
        f"anyop.graph: {place} {text}{UNKNOWN}",
    )


CODE = [
    (lambda x: np.exp(x), "numpy.exp", OUTSIDE),
    (lambda x: np.concatenate([x, x]), "numpy.concatenate", OUTSIDE),
    (lambda x: np.asarray(x), "NumPy", OUTSIDE),
    (lambda x: np.add(X, x), "numpy.add", " Try anyop.add."),
    (lambda x: x + 1, "Python's +", " Try anyop.add."),
    (lambda x: 2 * x, "Python's *", " Try anyop.mul."),
    (lambda x: X * x, "numpy.multiply", OUTSIDE),
    (lambda x: x.astype(np.float64), ".astype", OUTSIDE),
    (lambda x: x[:, ::2], "a slice with step 2", OUTSIDE),
    (lambda x: x[np.array([1, 2])], "indexing", OUTSIDE),
    (lambda x: np.float32(2) * x, "numpy.multiply", OUTSIDE),
    (lambda x: x.__iadd__(1), "Python's +", " Try anyop.add."),
    (lambda x: x @ x, "Python's @", OUTSIDE),
    (lambda x: x.mean(), ".mean", OUTSIDE),
    (lambda x: x.__setitem__(0, 1), "Python's [] =", OUTSIDE),
]


@pytest.mark.parametrize(("function", "code", "hint"), CODE)
def test_code_that_is_not_anyops_is_refused(
    function: Callable[..., Any], code: str, hint: str
) -> None:
    place = f"test_graph_errors.py:{function.__code__.co_firstlineno}"
    check(
        lambda: anyop.graph(function, "f32[n, 64]"),
        TypeError,
        f"anyop.graph: {place} calls {code} on x, f32[n, 64]{FOREIGN}{hint}",
    )


def test_a_number_goes_to_operators_only() -> None:
    function = lambda x, eps: scaled(x, eps * 2)  # noqa: E731
    line = function.__code__.co_firstlineno
    check(
        lambda: anyop.graph(function, "f32[n, 64]", "float"),
        ValueError,
        f"anyop.graph: test_graph_errors.py:{line} computes with eps, a float (*){UNKNOWN}",
    )


def test_an_operators_refusal_names_the_line() -> None:
    line = scaled.__code__.co_firstlineno + 1
    check(
        lambda: anyop.graph(scaled, "f32[n, 63]", "float"),
        ValueError,
        "rms_norm: weight is f32[64], but must be f32[63] because x is f32[384, 63].\n"
        f"  tried with n = 384\n  at test_graph_errors.py:{line}",
    )


def leaked() -> Any:
    kept = []
    anyop.graph(lambda x: kept.append(x) or anyop.softmax(x), "f32[4]")
    return anyop.softmax(kept[0])


SAME = anyop.graph(lambda x: x, "f32[n, 4]", name="same")
INNER = anyop.graph(
    lambda x, y: (anyop.softmax(x), anyop.softmax(y)), "f32[m, 4]", "f32[2*m, 4]", name="inner"
)


def mixed() -> Any:
    return anyop.graph(
        lambda x: anyop.graph(lambda y: anyop.add(x, y), "f32[4]", name="in"), "f32[4]"
    )


def endless(x: Any) -> Any:
    return anyop.graph(endless, "f32[n]")(x)


def read_only() -> Any:
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    return anyop.graph(lambda x: anyop.softmax(x, out=fixed), "f32[4]")


MAKING: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: anyop.graph(scaled, "f32[n, 64]"),
        ValueError,
        "scaled: 1 type is given, but the function takes (x, eps). Try one per argument.",
    ),
    (
        lambda: anyop.graph("softmax", "f32[n]"),  # type: ignore[arg-type]
        TypeError,
        "graph: the function is 'softmax', but must be one that calls operators. Try "
        "anyop.graph(function, 'f32[n, 64]'), with a type for each argument.",
    ),
    (
        lambda: anyop.graph(scaled, "f32[n, 64]", 3.0),
        TypeError,
        "graph: the type of eps is 3.0, but must be a str like 'f32[n, 64]', 'int', 'float' or "
        "'bool', or an array.",
    ),
    (
        lambda: anyop.graph(lambda x: {"y": x}, "f32[n]"),
        TypeError,
        "lambda: the function returns a dict, but must return a tensor or a tuple of tensors.",
    ),
    (
        lambda: anyop.graph(lambda x: x.shape[0], "f32[n]"),
        TypeError,
        "lambda: the function returns n, but must return tensors of its graph.",
    ),
    (
        lambda: anyop.graph(lambda x: x.reshape(-1, 7), "f32[n, 64]"),
        ValueError,
        "anyop.graph: test_graph_errors.py:{line} reshapes x, f32[n, 64] to [-1, 7], but 64*n "
        "elements are no multiple of 7.",
    ),
    (
        lambda: anyop.graph(lambda x: anyop.softmax(x, policy="none"), "f32[n]"),
        ValueError,
        "softmax: policy is given, but a traced call follows the policy of the calls that are made "
        "later. Try anyop.policy() around these.",
    ),
    (
        leaked,
        ValueError,
        "lambda: a value of this graph is used after its function returned, but it was never "
        "computed. Try returning it from the function.",
    ),
    (
        lambda: anyop.graph(lambda x: INNER(x, x), "f32[n, 4]"),
        ValueError,
        "inner: y is f32[n, 4], but must be f32[2*m, 4] at all sizes of the graph that is made.",
    ),
    (
        lambda: anyop.graph(lambda x, e: INNER(x, e), "f32[n, 4]", "float"),
        ValueError,
        "inner: y is float, but must be f32[2*m, 4] at all sizes of the graph that is made.",
    ),
    (
        lambda: anyop.graph(lambda x: INNER(x, X, out=x), "f32[n, 4]"),
        ValueError,
        "inner: out is given, but a graph inside of another makes its results anew. Try an "
        "operator with out, or leave it away.",
    ),
    (
        lambda: anyop.graph(lambda x: SAME(x), "f32[n, 4]"),
        ValueError,
        "same: output out is an input, a state or part of another output, which a graph inside of "
        "another cannot copy. Try to leave it out.",
    ),
    (mixed, ValueError, "add: y belongs to another graph. Try one graph around both."),
    (
        lambda: anyop.graph(endless, "f32[n]"),
        ValueError,
        "endless: the function makes this graph of itself while it is called to make it, which "
        "would never end. Try to make the graph outside of it.",
    ),
    (read_only, ValueError, "softmax: y is read-only, but is written. Try a copy."),
    (
        lambda: anyop.graph(lambda x: anyop.explain(anyop.softmax, x), "f32[n]"),
        TypeError,
        "a value of a graph under construction is given, but only operators take these. Try it "
        "outside of the graph's function.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MAKING)
def test_what_cannot_become_a_graph(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    check(call, kind, text.replace("{line}", str(call.__code__.co_firstlineno)))


GRAPH = anyop.graph(scaled, "f32[n, 64]", "float")
PAIR = anyop.graph(lambda x: (anyop.softmax(x), x), "f32[n, 64]", name="pair")

CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: GRAPH(X), TypeError, "scaled: eps is missing."),
    (
        lambda: GRAPH(X, 1.0, 2),
        TypeError,
        "scaled: 3 positional arguments are given, but at most 2 are taken. Try repr() of the "
        "graph.",
    ),
    (
        lambda: GRAPH(X, 1.0, esp=2),
        TypeError,
        "scaled: unknown argument 'esp'. Did you mean 'eps'?",
    ),
    (lambda: GRAPH(X, 1.0, eps=2), TypeError, "scaled: eps is given twice."),
    (lambda: GRAPH(X, "a"), TypeError, "scaled: eps is 'a', but must be a number."),
    (lambda: GRAPH([1.0], 1.0), TypeError, "scaled: x is [1.0], but must be a NumPy array. Try numpy.asarray(x)."),  # noqa: E501
    (lambda: GRAPH(X.astype("f8"), 1.0), ValueError, "scaled: x is f64[6, 64], but must be f32[n, 64]. Try a cast to f32."),  # noqa: E501
    (lambda: GRAPH(X[:, :3], 1.0), ValueError, "scaled: x is f32[6, 3], but must be f32[n, 64]."),
    (lambda: GRAPH(X[0], 1.0), ValueError, "scaled: x is f32[64], but must be f32[n, 64]."),
    (
        lambda: GRAPH(X, 1.0, out=X),
        ValueError,
        "scaled: output out overlaps x in memory, but must be apart, because it is written. Try a "
        "tensor of its own.",
    ),
    (
        lambda: GRAPH(X[:1], 1.0, out=WEIGHT.reshape(1, 64)),
        ValueError,
        "scaled: output out overlaps the state weight in memory, but must be apart, because one of "
        "them is written. Try a tensor of its own.",
    ),
    (
        lambda: GRAPH(X, 1.0, out=np.empty((5, 64), "f4")),
        ValueError,
        "scaled: output out is f32[5, 64], but must be f32[6, 64] in CPU memory.",
    ),
    (
        lambda: GRAPH(X, 1.0, out=np.empty((64, 6), "f4").T),
        ValueError,
        "scaled: output out is f32[6, 64] with gaps or at a misaligned address, but must be "
        "contiguous. Try a new tensor.",
    ),
    (
        lambda: PAIR(X, out=X),
        TypeError,
        "pair: out is array([[1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., ..., but must be "
        "a tuple of 2 (out0, out1). Try None for those to allocate.",
    ),
    (
        lambda: GRAPH(X, 1.0, policy="none"),
        TypeError,
        "scaled: policy is given, but a graph takes its inputs and out only. Try anyop.policy() "
        "around the call.",
    ),
    (
        lambda: GRAPH(X, -1.0),
        ValueError,
        "rms_norm: eps >= 0 must hold, but eps is -1.0.\n"
        "  in v3 = anyop.rms_norm(x, weight, eps), at test_graph_errors.py:{scaled}",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), CALLS)
def test_wrong_calls_of_a_graph(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    check(call, kind, text.replace("{scaled}", str(scaled.__code__.co_firstlineno + 1)))


def first_rows(x: Any, k: Any) -> Any:
    y = x[:k]
    return anyop.softmax(y)


def test_a_view_that_does_not_fit_names_its_line_and_its_sizes() -> None:
    line = first_rows.__code__.co_firstlineno
    rows = anyop.graph(first_rows, "f32[n, 64]", "int")
    check(
        lambda: rows(X, 7),
        ValueError,
        "first_rows: the slice 0 to 7 of dimension 0 does not lie within f32[6, 64].\n"
        f"  in v2 = slice(x, 0, 0, k), at test_graph_errors.py:{line + 1}\n"
        f"  in v3 = anyop.softmax(v2), at test_graph_errors.py:{line + 2}",
    )
    five: Any = lambda x: x[:5]  # noqa: E731
    view = anyop.graph(five, "f32[n, 64]", name="view")
    check(
        lambda: view(X[:3]),
        ValueError,
        "view: the slice 0 to 5 of dimension 0 does not lie within f32[3, 64].\n"
        f"  in v1 = slice(x, 0, 0, 5), at test_graph_errors.py:{five.__code__.co_firstlineno}",
    )
    assert rows(X, 6).shape == (6, 64)


def test_sizes_that_depend_on_each_other_are_told() -> None:
    pair = anyop.graph(lambda x, y: anyop.add(x[1:], y), "f32[n + 1]", "f32[n]", name="pair")
    check(
        lambda: pair(X[0], X[0]),
        ValueError,
        "pair: x is f32[64], but must be f32[n + 1], and n + 1 is 65 because y is f32[64].",
    )


def test_too_little_memory_is_an_error_of_the_call() -> None:
    g = anyop.graph(lambda x: anyop.argmax(x), "f32[n]", name="g")
    huge = np.broadcast_to(np.float32(1), (1 << 42,))  # copied, as it is not contiguous
    with pytest.raises(anyop.OutOfMemory) as caught:
        g(huge)
    assert str(caught.value) == (
        "g: no memory for an arena of 17592186044416 bytes. Try smaller inputs, or fewer calls at "
        "once."
    )
    assert isinstance(caught.value, MemoryError)
    assert g(np.arange(5, dtype=np.float32)) == 4


def test_threads_make_graphs_at_once() -> None:
    failures: list[str] = []

    def work(k: int) -> None:
        weight = np.full(64, k, np.float32)
        for _ in range(20):
            g = anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 64]")
            if g(X).tobytes() != anyop.rms_norm(X, weight).tobytes():
                failures.append(f"thread {k}")

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_graph_works_on_after_it_refused_a_call() -> None:
    with pytest.raises(ValueError, match="eps"):
        GRAPH(X, -1.0)
    np.testing.assert_array_equal(GRAPH(X, 1.0), scaled(X, 1.0))


def test_eager_calls_refuse_other_objects_as_before() -> None:
    class Other:
        def __repr__(self) -> str:
            return "other"

    other: Any = Other()
    check(
        lambda: anyop.softmax(other),
        TypeError,
        "softmax: x is other, but must be a NumPy array. Try numpy.asarray(x).",
    )
