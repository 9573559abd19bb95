# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings: the rotation, and the tables that configurations ask for."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

import anyop.torch  # noqa: E402
from anyop.torch import nn  # noqa: E402
from nn_cases import assert_same  # noqa: E402


def rotate(x: Any, positions: Any, base: float, neox: bool) -> Any:
    """Pairs as complex numbers, for x [t, h, d]."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-torch.arange(half) / half)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    pairs = torch.stack(x.split(half, -1), -1) if neox else x.unflatten(-1, (half, 2))
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return turned.transpose(-1, -2).flatten(-2) if neox else turned.flatten(-2)


@pytest.mark.parametrize("neox", [True, False])
def test_rotates_queries_and_keys(neox: bool) -> None:
    rope = nn.get_rope(8, 32, neox, {"rope_theta": 100.0})
    positions = torch.tensor([3, 0, 31, 7, 7])
    query, key = torch.randn(5, 3, 8), torch.randn(5, 2, 8)
    expected = [rotate(x, positions, 100.0, neox) for x in (query, key)]
    for shape in (lambda x: x, lambda x: x.flatten(1)):
        q, k = rope(positions, shape(query), shape(key))
        torch.testing.assert_close(q, shape(expected[0]))
        torch.testing.assert_close(k, shape(expected[1]))
    assert rope(positions, query)[1] is None
    assert_same(lambda x: rope(positions, x)[0], lambda x: rotate(x, positions, 100.0, neox), query)
    packed = torch.cat([query.flatten(1), key.flatten(1)], -1)
    parts = packed.split([24, 16], -1)
    assert rope(positions, *parts, inplace=True) == parts
    torch.testing.assert_close(packed[:, :24].view(5, 3, 8), expected[0])


def test_rotates_a_part_of_each_head() -> None:
    rope = nn.get_rope(8, 16, rope_parameters={"partial_rotary_factor": 0.5})
    x, positions = torch.randn(2, 3, 1, 8), torch.arange(6).view(2, 3)
    y, _ = rope(positions, x)
    torch.testing.assert_close(y[..., 4:], x[..., 4:])
    expected = rotate(x[..., :4].reshape(6, 1, 4), positions.flatten(), 1e4, True)
    torch.testing.assert_close(y[..., :4].reshape(6, 1, 4), expected)


TABLES = [
    ({"rope_type": "linear", "factor": 2.0}, 64, {"kind": "linear", "factor": 2.0}),
    ({"type": "linear", "factor": 2.0}, 64, {"kind": "linear", "factor": 2.0}),
    (
        {
            "rope_type": "llama3",
            "rope_theta": 5e5,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        32,
        {"kind": "llama3", "base": 5e5, "factor": 8.0, "original_max_position": 16},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        64,
        {"kind": "yarn", "factor": 4.0, "original_max_position": 16},
    ),
    (
        {"rope_type": "dynamic", "factor": 2.0},
        64,
        {
            "kind": "dynamic_factor",
            "factor": 2.0,
            "max_position": 64,
            "original_max_position": 32,
        },
    ),
    ({"rope_type": "dynamic", "alpha": 3.0}, 32, {"kind": "dynamic_alpha", "alpha": 3.0}),
    (
        {
            "rope_type": "longrope",
            "short_factor": [1.0] * 4,
            "long_factor": [2.0, 3.0, 4.0, 5.0],
            "original_max_position_embeddings": 16,
        },
        32,
        {
            "kind": "longrope",
            "rescale": [2.0, 3.0, 4.0, 5.0],
            "max_position": 32,
            "original_max_position": 16,
        },
    ),
]


@pytest.mark.parametrize(("parameters", "length", "table"), TABLES)
def test_tables_follow_the_configuration(
    parameters: dict[str, Any], length: int, table: dict[str, Any]
) -> None:
    rope = nn.get_rope(8, 32, rope_parameters=parameters)
    expected = anyop.rotary_cache(length, 8, **table, like=torch)
    assert torch.equal(rope.cos_sin_cache, expected)
    assert nn.get_rope(8, 32, rope_parameters=dict(parameters)) is rope


def test_the_table_keeps_its_dtype_and_is_no_state() -> None:
    rope = nn.RotaryEmbedding(8, 8, 32)
    before = rope.cos_sin_cache.clone()
    assert rope.state_dict() == {}
    assert torch.equal(rope.to(torch.bfloat16).cos_sin_cache, before)
    assert nn.get_rope(8, 32, dtype=torch.bfloat16).cos_sin_cache.dtype == torch.bfloat16
    y, _ = rope(torch.arange(5), torch.randn(5, 8, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"rope_type": "lama3"}, "rope_type is 'lama3'.*Did you mean 'llama3'"),
        ({"rope_tetha": 1.0}, "holds 'rope_tetha', which no table takes. Did you mean 'rope_theta"),
        ({"partial_rotary_factor": 1.5}, "must be above 0 and at most 1"),
    ],
)
def test_unknown_configurations_are_refused(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        nn.get_rope(8, 32, rope_parameters=parameters)
