# SPDX-License-Identifier: Apache-2.0
"""Gradient operators beside torch's autograd in f64, which shares no code with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

torch = pytest.importorskip("torch")
ROWS, D = 37, 65


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape, np.float32)


def check(ours: Any, forward: Callable[..., Any], inputs: list[np.ndarray], dy: np.ndarray) -> None:
    """forward(*inputs), in torch; ours: what anyop says of the inputs that are floats."""
    tensors = [torch.from_numpy(np.array(a)) for a in inputs]
    tensors = [t.double().requires_grad_() if t.is_floating_point() else t for t in tensors]
    floats = [t for t in tensors if t.is_floating_point()]
    theirs = torch.autograd.grad(forward(*tensors), floats, torch.from_numpy(np.array(dy)).double())
    ours = ours if isinstance(ours, tuple) else (ours,)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=2e-5, atol=2e-5)


@pytest.fixture(params=["dense", "expanded"])
def dy(request: pytest.FixtureRequest) -> np.ndarray:
    """Of ROWS rows; the second kind is what a sum hands back, with strides of 0."""
    return normal(ROWS, D) if request.param == "dense" else np.broadcast_to(normal(D), (ROWS, D))


@pytest.mark.parametrize("shape", [(ROWS, D), (D,)], ids=["tensor", "row"])
def test_sums_and_products(dy: np.ndarray, shape: tuple[int, ...]) -> None:
    x, y = normal(ROWS, D) + 1, normal(*shape)
    check(anyop.add_backward(dy, y), torch.add, [x, y], dy)
    check(anyop.mul_backward(dy, x, y), torch.mul, [x, y], dy)


def test_sigmoid(dy: np.ndarray) -> None:
    x = normal(ROWS, D) * 4
    check(anyop.sigmoid_backward(dy, anyop.sigmoid(x)), torch.sigmoid, [x], dy)


def test_silu_and_mul(dy: np.ndarray) -> None:
    x = normal(ROWS, 2 * D) * 4

    def forward(x: Any) -> Any:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    check(anyop.silu_and_mul_backward(dy, x), forward, [x], dy)


@pytest.mark.parametrize("kind", ["none", "tanh"])
def test_gelu_and_mul(dy: np.ndarray, kind: str) -> None:
    x = normal(ROWS, 2 * D) * 4

    def forward(x: Any) -> Any:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.gelu(gate, approximate=kind) * up

    check(anyop.gelu_and_mul_backward(dy, x, kind), forward, [x], dy)


@pytest.mark.parametrize("limit", [None, 2.5])
@pytest.mark.parametrize("order", ["halves", "interleaved"])
def test_swiglu(dy: np.ndarray, limit: float | None, order: str) -> None:
    x = normal(ROWS, 2 * D) * 4

    def forward(x: Any) -> Any:
        gate, up = x.chunk(2, -1) if order == "halves" else (x[:, ::2], x[:, 1::2])
        if limit:
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)

    check(anyop.swiglu_backward(dy, x, limit, 1.702, 1.0, order), forward, [x], dy)


def test_relu2(dy: np.ndarray) -> None:
    x = normal(ROWS, D) * 4
    check(anyop.relu2_backward(dy, x), lambda x: torch.relu(x).square(), [x], dy)


@pytest.mark.parametrize("renormalize", [False, True])
@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_topk_router(scoring: str, renormalize: bool) -> None:
    x, dy = normal(ROWS, D) * 2, normal(ROWS, 8)

    def forward(x: Any) -> Any:
        p = torch.softmax(x, -1) if scoring == "softmax" else torch.sigmoid(x)
        weights = p.topk(8).values
        return 2.5 * (weights / weights.sum(-1, keepdim=True) if renormalize else weights)

    weights, ids = anyop.topk_router(x, 8, scoring, renormalize, scaling=2.5)
    np.testing.assert_allclose(weights, forward(torch.from_numpy(x).double()), rtol=2e-6)
    check(anyop.topk_router_backward(dy, x, ids, scoring, renormalize, 2.5), forward, [x], dy)


def test_rows_to_experts_and_back(dy: np.ndarray) -> None:
    x, weights = normal(ROWS, D), normal(ROWS, 3)
    choices = np.random.default_rng(1).integers(-1, 7, (ROWS, 3))
    rows, offsets, source, destination = anyop.moe_permute(x, choices, 7)
    held = torch.from_numpy(choices >= 0)

    def forward(x: Any, weights: Any) -> Any:
        return (x[:, None] * (weights * held)[..., None]).sum(1)

    y = anyop.moe_unpermute(rows, destination, weights)
    inputs = [torch.from_numpy(a).double() for a in (x, weights)]
    np.testing.assert_allclose(y, forward(*inputs), rtol=2e-5, atol=2e-5)
    drows, dweights = anyop.moe_unpermute_backward(dy, rows, destination, weights)
    check((anyop.moe_permute_backward(drows, destination), dweights), forward, [x, weights], dy)
    assert (source[: offsets[-1]] >= 0).all() and (source[offsets[-1] :] == -1).all()


def test_softmax(dy: np.ndarray) -> None:
    x = normal(ROWS, D)
    ours = anyop.softmax_backward(dy, anyop.softmax(x, 0.7), 0.7)
    check(ours, lambda x: torch.softmax(0.7 * x, -1), [x], dy)


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm(dy: np.ndarray, offset: float) -> None:
    x, residual, weight = normal(ROWS, D), normal(ROWS, D) + 1, normal(D)

    def forward(x: Any, weight: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (D,), weight + offset, 1e-3)

    check(anyop.rms_norm_backward(dy, x, weight, 1e-3, offset), forward, [x, weight], dy)
    y, total = anyop.add_rms_norm(x, residual, weight, 1e-3, offset)
    dsum = normal(ROWS, D)
    ours = anyop.add_rms_norm_backward(dy, dsum, total, weight, 1e-3, offset)

    def with_sum(x: Any, residual: Any, weight: Any) -> Any:
        # check() multiplies by dy: what is left of this term is the sum of both * dsum.
        both = x + residual
        return forward(both, weight) + both * torch.from_numpy(dsum / dy).double()

    check(ours, with_sum, [x, residual, weight], dy)


@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("inverse", [False, True])
def test_rope(style: str, inverse: bool) -> None:
    x, table = normal(5, 3, 16), normal(9, 8)
    dy = np.flip(x).copy()
    positions = np.array([8, 0, 3, -1, 3])

    def forward(x: Any) -> Any:
        cos, sin = torch.from_numpy(table).double()[positions][:, None].chunk(2, -1)
        sin = -sin if inverse else sin
        part = x[..., 2:10]
        a, b = part.chunk(2, -1) if style == "neox" else (part[..., ::2], part[..., 1::2])
        both = a * cos - b * sin, b * cos + a * sin
        turned = torch.cat(both, -1) if style == "neox" else torch.stack(both, -1).flatten(-2)
        left = torch.from_numpy(positions < 0)[:, None, None]
        return torch.cat([x[..., :2], torch.where(left, part, turned), x[..., 10:]], -1)

    y = anyop.rope(x, positions, table, 2, style, inverse)
    np.testing.assert_allclose(y, forward(torch.from_numpy(x).double()), rtol=2e-5, atol=2e-5)
    check(anyop.rope_backward(dy, positions, table, 2, style, inverse), forward, [x], dy)


@pytest.mark.parametrize("padding_idx", [-1, 3])
def test_embedding(dy: np.ndarray, padding_idx: int) -> None:
    ids, weight = np.random.default_rng(1).integers(0, 11, ROWS), normal(11, D)
    ours = anyop.embedding_backward(dy, ids, weight, padding_idx)
    padding = None if padding_idx < 0 else padding_idx

    def forward(ids: Any, weight: Any) -> Any:
        return torch.nn.functional.embedding(ids, weight, padding)

    check(ours, forward, [ids, weight], dy)


def test_attention_and_its_lse() -> None:
    t, hq, hkv, d = 70, 4, 2, 16
    q, k, v, sinks = normal(t, hq, d), normal(t, hkv, d), normal(t, hkv, d) + 1, normal(hq)
    starts, dy, dlse = np.array([0, 30, t]), normal(t, hq, d), normal(hq, t)
    y, lse = anyop.attention(q, k, v, starts, starts, sinks=sinks, return_lse=True)
    options = (None, True, -1, -1, 0.0, None, sinks)
    ours = anyop.attention_backward(dy, q, k, v, y, lse, starts, starts, *options, dlse)

    def forward(q: Any, k: Any, v: Any, sinks: Any) -> tuple[Any, Any]:
        group = torch.arange(hq) // (hq // hkv)
        scores = torch.einsum("ihd,jhd->hij", q, k[:, group]) / d**0.5
        sequence = torch.from_numpy(np.arange(t) >= starts[1])
        seen = torch.ones(t, t).tril().bool() & (sequence[:, None] == sequence)
        scores = scores.masked_fill(~seen, -torch.inf)
        lse = torch.cat([scores, sinks[:, None, None].expand(hq, t, 1)], -1).logsumexp(-1)
        return torch.einsum("hij,jhd->ihd", (scores - lse[..., None]).exp(), v[:, group]), lse

    inputs = [torch.from_numpy(np.array(a)).double().requires_grad_() for a in (q, k, v, sinks)]
    made = forward(*inputs)
    for mine, other in zip((y, lse), made, strict=True):
        np.testing.assert_allclose(mine, other.detach(), rtol=2e-5, atol=2e-5)
    theirs = torch.autograd.grad(made, inputs, [torch.from_numpy(a).double() for a in (dy, dlse)])
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=2e-5, atol=2e-5)
    alone = [torch.from_numpy(np.array(a)).requires_grad_() for a in (q, k, v, sinks)]
    starts_t = torch.from_numpy(starts)
    _, mine = anyop.attention(*alone[:3], starts_t, starts_t, sinks=alone[3], return_lse=True)
    wanted = torch.autograd.grad(forward(*inputs)[1].sum(), inputs, allow_unused=True)
    for own, other in zip(torch.autograd.grad(mine.sum(), alone), wanted, strict=True):
        other = torch.zeros_like(own) if other is None else other
        np.testing.assert_allclose(own, other, rtol=2e-5, atol=2e-5)


def test_wiring_tells_where_every_argument_comes_from() -> None:
    assert anyop.info("add_rms_norm")["gradient"] == {
        "op": "anyop.add_rms_norm_backward",
        "sources": [
            ["result_gradient", "y"],
            ["result_gradient", "sum"],
            ["result", "sum"],
            ["param", "weight"],
            ["param", "eps"],
            ["param", "weight_offset"],
        ],
        "targets": ["x", "residual", "weight"],
        "words": {},
    }
    assert anyop.info("linear")["gradient"]["words"] == {"activation": ["none"]}
    assert anyop.info("rms_norm_backward")["gradient"] is None
