# SPDX-License-Identifier: Apache-2.0
"""Nodes of the host meet in as few calls as their dependences allow, however they were ordered."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, host_calls  # noqa: E402

X = floats(4, 8)
W = floats(8, 8)


def independent(x: Any, w: Any) -> Any:
    """Each cumsum is the host's, and what reads it is ours."""
    made = [torch.sigmoid(torch.cumsum(x * n, 0)) @ w for n in (1, 2, 3)]
    return made[0] + made[1] + made[2]


def after_ours(x: Any, w: Any) -> Any:
    """The last cumsum depends on no other."""
    return torch.sigmoid(torch.cumsum(x, 0)) @ w + torch.cumsum(torch.sigmoid(x @ w), 0)


def light_between(x: Any, w: Any) -> Any:
    y = torch.cumsum(x @ w, 0)
    return torch.cumsum(torch.sigmoid(y) * y + x, 1) @ w


def light_behind(x: Any, w: Any) -> Any:
    """What no other node of the host reads stays ours."""
    return torch.sigmoid(torch.cumsum(x, 0)) @ w


def heavy_between(x: Any, w: Any) -> Any:
    return torch.cumsum(torch.cumsum(x, 0) @ w, 1)


def light_that_is_read_twice(x: Any, w: Any) -> Any:
    y = torch.sigmoid(torch.cumsum(x, 0))
    return torch.cumsum(y, 1) @ w + y


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("program", "calls"),
    [(independent, 1), (after_ours, 1), (light_between, 1), (light_behind, 1), (heavy_between, 2),
     (light_that_is_read_twice, 1)],
)  # fmt: skip
def test_host_nodes_meet(program: Any, calls: int, how: str) -> None:
    assert host_calls(how, assert_as_torch(how, program, (X, W))) == calls


def test_a_light_node_at_the_end_is_ours() -> None:
    function = assert_as_torch("capture", light_behind, (X, W))
    assert "anyop.sigmoid" in str(function)


def written_between(x: Any, w: Any) -> Any:
    """The host reads x before and after it is written."""
    first = torch.cumsum(x, 0)
    x.copy_(x @ w)
    second = torch.cumsum(x, 0)
    x.add_(1)
    return first, second, x @ w


def written_by_the_host(x: Any, w: Any) -> Any:
    y = x @ w
    before = torch.sigmoid(y)
    y.cumsum_(0)
    between = torch.sigmoid(y)
    y.mul_(2)
    return before, between, torch.cumsum(y, 1), x


def view_of_what_is_written(x: Any, w: Any) -> Any:
    row = x[1]
    before = torch.cumsum(row, 0)
    x.copy_(x @ w)
    return before, torch.cumsum(row, 0), torch.sigmoid(row)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("program", [written_between, written_by_the_host, view_of_what_is_written])
def test_writes_keep_their_places(program: Any, how: str) -> None:
    assert_as_torch(how, program, (X.clone(), W))


@pytest.mark.parametrize("how", HOWS)
def test_a_copy_has_memory_of_its_own(how: str) -> None:
    def program(x: Any, w: Any) -> Any:
        y = x @ w
        made = torch.ops.aten.copy(x, y)
        return y, made, torch.ops.aten.copy(y, x), torch.ops.aten.copy(made, made)

    assert_as_torch(how, program, (X, W))


@pytest.mark.parametrize("how", ["static", "dynamic"])
def test_random_numbers_come_in_order(how: str) -> None:
    def program(x: Any, w: Any) -> Any:
        first = torch.bernoulli(torch.sigmoid(torch.cumsum(x, 0)) @ w * 0 + 0.5)
        return first, torch.bernoulli(x * 0 + 0.5)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="anyop", dynamic=how == "dynamic")
    torch.manual_seed(3)
    wanted = program(X, W)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(X, W), wanted)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(X, W), wanted)


def test_a_size_that_is_given_twice_is_one_input() -> None:
    """Dynamo passes the number once for each module that keeps it."""

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def forward(self, x: Any) -> Any:
            return x + torch.arange(self.n).sum()

    parts = [Part(), Part()]

    def program(x: Any) -> Any:
        return parts[1](parts[0](x))

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="anyop", dynamic=True)
    for n in (5, 6, 7):
        for part in parts:
            part.n = n
        torch.testing.assert_close(compiled(X), program(X))
    assert not any(row["kind"] == "torch" for row in anyop.torch.report())
