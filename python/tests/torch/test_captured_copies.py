# SPDX-License-Identifier: Apache-2.0
"""Captured graphs, and modules that hold one, are copied, pickled and moved like other modules."""

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


class Holder(torch.nn.Module):
    """A module with a graph of itself, and with one of a method."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = torch.nn.Linear(8, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.eval()
        self.step = anyop.torch.capture(self, X, dynamic={"x": {0: "n"}})
        self.pair = anyop.torch.capture(self.both, {"x": X}, 2)

    def forward(self, x: Any) -> Any:
        return self.drop(torch.nn.functional.silu(self.proj(x)))

    def both(self, given: Any, n: int) -> Any:
        return {"y": self.proj(given["x"]) * n, "n": n}


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "torch.save": saved,
    "a copy of a copy": lambda m: copy.deepcopy(pickle.loads(pickle.dumps(m))),
}


def without_places(graph: Any) -> list[str]:
    """The text of a graph, which is made where it is first called."""
    return [line.partition("#")[0] for line in str(graph).splitlines()]


def follows(module: Any, *others: Any) -> None:
    """Its graphs compute what it computes, with its own weights."""
    for _ in range(2):
        with torch.no_grad():
            for other in others:
                other.proj.weight.zero_()
            module.proj.weight.mul_(-2)
            for x in (X, X[:2]):
                torch.testing.assert_close(module.step(x), torch.nn.functional.silu(module.proj(x)))
            made = module.pair({"x": X}, 2)
            torch.testing.assert_close(made["y"], module.both({"x": X}, 2)["y"])


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("mode", [False, True])
def test_a_copy_of_what_holds_graphs_has_graphs_of_its_own(way: str, mode: bool) -> None:
    module = Holder()
    module.train(mode)  # the graphs stay what they were made for
    other = COPIES[way](module)
    follows(other, module)
    assert other.training == other.drop.training == mode
    with torch.no_grad():
        module.proj.weight.fill_(0.1)
    follows(module, other)


@pytest.mark.parametrize("way", [*COPIES, "copy"])
def test_a_captured_graph_is_copied_with_its_program(way: str) -> None:
    layer = torch.nn.Linear(8, 4)
    graph = anyop.torch.capture(layer, X, dynamic={"input": {0: "n"}}, name="mine")
    twin = COPIES.get(way, copy.copy)(graph)
    with torch.no_grad():
        expected = layer(X)
        if way != "copy":
            layer.weight.zero_()
    torch.testing.assert_close(twin(X), expected)
    torch.testing.assert_close(twin(X[:2]), expected[:2])
    assert without_places(twin) == without_places(graph)
    assert twin.name == "mine"
    assert len(anyop.torch.report(twin)) == len(anyop.torch.report(graph))
    with pytest.raises(ValueError, match="mine"):
        twin(X.double())


def test_a_copy_refuses_what_its_original_refuses() -> None:
    def program(x: Any) -> Any:
        return x * 2 if x.shape[0] > 2 else x

    twin = copy.deepcopy(anyop.torch.capture(program, X, dynamic={"x": {0: "n"}}))
    assert torch.equal(twin(X), X * 2)
    with pytest.raises(ValueError, match="must hold, as the program asks for it"):
        twin(X[:2])


@pytest.mark.parametrize("swaps", [False, True])
def test_a_module_with_graphs_is_moved(swaps: bool) -> None:
    module = Holder()
    torch.__future__.set_swap_module_params_on_conversion(swaps)
    try:
        for dtype in (torch.float64, torch.float32):
            module.to(dtype)
            assert module.proj.weight.dtype == dtype
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    follows(module)
