# SPDX-License-Identifier: Apache-2.0
"""The operators that have kernels for CUDA cards, on torch's tensors, against double on the CPU."""

from __future__ import annotations

import random
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from card import ON_CARD, library, quiet  # noqa: E402, F401
from references import (  # noqa: E402
    assert_near,
    double,
    rms_norm,
    rotary,
    silu_and_mul,
)

pytestmark = ON_CARD
OPS = torch.ops.anyop
FLOATS = [torch.float32, torch.float16, torch.bfloat16]
EACH_FLOAT = pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: str(d).removeprefix("torch."))
WAYS = {
    "anyop": lambda name: getattr(anyop, name),
    "torch.ops": lambda name: getattr(OPS, name),
}
EACH_WAY = pytest.mark.parametrize("way", WAYS)
ROWS = [0, 1, 2, 3, 7, 130]
WIDTHS = [1, 2, 7, 8, 31, 64, 65, 128, 256, 576, 1000, 1024, 4096, 4104, 8192, 16384, 40000]


def near(shape: tuple[int, ...], dtype: Any, seed: int, gaps: str = "") -> Any:
    """Normal numbers on the card. gaps: 'row' between rows, 'shifted' off the alignment, 'back'
    with the leading dimensions in another order, 'turned' with the last one not the fastest."""
    generator = torch.Generator().manual_seed(seed)

    def fill(size: tuple[int, ...]) -> Any:
        if not dtype.is_floating_point:
            return torch.randint(-(2**31), 2**31, size, generator=generator).to(dtype).cuda()
        return torch.randn(size, generator=generator).to(dtype).cuda()

    if gaps == "row":
        return fill((*shape[:-1], shape[-1] + 8))[..., : shape[-1]]
    if gaps == "shifted":
        return fill((*shape[:-1], shape[-1] + 3))[..., 1 : 1 + shape[-1]]
    if gaps == "back" and len(shape) > 2:
        return fill((shape[1], shape[0], *shape[2:])).transpose(0, 1)
    if gaps == "turned" and len(shape) > 1:
        return fill((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
    return fill(shape)


GAPS = ["", "row", "shifted", "back", "turned"]


def shapes(seed: int, n: int) -> list[tuple[int, ...]]:
    """Some shapes of each rank, small where the rank is high."""
    choose = random.Random(seed)
    found: list[tuple[int, ...]] = [
        (5,),
        (0, 8),
        (1, 4096),
        (33, 1),
        (2, 3, 5, 64),
        (3, 2, 2, 2, 9),
    ]
    for _ in range(n):
        found.append((choose.choice(ROWS), choose.choice(WIDTHS)))
        found.append((choose.choice(ROWS[1:5]), choose.choice(ROWS[1:]), choose.choice(WIDTHS[:9])))
    return found


@EACH_WAY
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64], ids=str)
def test_add(dtype: Any, way: str) -> None:
    add = WAYS[way]("add")
    for i, shape in enumerate(shapes(1, 12)):
        x, y = near(shape, dtype, i, GAPS[i % 5]), near(shape, dtype, i + 99, GAPS[i // 5 % 5])
        row = near(shape[-1:], dtype, i + 77)
        for other in (y, row):
            z = add(x, other)
            what = f"{shape} {x.stride()} {other.shape} {other.stride()}"
            if dtype.is_floating_point:
                assert_near(z, double(x) + double(other), what=what)
            else:
                assert torch.equal(z, x + other), what


def test_add_takes_a_view_that_repeats_rows() -> None:
    x = near((4, 6, 64), torch.bfloat16, 0)
    y = near((6, 64), torch.bfloat16, 1)[None].expand(4, 6, 64)
    assert_near(anyop.add(x, y), double(x) + double(y))


@EACH_WAY
@EACH_FLOAT
def test_rms_norm(dtype: Any, way: str) -> None:
    norm = WAYS[way]("rms_norm")
    for i, shape in enumerate(shapes(2, 16)):
        x = near(shape, dtype, i, GAPS[i % 5])
        weight = near(shape[-1:], dtype, i + 50, "shifted" if i % 4 == 3 else "")
        for w, offset in ((weight, 0.0), (weight, 1.0), (None, 0.0)):
            y = norm(x, w, eps=1e-5, weight_offset=offset)
            expected = rms_norm(x, w, 1e-5, offset)
            assert_near(y, expected, 12 * expected.abs(), f"{shape} {x.stride()} {offset}")


@EACH_FLOAT
def test_a_row_has_the_same_bits_alone_and_off_the_alignment(dtype: Any) -> None:
    for d in (64, 576, 1000, 4096, 16384):
        x, w = near((9, d), dtype, d), near((d,), dtype, 1)
        whole = anyop.rms_norm(x, w)
        shifted = torch.empty(9, d + 1, dtype=dtype, device="cuda")[:, 1:].copy_(x)
        assert torch.equal(anyop.rms_norm(x[4:5], w), whole[4:5]), d
        assert torch.equal(anyop.rms_norm(shifted, w), whole), d


def test_rms_norm_takes_rows_of_any_magnitude() -> None:
    for size in (1e-40, 1e-25, 3e17, 1e19, 3e38):
        x = torch.full((5, 300), size, device="cuda")
        x[0] = 1
        y = anyop.rms_norm(x, None, eps=0.0)
        assert (double(y) - 1).abs().max() < 2e-7, size
    # Rows that share a warp go different ways.
    sizes = torch.tensor([1.0, 1e-25, 3e17, 1e-40, 1, 3e38] * 50, device="cuda")
    for d in (4, 8, 16, 100, 128, 512):
        x = sizes[:, None].expand(-1, d).contiguous()
        y = anyop.rms_norm(x, None, eps=0.0)
        assert (double(y) - 1).abs().max() < 2e-7, d
        x = x.to(torch.bfloat16)
        y = anyop.rms_norm(x, None, eps=0.0)
        assert (double(y) - 1).abs().max() < 1e-2, d
    x = torch.ones(1, 37, device="cuda")
    x[0, 20] = float("inf")
    y = anyop.rms_norm(x).cpu()
    assert torch.isnan(y[0, 20]) and y[0, :20].eq(0).all() and y[0, 21:].eq(0).all()
    assert torch.isnan(anyop.rms_norm(torch.zeros(1, 3, device="cuda"), None, eps=0.0)).all()


@EACH_WAY
@EACH_FLOAT
def test_silu_and_mul(dtype: Any, way: str) -> None:
    act = WAYS[way]("silu_and_mul")
    for i, shape in enumerate(shapes(3, 12)):
        x = near((*shape[:-1], 2 * shape[-1]), dtype, i, GAPS[i % 5]).mul_(5)
        expected = silu_and_mul(x)
        assert_near(act(x), expected, 20 * expected.abs(), f"{shape} {x.stride()}")
    x = torch.tensor([[-float("inf"), -3e38, -200, 1, 1, 1]], dtype=torch.float32, device="cuda")
    y = act(x).cpu()
    assert torch.isnan(y[0, 0]) and y[0, 1] == 0 and abs(float(y[0, 2])) < 2.0**-118


# tokens, query heads, key heads, head, rotated, offset
ROTATED = [
    (0, 2, 1, 64, 64, 0), (1, 9, 3, 64, 64, 0), (5, 4, 1, 128, 128, 0), (3, 2, 2, 96, 70, 13),
    (2, 1, 1, 1200, 1100, 1), (2, 3, 2, 20, 6, 14), (130, 32, 8, 128, 128, 0),
    (7, 3, 0, 64, 32, 32),
]  # fmt: skip


@EACH_WAY
@EACH_FLOAT
@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_rotary_embedding(dtype: Any, style: str, way: str) -> None:
    rotate = WAYS[way]("rotary_embedding")
    for i, (t, hq, hkv, d, r, offset) in enumerate(ROTATED):
        for table_dtype in {dtype, torch.float32}:
            q = near((t, hq, d), dtype, i, GAPS[i % 4])
            k = near((t, hkv, d), dtype, i + 9, GAPS[(i + 1) % 4]) if hkv else None
            angles = torch.rand(50, r // 2, generator=torch.Generator().manual_seed(i)) * 6
            table = torch.cat([angles.cos(), angles.sin()], -1).to(table_dtype).cuda()
            kind = torch.int64 if i % 2 else torch.int32
            positions = (torch.arange(t) * 7 % 51 - 1).to(kind).cuda()
            both = [x for x in (q, k) if x is not None]
            inverse = bool(i % 2)
            expected = [rotary(x, positions, table, offset, style, inverse) for x in both]
            sizes = [double(x).abs().amax(-1, keepdim=True) for x in both]
            args = {"offset": offset, "style": style, "inverse": inverse}
            rotate(positions, q, k, table, **args)
            for x, reference, size in zip(both, expected, sizes, strict=True):
                assert_near(x, reference, 4 * size if t else 0, f"{ROTATED[i]} {x.stride()}")


def reshaped(key: Any, cache: Any, slots: Any, scale: Any) -> Any:
    """The cache after the call, on the CPU."""
    after, key = cache.cpu().clone(), key.cpu()
    for i, slot in enumerate(slots.tolist()):
        if slot < 0:
            continue
        row = key[i]
        if cache.dtype == torch.int8 and key.dtype != torch.int8:
            factor = 1 / scale.cpu()[:, None] if scale is not None else 1.0
            row = (row.float() * factor).round().clamp(-128, 127).to(torch.int8)
        elif cache.dtype != key.dtype:
            factor = 1 / scale.cpu()[:, None] if scale is not None else 1.0
            row = (row.float() * factor).clamp(-448, 448).to(cache.dtype)
        after[slot // cache.shape[1], slot % cache.shape[1]] = row
    return after


@EACH_WAY
@pytest.mark.parametrize("stored", ["same", "int8", "float8_e4m3fn"])
@EACH_FLOAT
def test_reshape_and_cache(dtype: Any, stored: str, way: str) -> None:
    store = WAYS[way]("reshape_and_cache")
    cached = dtype if stored == "same" else getattr(torch, stored)
    for i, (t, h, d) in enumerate([(1, 1, 1), (3, 2, 5), (9, 8, 128), (33, 3, 64), (5, 1, 7)]):
        key, value = near((t, h, d), dtype, i, GAPS[i % 4]), near((t, h, d + 8), dtype, i + 5)
        caches = [
            torch.randint(0, 100, (4, 16, h, n), device="cuda").to(cached) for n in (d, d + 8)
        ]
        scale = torch.rand(h, device="cuda") + 0.1 if stored != "same" else None
        slots = torch.randperm(64, generator=torch.Generator().manual_seed(i))[:t]
        slots = slots.to(torch.int64 if i % 2 else torch.int32).cuda()
        if t > 2:
            slots[1] = -1
        key_after = reshaped(key, caches[0], slots, scale)
        value_after = reshaped(value, caches[1], slots, None)
        store(key, value, *caches, slots, scale, None)
        for cache, after in zip(caches, (key_after, value_after), strict=True):
            assert torch.equal(cache.cpu().view(torch.uint8), after.view(torch.uint8)), (t, h, d)


def test_reshape_and_cache_in_layout_nz() -> None:
    t, h, d, bs = 7, 4, 32, 8
    key = near((t, h, d), torch.bfloat16, 0)
    cache = torch.zeros(3, h * d // 16, bs, 16, dtype=torch.bfloat16, device="cuda")
    slots = torch.tensor([0, 9, 23, -1, 5, 16, 8], device="cuda")
    anyop.reshape_and_cache(key, None, cache, None, slots, layout="NZ")
    plain = torch.zeros(3, bs, h, d, dtype=torch.bfloat16, device="cuda")
    anyop.reshape_and_cache(key, None, plain, None, slots)
    back = cache.permute(0, 2, 1, 3).reshape(3, bs, h, d)
    assert torch.equal(back, plain)
    assert torch.equal(plain[1, 1], key[1]) and torch.equal(plain[2, 7], key[2])


def test_results_are_written_where_the_caller_says() -> None:
    x, y = near((64, 128), torch.bfloat16, 0), near((64, 128), torch.bfloat16, 1)
    expected = anyop.add(x, y)
    for z in (torch.empty_like(x), near((64, 128), torch.bfloat16, 2, "row")):
        assert OPS.add.out(x, y, out=z) is z
        assert torch.equal(z, expected)
        assert torch.equal(anyop.add(x, y, out=z), expected)
    turned = torch.empty(128, 64, dtype=x.dtype, device="cuda").t()
    assert torch.equal(anyop.add(x, y, out=turned), expected)
    over = x.clone()
    assert OPS.add_(over, y) is over
    assert torch.equal(over, expected)
    weight = near((128,), torch.bfloat16, 3)
    normed, over = anyop.rms_norm(x, weight), x.clone()
    OPS.rms_norm_(over, weight)
    assert torch.equal(over, normed)


def test_huge_tensors_are_indexed_by_64_bits() -> None:
    free, _ = torch.cuda.mem_get_info()
    n = 2**32 + 2**20
    if free < 5 * n:
        pytest.skip(f"needs {5 * n >> 30} GiB of the card's memory")
    x = torch.zeros(n // 4096, 4096, dtype=torch.float16, device="cuda")[:, :4095]
    x[-1].fill_(3)
    row = torch.ones(4095, dtype=torch.float16, device="cuda")
    anyop.add(x, row, out=x)
    assert x[-1].eq(4).all() and x[0].eq(1).all() and x[n // 8192].eq(1).all()
