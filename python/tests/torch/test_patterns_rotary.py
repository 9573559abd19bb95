# SPDX-License-Identifier: Apache-2.0
"""Rotations by position: both styles, types that differ, strides, and what only looks like them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from backend_cases import B16, H, floats  # noqa: E402
from decoders import rotate_half  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called  # noqa: E402


def angles(x: Any, t: int, r: int) -> Any:
    """[1, t, r/2], not known when a graph is made."""
    return (torch.arange(t)[:, None] * x.float().mean() + torch.arange(r // 2) / 7)[None]


def doubled(freqs: Any) -> Any:
    return torch.cat((freqs, freqs), -1)


def neighbours(x: Any) -> Any:
    """As Cohere and GLM write it."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def rotation(x: Any, cos: Any, sin: Any, turn: Any = rotate_half) -> Any:
    return x * cos + turn(x) * sin


def neox(x: Any, dtype: Any = None, width: int = 16) -> Any:
    table = doubled(angles(x, x.shape[2], width))
    cos, sin = (f.to(dtype or x.dtype).unsqueeze(1) for f in (table.cos(), table.sin()))
    return rotation(x, cos, sin)


def gptj(x: Any) -> Any:
    table = angles(x, x.shape[2], 16).repeat_interleave(2, -1)
    cos, sin = (f.to(x.dtype).unsqueeze(1) for f in (table.cos(), table.sin()))
    return rotation(x, cos, sin, neighbours)


def glm(x: Any) -> Any:
    """Tables of halves, of which each layer makes those of neighbours; the rest of a head stays."""
    table = doubled(angles(x, x.shape[2], 8))
    cos, sin = (f.to(x.dtype).unsqueeze(1) for f in (table.cos(), table.sin()))
    cos, sin = (f[..., : f.shape[-1] // 2].repeat_interleave(2, -1) for f in (cos, sin))
    r = cos.shape[-1]
    return torch.cat((rotation(x[..., :r], cos, sin, neighbours), x[..., r:]), -1)


def partial(x: Any) -> Any:
    return torch.cat((neox(x[..., :8], width=8), x[..., 8:]), -1)


def heads_last(x: Any) -> Any:
    """[b, t, h, d], of which the heads come first in the program."""
    return neox(x.transpose(1, 2)).transpose(1, 2)


Q = floats(2, 3, 5, 16)
ROTATIONS: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "neox": (neox, (Q,), True),
    "gptj": (gptj, (Q,), True),
    "glm": (glm, (Q,), True),
    "partial": (partial, (Q,), True),
    "heads last": (heads_last, (Q,), True),
    "bf16": (neox, (Q.to(B16),), True),
    "f16, gptj": (gptj, (Q.to(H),), True),
    "bf16 by f32": (lambda x: neox(x, torch.float32), (Q.to(B16),), True),
    "f32 by bf16": (lambda x: neox(x, B16), (Q,), True),
    "f64": (neox, (Q.double(),), False),
    "viewed afterwards": (lambda x: neox(x.transpose(1, 2)).view(2, 5, 3, 8, 2), (Q,), True),
    "of a transpose, returned": (lambda x: neox(x.transpose(1, 2)), (Q,), True),
}


# With sizes that vary, no rotation is replaced: the first one stands for all by default.
@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(
            name, how, id=f"{name}-{how}",
            marks=pytest.mark.exhaustive if how == "dynamic" and i else (),
        )
        for i, name in enumerate(ROTATIONS) for how in HOWS
    ],
)  # fmt: skip
def test_rotations(name: str, how: str) -> None:
    program, args, is_ours = ROTATIONS[name]
    try:
        program(*args)
    except RuntimeError:
        pytest.skip("torch refuses this view")
    close = {} if args[0].dtype in (torch.float32, torch.float64) else {"rtol": 2e-2, "atol": 2e-2}
    function = assert_as_torch(how, program, args, **close)
    if how != "dynamic":
        assert ("anyop.rope" in called(how, function)) == is_ours


def other_halves(x: Any) -> Any:
    freqs = angles(x, 5, 16)
    table = torch.cat((freqs, freqs * 2), -1)
    return rotation(x, table.cos().unsqueeze(1), table.sin().unsqueeze(1))


def cosine_twice(x: Any) -> Any:
    table = doubled(angles(x, 5, 16))
    return rotation(x, table.cos().unsqueeze(1), table.cos().unsqueeze(1))


def turned_back(x: Any) -> Any:
    half = x.shape[-1] // 2
    table = doubled(angles(x, 5, 16))
    cos, sin = table.cos().unsqueeze(1), table.sin().unsqueeze(1)
    return x * cos + torch.cat((x[..., half:], -x[..., :half]), -1) * sin


def styles_mixed(x: Any) -> Any:
    table = doubled(angles(x, 5, 16))
    return rotation(x, table.cos().unsqueeze(1), table.sin().unsqueeze(1), neighbours)


def tables_of_heads(x: Any) -> Any:
    table = doubled(angles(x, 5, 16)).expand(3, -1, -1)[None]
    return rotation(x, table.cos(), table.sin())


def rest_in_front(x: Any) -> Any:
    return torch.cat((neox(x[..., 8:], width=8), x[..., :8]), -1)


def other_rest(x: Any) -> Any:
    return torch.cat((neox(x[..., :8], width=8), 2 * x[..., 8:]), -1)


LOOK_ALIKE = (other_halves, turned_back, styles_mixed, tables_of_heads, rest_in_front, other_rest,
              cosine_twice)  # fmt: skip


@pytest.mark.parametrize("program", LOOK_ALIKE)
@pytest.mark.parametrize("how", ["capture", "compile"])
def test_what_looks_like_a_rotation(program: Any, how: str) -> None:
    assert_as_torch(how, program, (Q,))


@pytest.mark.parametrize("how", HOWS)
def test_tables_that_are_written(how: str) -> None:
    def program(x: Any, table: Any) -> Any:
        both = doubled(table)
        cos, sin = both.cos().unsqueeze(1), both.sin().unsqueeze(1)
        y = rotation(x, cos, sin)
        cos.add_(1.0)
        return y, rotation(x, cos, sin)

    assert_as_torch(how, program, (Q, floats(1, 5, 8)))


def test_tables_are_made_once_for_queries_and_keys() -> None:
    def program(q: Any, k: Any) -> Any:
        table = angles(q, 5, 16).repeat_interleave(2, -1)
        cos, sin = (f.unsqueeze(1) for f in (table.cos(), table.sin()))
        return rotation(q, cos, sin, neighbours), rotation(k, cos, sin, neighbours)

    function = assert_as_torch("capture", program, (Q, floats(2, 1, 5, 16)))
    assert str(function).count("anyop.rope(") == 2
    rows = [r for r in function.report() if r["operator"] == "rotary_table"]
    assert [r["nodes"] for r in rows] == [1]


def test_tables_that_each_layer_makes_are_one() -> None:
    def program(q: Any, k: Any) -> Any:
        freqs = angles(q, 5, 16)
        made = []
        for x in (q, k):
            cos, sin = (f.unsqueeze(1).repeat_interleave(2, -1) for f in (freqs.cos(), freqs.sin()))
            made.append(rotation(x, cos, sin, neighbours))
        twice = (2 * freqs.cos()).unsqueeze(1).repeat_interleave(2, -1)
        return *made, rotation(q, twice, sin, neighbours)

    function = assert_as_torch("capture", program, (Q, floats(2, 1, 5, 16)))
    assert str(function).count("anyop.rope(") == 3
    rows = [r for r in function.report() if r["operator"] == "rotary_table"]
    assert [r["nodes"] for r in rows] == [2]


def test_the_rest_of_a_head_is_part_of_the_rotation() -> None:
    for program in (partial, glm):
        function = assert_as_torch("capture", program, (Q,))
        assert str(function).count("[10, 3, 16] = anyop.rope(") == 1
