# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings: the rotation, and the tables that configurations ask for."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import anyop
import numpy as np
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
    assert nn.get_rope(8, 32, rope_parameters=dict(parameters)).cos_sin_cache is rope.cos_sin_cache


def test_the_table_keeps_its_dtype_and_is_no_state() -> None:
    rope = nn.RotaryEmbedding(8, 8, 32)
    before = rope.cos_sin_cache.clone()
    assert rope.state_dict() == {}
    assert torch.equal(rope.to(torch.bfloat16).cos_sin_cache, before)
    assert nn.get_rope(8, 32, dtype=torch.bfloat16).cos_sin_cache.dtype == torch.bfloat16
    y, _ = rope(torch.arange(5), torch.randn(5, 8, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16


def as_alone(rope: Any) -> bool:
    """Whether a module rotates as one does that nobody else knows of."""
    x, positions = torch.randn(5, 2, 8), torch.tensor([3, 0, 31, 7, 7])
    place = rope.cos_sin_cache.device
    found = rope(positions.to(place), x.to(place))[0].cpu()
    torch.testing.assert_close(found, rotate(x, positions, 1e4, True))
    return True


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ropes = torch.nn.ModuleList(nn.get_rope(8, 32) for _ in range(3))

    def table(self) -> Any:
        """The one that all have."""
        first, *rest = (rope.cos_sin_cache for rope in self.ropes)
        assert all(table is first for table in rest)
        return first


MOVES: dict[str, Any] = {
    "half": lambda m: m.half(),
    "double": lambda m: m.double(),
    "to meta": lambda m: m.to("meta"),
    "to meta in bf16": lambda m: m.to("meta", torch.bfloat16),
    "to_empty": lambda m: m.to_empty(device="cpu"),
    "from meta": lambda m: m.to("meta").to_empty(device="cpu"),
    "deepcopy": lambda m: copy.deepcopy(m).to_empty(device="cpu"),
    "share_memory": lambda m: m.share_memory(),
    "load_state_dict": lambda m: m.load_state_dict(Layers().state_dict(), assign=True) and m,
}


@pytest.mark.parametrize("move", MOVES)
def test_a_model_that_moves_changes_no_other(move: str) -> None:
    moved, other = Layers(), Layers()
    before = other.table()
    assert moved.table() is before
    moved = MOVES[move](moved)
    assert other.table() is before and Layers().table() is before and not before.is_meta
    assert as_alone(other.ropes[0]) and as_alone(nn.get_rope(8, 32))
    assert all(rope.cos_sin_cache.dtype == torch.float32 for rope in moved.ropes)
    if move.startswith("to meta"):
        assert all(rope.cos_sin_cache.is_meta for rope in moved.ropes)
    else:
        assert moved.table() is before and as_alone(moved.ropes[0])


def test_a_table_that_was_written_stays_with_those_who_have_it() -> None:
    one, rope = nn.get_rope(8, 32), nn.get_rope(8, 32)
    one.cos_sin_cache = one.cos_sin_cache * 2
    assert as_alone(rope)
    rope.cos_sin_cache.mul_(3)
    assert as_alone(nn.get_rope(8, 32))
    table = nn.get_rope(8, 32).cos_sin_cache
    for written, factor in ((one, 2), (rope, 3)):
        for move in (lambda m: m.half(), lambda m: m.share_memory(), copy.deepcopy):
            assert torch.equal(move(written).cos_sin_cache, table * factor)


def test_a_table_is_made_for_all_whatever_mode_is_on() -> None:
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    with torch.inference_mode():
        rope = nn.get_rope(8, 48)
    x = torch.randn(5, 8, requires_grad=True)
    rope(torch.arange(5), x)[0].sum().backward()
    with FakeTensorMode():
        assert isinstance(nn.get_rope(8, 48).cos_sin_cache, FakeTensor)
        assert isinstance(nn.get_rope(8, 56).cos_sin_cache, FakeTensor)
    with torch.device("meta"):
        assert nn.get_rope(8, 56).cos_sin_cache.is_meta
    assert nn.get_rope(8, 48).cos_sin_cache is rope.cos_sin_cache
    assert type(nn.get_rope(8, 56).cos_sin_cache) is torch.Tensor
    assert not nn.get_rope(8, 56).cos_sin_cache.is_meta


def test_a_table_ends_with_its_last_module() -> None:
    one, rope = nn.get_rope(8, 40), nn.get_rope(8, 40)
    table = weakref.ref(one.cos_sin_cache)
    del one
    assert table() is rope.cos_sin_cache
    del rope
    gc.collect()
    assert table() is None


def test_arguments_of_a_table_may_be_lists_and_numbers_of_other_kinds() -> None:
    rescale = [2.0, 3.0, 4.0, 5.0]
    more = {"kind": "longrope", "max_position": 32, "original_max_position": 16}
    made = nn.RotaryEmbedding(8, 8, 32, rescale=rescale, **more)
    for given in (tuple(rescale), np.array(rescale), torch.tensor(rescale)):
        more["max_position"] = np.int64(32)
        same = nn.RotaryEmbedding(8, 8, 32, rescale=list(given), **more)
        assert same.cos_sin_cache is made.cos_sin_cache


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
