# SPDX-License-Identifier: Apache-2.0
"""A compiled graph of anyop's as one node: in PyNative, by jit, in graph mode, in other Cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyop
import mindspore as ms
import ml_dtypes
import numpy as np
import pytest
from mindspore import Tensor, nn

GraphCell = anyop.mindspore.GraphCell
rng = np.random.default_rng(0)
x = rng.standard_normal((3, 8)).astype(np.float32)


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def normed(weight: Any) -> anyop.Graph:
    """(y, y + x) of a norm whose eps is an input."""

    def step(x: Any, eps: Any) -> Any:
        y = anyop.rms_norm(x, weight, eps=eps)
        return y, anyop.add(y, x)

    return anyop.graph(step, "f32[n, 8]", "float", name="normed")


class Inside(nn.Cell):  # type: ignore[misc]
    """Other nodes before and behind."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, x: Any) -> Any:
        y, z = self.cell(x + 1)
        return anyop.add(y, z) * 2


def ways(cell: Any) -> dict[str, Callable[..., Any]]:
    return {
        "pynative": cell,
        "jit": ms.jit(cell.construct),
        "unknown sizes": ms.jit(cell.construct, dynamic=1),
    }


def test_every_mode_has_the_bits_of_the_graph() -> None:
    graph = normed(rng.standard_normal(8).astype(np.float32))
    cell = GraphCell(graph, eps=0.5)
    for name, run in ways(cell).items():
        for rows in (3, 1):
            for made, wanted in zip(run(Tensor(x[:rows])), graph(x[:rows], 0.5), strict=True):
                assert np.array_equal(made.asnumpy(), wanted), name
    inside = Inside(cell)
    y, z = graph(x + 1, 0.5)
    for run in (inside, ms.jit(inside.construct)):
        assert np.array_equal(run(Tensor(x)).asnumpy(), (y + z) * 2)


def test_graph_mode_runs_the_cell_alone_and_inside_another(graph_mode: None) -> None:
    graph = normed(rng.standard_normal(8).astype(np.float32))
    cell = GraphCell(graph, eps=0.25)
    for made, wanted in zip(cell(Tensor(x)), graph(x, 0.25), strict=True):
        assert np.array_equal(made.asnumpy(), wanted)
    y, z = graph(x + 1, 0.25)
    assert np.array_equal(Inside(cell)(Tensor(x)).asnumpy(), (y + z) * 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
def test_arrays_are_parameters_over_the_same_memory(dtype: Any) -> None:
    held = np.arange(8).astype(dtype)
    like = np.zeros(8, dtype)
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64"}[held.dtype.name]
    graph = anyop.graph(lambda x: anyop.add(x, held), f"{name}[8]", name="sums")
    cell = GraphCell(graph)
    (parameter,) = cell.trainable_params() + cell.untrainable_params()
    assert parameter.name.endswith("." + next(iter(graph.state))) and not parameter.requires_grad
    given = anyop.cast(Tensor(np.zeros(8, np.float32)), name)
    for step, run in enumerate(ways(cell).values()):
        held[:] = (np.arange(8) + step).astype(dtype)
        found = anyop.cast(run(given), "f32").asnumpy()
        assert np.array_equal(found, anyop.add(like, held).astype(np.float32))


@pytest.mark.parametrize("mode", ["pynative", "jit", "unknown sizes"])
def test_writes_reach_what_the_graph_holds(mode: str) -> None:
    """64 steps that read what the steps before them wrote."""
    total, count = np.zeros((1, 8), np.float32), np.zeros((1, 8), np.float32)

    def step(x: Any) -> Any:
        before = anyop.add(total, x)
        anyop.add(total, x, out=total)
        anyop.add(count, anyop.mul(before, before), out=count)
        return anyop.add(before, count)

    cell = GraphCell(anyop.graph(step, "f32[1, 8]", name="step"))
    run = ways(cell)[mode]
    wanted_total, wanted_count = total.copy(), count.copy()
    for i in range(64):
        given = np.full((1, 8), i % 3, np.float32)
        made = run(Tensor(given)).asnumpy()
        wanted_total = wanted_total + given
        wanted_count = wanted_count + wanted_total * wanted_total
        assert np.array_equal(made, wanted_total + wanted_count)
        assert np.array_equal(total, wanted_total) and np.array_equal(count, wanted_count)


def writing(x: Any, cache: Any) -> Any:
    anyop.add(x, x, out=cache)
    return anyop.add(cache, x)


class Around(nn.Cell):  # type: ignore[misc]
    """Reads what the node writes, before and behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = GraphCell(anyop.graph(writing, "f32[3, 8]", "f32[3, 8]", name="writing"))

    def construct(self, x: Any, cache: Any) -> Any:
        before = cache + 0
        y = self.cell(x, cache)
        return before, y, cache + 0


def test_writes_into_inputs_keep_their_order() -> None:
    around = Around()
    for run in (around, ms.jit(around.construct)):
        cache = Tensor(np.ones((3, 8), np.float32))
        before, y, behind = (t.asnumpy() for t in run(Tensor(x), cache))
        assert np.array_equal(before, np.ones_like(x))
        assert np.array_equal(y, (x + x) + x)
        assert np.array_equal(behind, x + x) and np.array_equal(cache.asnumpy(), x + x)


def test_hundreds_of_arrays() -> None:
    arrays = [np.full(8, i, np.float32) for i in range(400)]

    def step(x: Any) -> Any:
        for array in arrays:
            x = anyop.add(x, array)
        return x

    graph = anyop.graph(step, "f32[n, 8]", name="many")
    cell = GraphCell(graph)
    assert np.array_equal(ms.jit(cell.construct)(Tensor(x)).asnumpy(), graph(x))


def test_a_graph_of_a_file(tmp_path: Path) -> None:
    weight = rng.standard_normal(8).astype(np.float32)
    graph = anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 8]", frozen={"w": weight})
    graph.save(tmp_path / "saved")
    cell = GraphCell(anyop.load_graph(tmp_path / "saved"))
    assert np.array_equal(ms.jit(cell.construct)(Tensor(x)).asnumpy(), graph(x))


def test_the_scope_of_the_call_holds() -> None:
    cell = GraphCell(normed(np.ones(8, np.float32)), eps=1.0)
    run = ms.jit(cell.construct)
    run(Tensor(x))[0].asnumpy()
    anyop.reset_counters()
    with anyop.policy("anyop.rms_norm=cpu_portable"):
        run(Tensor(x))[0].asnumpy()
    kernels = {row.kernel for row in anyop.counters() if row.calls and row.op == "anyop.rms_norm"}
    assert kernels == {"cpu_portable"}


# ---- What is refused.


def test_what_is_no_graph_and_numbers_that_it_does_not_take() -> None:
    with pytest.raises(anyop.WrongType) as caught:
        GraphCell(writing)
    assert str(caught.value) == (
        "GraphCell: graph is function, but must be what anyop.graph made."
    )
    graph = normed(np.ones(8, np.float32))
    for numbers, word in (({}, "eps"), ({"eps": 1.0, "epsilon": 2.0}, "epsilon")):
        with pytest.raises(anyop.InvalidArgument, match=word):
            GraphCell(graph, **numbers)


def test_wrong_inputs_in_every_mode() -> None:
    cell = GraphCell(normed(np.ones(8, np.float32)), eps=1.0)
    for run in ways(cell).values():
        with pytest.raises(anyop.InvalidArgument) as caught:
            run(Tensor(x), Tensor(x))
        assert str(caught.value).splitlines()[0] == (
            "graph normed: 2 inputs are given, but it takes 1: x."
        )
        with pytest.raises(anyop.InvalidArgument, match="x is f16.*, but must be f32"):
            run(Tensor(x.astype(np.float16)))
        with pytest.raises((anyop.Error, RuntimeError), match="8"):
            run(Tensor(x[:, :7].copy()))[0].asnumpy()
        with pytest.raises(anyop.WrongType, match="x is 3, but must be a"):
            run(3)


def test_a_gradient_is_refused_and_never_zero() -> None:
    cell = GraphCell(anyop.graph(lambda x: anyop.gelu(x), "f32[n, 8]", name="curve"))

    def loss(x: Any) -> Any:
        return cell(x).sum()

    for run in (ms.grad(loss), ms.jit(ms.grad(loss))):
        with pytest.raises((anyop.Error, RuntimeError, NotImplementedError), match="gradient"):
            run(Tensor(x)).asnumpy()
