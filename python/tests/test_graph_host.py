# SPDX-License-Identifier: Apache-2.0
"""anyop.host: code of NumPy and torch as part of a graph."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from checkout import ROOT

X = np.random.default_rng(0).standard_normal((3, 4), np.float32)


def made(function: Any, result: Any = "f32[n, 4]", *more: Any) -> anyop.Graph:
    return anyop.graph(lambda x: anyop.host(function, x, *more, result=result), "f32[n, 4]")


def test_the_example_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "examples/graph_host.py").read_text()
    names: dict[str, Any] = {"__name__": "graph_host"}
    exec(compile(code, "graph_host.py", "exec"), names)
    shown = capsys.readouterr().out
    assert shown == f"{names['g']}\n"
    assert shown.count("= host.call") == 2  # the two functions of NumPy
    assert "anyop.rms_norm" in shown and "anyop.softmax" in shown
    x = np.ones((3, 64), np.float32)
    power, largest, total = names["g"](x)
    assert power.shape == (3, 33) and largest.shape == (3,) and total.shape == (192,)
    np.testing.assert_allclose(total[-1], 192, rtol=1e-5)


def test_a_function_runs_at_each_call_and_not_while_the_graph_is_made() -> None:
    seen: list[Any] = []

    def twice(x: Any) -> Any:
        seen.append(type(x))
        return x * 2

    g = made(twice)
    assert not seen
    for n in (3, 1):
        np.testing.assert_array_equal(g(X[:n]), X[:n] * 2)
    assert seen == [np.ndarray, np.ndarray]


def test_without_a_graph_it_is_called() -> None:
    assert anyop.host(max, 2, 3, result="f32[]") == 3
    np.testing.assert_array_equal(anyop.host(np.cumsum, X, 0, result=X), np.cumsum(X, 0))


def test_operands_of_every_kind_are_handed_on_in_their_places() -> None:
    table = np.arange(4, dtype=np.float32)

    def code(scale: Any, x: Any, name: Any, row: Any, n: Any) -> Any:
        assert name == "up" and isinstance(n, int) and isinstance(scale, float)
        return x * np.float32(scale) + row + np.float32(n)

    def program(x: Any, scale: Any) -> Any:
        return anyop.host(code, scale, x, "up", table, x.shape[0], result=x)

    g = anyop.graph(program, "f32[n, 4]", "float")
    np.testing.assert_allclose(g(X, 2.0), X * 2 + table + 3, rtol=1e-6)
    table[0] = 7  # bound by reference
    np.testing.assert_allclose(g(X, 2.0), X * 2 + table + 3, rtol=1e-6)


def test_several_results_and_computed_sizes() -> None:
    def program(x: Any) -> Any:
        flat, rows = anyop.host(lambda v: (v.ravel(), v.sum(1)), x, result=["f32[4*n]", "f32[n]"])
        (one,) = anyop.host(lambda v: (v + 1,), rows, result=[rows])
        return anyop.add(flat, flat), one

    flat, one = anyop.graph(program, "f32[n, 4]")(X)
    np.testing.assert_array_equal(flat, 2 * X.ravel())
    np.testing.assert_array_equal(one, X.sum(1) + 1)


def test_views_of_values_are_handed_over_uncopied() -> None:
    def program(x: Any) -> Any:
        y = anyop.rms_norm(x)
        return anyop.host(lambda v: v + 0, y.T[1:], result="f32[3, n]")

    np.testing.assert_array_equal(anyop.graph(program, "f32[n, 4]")(X), anyop.rms_norm(X).T[1:])


def fails(_: Any) -> Any:
    raise KeyError("no such thing")


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x[:1], r"<lambda>\(\) returned f32\[1, 4\] for y0, but .* promises f32\[3, 4\]"),
        (lambda x: x.astype("f8"), r"returned f64\[3, 4\] .* Try .astype\(float32\)"),
        (lambda x: None, r"returned None for y0"),
        (fails, r"fails\(\), which test_graph_host.py:\d+ hands to .* raised KeyError: 'no such"),
    ],
)
def test_what_goes_wrong_is_told_with_the_line(function: Any, text: str) -> None:
    g = made(function)
    for _ in range(2):
        with pytest.raises(ValueError, match=text) as error:
            g(X)
        assert "at test_graph_host.py:" in str(error.value)


class Own(Exception):
    """What anyop knows nothing of."""


def raises(error: BaseException) -> Any:
    def function(x: Any) -> Any:
        raise error

    return function


@pytest.mark.parametrize("error", [KeyError("no such thing"), Own("mine"), ValueError("one", 2)])
@pytest.mark.parametrize("is_defined", [False, True])
def test_what_a_function_raised_is_the_cause_of_the_error(
    error: Exception, is_defined: bool
) -> None:
    if is_defined:
        name = f"raises_{type(error).__name__.lower()}"
        g = anyop.graph(anyop.define(f"{name}(x: f32[n, 4]) -> (y: f32[n, 4])", raises(error)), X)
    else:
        g = made(raises(error))
    for _ in range(2):
        with pytest.raises(anyop.Error) as told:
            g(X)
        assert told.value.__cause__ is error
        assert error.__traceback__ is not None
        assert str(error) in str(told.value)


@pytest.mark.parametrize("is_defined", [False, True])
def test_the_cause_holds_nothing_of_the_graphs_memory(is_defined: bool) -> None:
    kept: list[Any] = []

    def fails_deep(x: Any) -> Any:
        y = x[1:]
        if y.shape[0] == 1:
            raise Own(x)
        raise Own("mine")

    if is_defined:
        f = anyop.define("fails_deep(x: f32[n, 4]) -> (y: f32[n, 4])", fails_deep)
        g = anyop.graph(lambda x: f(anyop.add(x, x)), "f32[n, 4]")
    else:
        g = anyop.graph(
            lambda x: anyop.host(fails_deep, anyop.add(x, x), result="f32[n, 4]"), "f32[n, 4]"
        )
    with pytest.raises(anyop.Error, match="mine") as told:
        g(X)
    cause = told.value.__cause__
    assert isinstance(cause, Own)
    trace = cause.__traceback__
    while trace:
        kept += [v for v in trace.tb_frame.f_locals.values() if isinstance(v, np.ndarray)]
        trace = trace.tb_next
    assert not kept
    with pytest.raises(anyop.Error, match="fails_deep") as told:
        g(X[:2])
    assert not isinstance(told.value.__cause__, Own)  # it is itself a holder of an array


@pytest.mark.parametrize("is_defined", [False, True])
def test_an_error_of_the_graph_has_no_cause_of_an_earlier_one(is_defined: bool) -> None:
    g = made(lambda x: x[:1]) if not is_defined else made(np.negative)
    with pytest.raises(anyop.Error):
        made(raises(KeyError("earlier")))(X)
    if is_defined:
        g(X)
        return
    with pytest.raises(anyop.Error) as told:
        g(X)
    assert not isinstance(told.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("result", "kind", "text"),
    [
        (3, TypeError, r"says that fails\(\) returns 3, but must give a type"),
        ("f32", TypeError, "must give a type like"),
        ("f99[n]", TypeError, "returns 'f99"),
        ("f32[q]", ValueError, "no input says what q is"),
    ],
)
def test_results_that_are_none(result: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        made(fails, result)


def test_functions_that_are_none() -> None:
    with pytest.raises(TypeError, match="must be one that is called"):
        anyop.host(3, X, result=X)


def test_arguments_cannot_be_kept_or_written() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x + 1

    with pytest.raises(anyop.Error, match="keeps an argument"):
        made(keep)(X)

    def write(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(ValueError, match="read-only"):
        made(write)(X)


def test_such_a_graph_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="calls Python, which a saved graph does without"):
        made(np.negative).save(str(tmp_path / "g.anyop"))


def nested() -> tuple[anyop.Graph, str, Any]:
    """A graph around one that is gone, with that one's text and state."""
    inner = made(np.negative)
    outer = anyop.graph(lambda x: anyop.add(inner(x), x), "f32[n, 4]")
    return outer, str(inner), inner.state


def test_functions_live_as_long_as_graphs() -> None:
    from anyop._graph import host

    gc.collect()
    before = len(host._rows)
    outer, text, state = nested()
    gc.collect()
    np.testing.assert_array_equal(outer(X), 0 * X)
    again = anyop.Graph.parse(text, state)
    np.testing.assert_array_equal(again(X), -X)
    del outer
    gc.collect()
    assert len(host._rows) == before
    with pytest.raises(ValueError, match="is gone with the graph"):
        again(X)


def test_torch_tensors_give_torch_tensors() -> None:
    torch = pytest.importorskip("torch")

    def program(x: Any) -> Any:
        return anyop.host(torch.flip, anyop.rms_norm(x), [0], result=x)

    g, x = anyop.graph(program, "f32[n, 4]"), torch.tensor(X)
    torch.testing.assert_close(g(x), anyop.rms_norm(x).flip(0))
