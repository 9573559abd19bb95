# SPDX-License-Identifier: Apache-2.0
"""Floats of a module, which torch passes as arguments, and masks of few queries."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import compiled_last, floats  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called, host_calls  # noqa: E402
from torch import nn  # noqa: E402


class Norm(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.rand(8))

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def test_an_eps_that_torch_passes_is_part_of_the_graph() -> None:
    module = Norm(0.25)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="anyop", dynamic=True)
    with torch.no_grad():
        for rows in (3, 5):
            x = floats(rows, 8)
            torch.testing.assert_close(compiled(x), module(x))
        assert "anyop.rms_norm" in called("dynamic", compiled)
        assert host_calls("dynamic", compiled) == 0


def test_an_eps_that_changes_is_seen() -> None:
    module, x = Norm(0.25), floats(3, 8)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="anyop", dynamic=True)
    with torch.no_grad():
        for eps in (0.25, 4.0, 0.25, 1e-6, 100.0, 4.0):
            module.eps = eps
            torch.testing.assert_close(compiled(x), module(x))
    assert not compiled_last().why_not


def test_a_tensor_of_one_number_that_varies_stays_an_argument() -> None:
    from anyop.torch._compile.program import Program

    def program(x: Any, n: Any) -> Any:
        return x + n.to(torch.float32)

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="anyop", dynamic=True)
    graphs = []
    lower = Program._made

    def counted(self: Any, *args: Any) -> Any:
        graphs.append(1)
        return lower(self, *args)

    Program._made = counted  # type: ignore[method-assign]
    try:
        for n in (1.0, 2.0, 3.0, 4.0, 5.0):
            number = torch.tensor(n, dtype=torch.float64)
            torch.testing.assert_close(compiled(floats(3), number), program(floats(3), number))
    finally:
        Program._made = lower  # type: ignore[method-assign]
    assert len(graphs) == 2


def masked(q: Any, k: Any, kept: Any) -> Any:
    k = k[:, :, None].expand(-1, -1, 2, -1, -1).reshape(k.shape[0], -1, k.shape[2], k.shape[3])
    return F.scaled_dot_product_attention(q, k, k, attn_mask=kept)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("rows", "queries"),
    [
        (2, 3),
        *(pytest.param(*n, marks=pytest.mark.exhaustive) for n in ((1, 1), (1, 3), (2, 1))),
    ],
)
def test_a_mask_of_few_queries_is_read_key_by_key(rows: int, queries: int, how: str) -> None:
    q, k = floats(2, 4, queries, 16), floats(2, 2, 6, 16)
    kept = torch.rand(rows, 1, queries, 6, generator=torch.Generator().manual_seed(1)) > 0.5
    function = assert_as_torch(how, masked, (q, k, kept))
    with torch.no_grad():
        for other in (~kept, torch.zeros_like(kept), torch.ones_like(kept)):
            torch.testing.assert_close(function(q, k, other), masked(q, k, other))
    assert "anyop.paged_attention" in called(how, function)
    assert host_calls(how, function) == 1


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("shape", [(1, 4, 2, 6), (2, 6), (1, 1, 2, 1)])
def test_masks_of_other_shapes(shape: tuple[int, ...], how: str) -> None:
    q, k = floats(2, 4, 2, 16), floats(2, 2, 6, 16)
    kept = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.5
    assert_as_torch(how, masked, (q, k, kept))


@pytest.mark.parametrize("how", HOWS)
def test_padding_of_a_prompt_is_read_once(how: str) -> None:
    def program(q: Any, k: Any, padding: Any) -> Any:
        n = torch.arange(q.shape[2])
        return masked(q, k, (n[None] <= n[:, None]) & padding.bool()[:, None, None, :])

    q, k = floats(2, 4, 6, 16), floats(2, 2, 6, 16)
    padding = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]])
    function = assert_as_torch(how, program, (q, k, padding))
    with torch.no_grad():
        for other in (torch.ones_like(padding), 1 - padding, padding * 7, padding * 0):
            torch.testing.assert_close(function(q, k, other), program(q, k, other))
    assert "anyop.paged_attention" in called(how, function)


@pytest.mark.parametrize("how", HOWS)
def test_padding_that_depends_on_the_query_is_no_padding(how: str) -> None:
    def program(q: Any, k: Any, padding: Any) -> Any:
        n = torch.arange(q.shape[2])
        seen = (padding[:, None, None, :] != 5) | (n[:, None] != 2)
        return masked(q, k, (n[None] <= n[:, None]) & seen)

    q, k = floats(2, 4, 6, 16), floats(2, 2, 6, 16)
    assert_as_torch(how, program, (q, k, torch.full((2, 6), 5)))


@pytest.mark.parametrize("number", [0.35, -2.0, float("inf"), float("nan")])
def test_a_constant_without_dimensions_is_a_number(number: float) -> None:
    for program in (
        lambda x: x * torch.full((), number),
        lambda x: torch.full((), number) + x,
        lambda x: torch.relu(x) - torch.full((), number),
        lambda x: x * torch.full((), number, dtype=torch.float64),
    ):
        assert_as_torch("capture", program, (floats(3, 16),))
    function = assert_as_torch("capture", lambda x: x * torch.full((), number), (floats(3, 16),))
    assert host_calls("capture", function) == 0


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("shape", [(6, 1), (300, 1), (2, 3, 1), (6,), (1, 1), (4, 8)])
def test_a_number_does_not_broadcast(shape: tuple[int, ...], how: str) -> None:
    """Rows of one element included. A row of numbers is as long as the last dimension, if known."""
    for x in (floats(*shape), floats(*shape).to(torch.bfloat16), (floats(*shape) * 9).long()):
        function = assert_as_torch(how, lambda x: (x + 1, 2 * x, -x), (x,))
        if how != "dynamic" or shape[-1] == 1:
            assert host_calls(how, function) == 0


def test_numbers_that_a_type_does_not_hold_are_torchs() -> None:
    for number in (2**31, -(2**40)):
        program = lambda x, n=number: x.to(torch.int32) + n  # noqa: E731
        assert_as_torch("capture", program, (floats(3, 16) * 9,))
