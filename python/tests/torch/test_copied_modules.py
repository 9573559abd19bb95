# SPDX-License-Identifier: Apache-2.0
"""Modules that hold a graph of anyop.graph: their copies hold one over their own tensors."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from copies import saved  # noqa: E402

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Module(torch.nn.Module):
    """A weight, a cache that its graph writes, and a graph of two rows of the cache."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 8), requires_grad=False)
        self.register_buffer("cache", torch.zeros(2, 8))
        self.step = anyop.graph(self.forward, "f32[n, 8]", name="step")
        self.k, self.v = self.cache[0], self.cache[1]
        self.rows = anyop.graph(lambda x: anyop.add(anyop.add(x, self.k), self.v), "f32[8]")

    def forward(self, x: Any) -> Any:
        y = anyop.rms_norm(x, self.weight)
        anyop.add(y[:2], self.cache, out=self.cache)
        return y


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "torch.save": saved,
    "a copy of a copy": lambda m: copy.deepcopy(saved(m)),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
}


def follows(module: Any) -> None:
    for _ in range(2):
        module.weight *= -2
        before, version = module.cache.clone(), module.cache._version
        y = module.step(X)
        torch.testing.assert_close(y, anyop.rms_norm(X, module.weight))
        torch.testing.assert_close(module.cache, before + y[:2])
        assert module.cache._version > version


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_module_has_a_graph_over_its_own_tensors(way: str) -> None:
    module = Module()
    twin = COPIES[way](module)
    for m in (module, twin, module):
        follows(m)
        if way == "pickle" and m is twin:  # it copies views of one storage apart
            continue
        torch.testing.assert_close(m.rows(X[0]), X[0] + m.cache[0] + m.cache[1])
    assert (module.cache != twin.cache).any()


BOUND: dict[str, Callable[[Any], Any]] = {
    "itself": lambda w: w,
    "a view": lambda w: w.view(2, 4).reshape(8),
    "detached": lambda w: w.detach(),
    "data": lambda w: w.data,
}


class Trained(torch.nn.Module):
    """With a Parameter that requires grad, and a graph of what `bound` says of it."""

    def __init__(self, bound: Callable[[Any], Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 8))
        with torch.no_grad():
            self.step = anyop.graph(
                lambda x: anyop.rms_norm(x, bound(self.weight)), "f32[n, 8]", name="step"
            )


@pytest.mark.parametrize("bound", BOUND)
@pytest.mark.parametrize("way", COPIES)
def test_the_graph_of_a_copy_reads_its_parameter(way: str, bound: str) -> None:
    if way == "pickle" and bound in ("detached", "data"):
        pytest.skip("it copies tensors of one storage apart")
    module = Trained(BOUND[bound])
    twin = COPIES[way](module)
    for m in (module, twin, module):
        with torch.no_grad():
            m.weight *= -2
        torch.testing.assert_close(m.step(X), anyop.rms_norm(X, m.weight.detach()))


@pytest.mark.parametrize("way", COPIES)
def test_views_of_one_memory_are_so_in_a_copy(way: str) -> None:
    memory = torch.zeros(3, 8)
    a, b = memory[:2], memory[1:]

    def step(x: Any) -> Any:
        anyop.add(x, x, out=b)
        return anyop.add(x, a)

    graph = anyop.graph(step, "f32[2, 8]", name="g")
    twin, last = COPIES[way](graph), torch.zeros(8)
    for scale in (1, -2):
        for g in (twin, graph):
            assert torch.equal(g(scale * X[:2]), scale * (X[:2] + torch.stack([last, 2 * X[0]])))


@pytest.mark.parametrize("way", COPIES)
def test_results_stay_tensors_where_all_state_is_packed(way: str) -> None:
    weight = torch.randn(16, 8).to(torch.bfloat16)
    x = X.to(torch.bfloat16)
    graph = anyop.graph(
        lambda x: anyop.linear(x, weight), "bf16[n, 8]", frozen={"w": weight}, name="g"
    )
    assert torch.equal(COPIES[way](graph)(x), graph(x))
    alone = anyop.graph(lambda: anyop.add(weight, weight), name="alone")
    assert torch.equal(COPIES[way](alone)(), weight + weight)


def test_a_new_process_takes_a_graph_of_tensors() -> None:
    module = Module()
    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        made = pool.apply(type(module.step).__call__, (module.step, X))
    torch.testing.assert_close(made, anyop.rms_norm(X, module.weight))
