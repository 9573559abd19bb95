# SPDX-License-Identifier: Apache-2.0
"""Graphs inside of graphs: random programs of random graphs give the bits of plain calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

D = 16
RANDOM = np.random.default_rng(8)
WEIGHTS = [RANDOM.standard_normal((D, D), np.float32) for _ in range(3)]
NORM = RANDOM.standard_normal(D, np.float32)


def program(seed: int, parts: list[Callable[..., Any]]) -> Callable[..., Any]:
    """(x [n, D], y [n, D], eps) -> two tensors of that shape, one of them often of a part."""

    def run(x: Any, y: Any, eps: Any) -> Any:
        choose = random.Random(seed)
        pool = [x, y]
        for _ in range(6):
            a, b = choose.choice(pool), choose.choice(pool)
            kind = choose.randrange(5 + len(parts))
            if kind == 0:
                pool.append(anyop.add(a, b))
            elif kind == 1:
                pool.append(anyop.linear(a, choose.choice(WEIGHTS)))
            elif kind == 2:
                pool.append(anyop.rms_norm(a, NORM, eps))
            elif kind == 3:
                pool.append(anyop.softmax(a))
            elif kind == 4:
                half = a.reshape(-1, 2, D // 2)[:, 0]
                pool.append(anyop.linear(half, choose.choice(WEIGHTS)[:, : D // 2].copy()))
            else:
                part = parts[kind - 5]
                made = part(a, b, eps) if choose.random() < 0.5 else part(a, eps=0.25, y=b)
                pool += list(made)
        return anyop.add(pool[-1], pool[-2]), anyop.softmax(pool[-1])

    return run


@pytest.mark.parametrize("seed", range(25))
def test_nested_graphs_give_the_bits_of_plain_calls(seed: int) -> None:
    types = ("f32[n, 16]", "f32[n, 16]", "float")
    inner = [program(seed * 100 + k, []) for k in range(2)]
    graphs = [anyop.graph(f, *types, name=f"part{k}") for k, f in enumerate(inner)]
    middle = program(seed * 100 + 50, graphs)
    outer = program(seed * 100 + 51, [*graphs, anyop.graph(middle, *types, name="middle")])
    plain_middle = program(seed * 100 + 50, inner)
    plain = program(seed * 100 + 51, [*inner, plain_middle])
    g = anyop.graph(outer, *types)
    for n in (1, 5, 32):
        x, y = (RANDOM.standard_normal((n, D), np.float32) for _ in range(2))
        for got, want in zip(g(x, y, 0.5), plain(x, y, 0.5), strict=True):
            assert got.tobytes() == want.tobytes()


def test_a_part_of_fixed_rows_takes_a_slice_of_its_size() -> None:
    part = anyop.graph(lambda x: anyop.softmax(x), "f32[4, 16]", name="part")
    g = anyop.graph(lambda x: part(x[:4]), "f32[n, 16]")
    x = RANDOM.standard_normal((9, D), np.float32)
    assert g(x).tobytes() == anyop.softmax(x[:4]).tobytes()
    with pytest.raises(ValueError, match=r"part: x is f32\[n, 16\], but must be f32\[4, 16\] at"):
        anyop.graph(lambda x: part(x), "f32[n, 16]")


def test_a_part_of_two_sizes_is_told_both() -> None:
    def rows(x: Any, k: Any) -> Any:
        return anyop.softmax(x[:k])

    part = anyop.graph(rows, "f32[2*m + 1, 16]", "int", name="part")
    g = anyop.graph(lambda x, j: part(x, j - 1), "f32[4*n + 3, 16]", "int")
    x = RANDOM.standard_normal((11, D), np.float32)
    for j in (2, 8):
        assert g(x, j).tobytes() == anyop.softmax(x[: j - 1]).tobytes()
    with pytest.raises(ValueError, match="part: x is f32"):
        anyop.graph(lambda x, j: part(x, j), "f32[4*n, 16]", "int")
