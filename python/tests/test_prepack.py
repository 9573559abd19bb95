# SPDX-License-Identifier: Apache-2.0
"""Statements of .prepack that are left out: by a condition, and for an absent argument."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest


@pytest.mark.parametrize("kind", ["q4_0", "q6_K"])
def test_frozen_blocks_are_packed_where_the_packed_form_computes_the_same(kind: str) -> None:
    random = np.random.default_rng(0)
    size = {"q4_0": 8 * 18, "q6_K": 210}[kind]
    weight = random.integers(0, 40, (20, size), dtype=np.uint8)
    x = random.standard_normal((3, 256), np.float32)

    def run(x: Any, w: Any) -> Any:
        return tuple(anyop.linear_blocks(x, w, None, how, kind) for how in ("q8", "exact"))

    graph = anyop.graph(lambda x: run(x, weight), "f32[t, 256]", frozen={"weight": weight})
    text = str(graph)
    assert text.count("anyop.linear_blocks_packed(") == 1
    assert text.count("anyop.linear_blocks(") == 1
    assert "anyop.pack_blocks(" not in text
    for got, want in zip(graph(x), run(x, weight), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("has_zeros", [False, True])
def test_frozen_words_are_packed_with_the_numbers_of_their_groups(has_zeros: bool) -> None:
    """A statement whose argument is absent is left out, and its result is absent behind it."""
    random = np.random.default_rng(0)
    weight = random.integers(0, 256, (20, 32), dtype=np.uint8)
    scale = random.standard_normal((20, 2), np.float32)
    zero = random.integers(0, 16, (20, 2), dtype=np.uint8) if has_zeros else None
    frozen = {"weight": weight, "scale": scale, **({"zero": zero} if has_zeros else {})}
    x = random.standard_normal((3, 64), np.float32)

    graph = anyop.graph(
        lambda x: anyop.linear_u4(x, weight, scale, zero), "f32[t, 64]", frozen=frozen
    )
    text = str(graph)
    assert text.count("anyop.linear_u4_packed(") == 1
    assert "pack_u4(" not in text and "pack_groups_u4(" not in text
    np.testing.assert_array_equal(graph(x), anyop.linear_u4(x, weight, scale, zero))


@pytest.mark.parametrize("has_zeros", [False, True])
def test_frozen_bytes_are_packed_with_the_sums_that_zero_points_need(has_zeros: bool) -> None:
    random = np.random.default_rng(0)
    weight = random.integers(-128, 128, (40, 67), dtype=np.int8)
    scale = random.random(40, np.float32)
    x = random.integers(-128, 128, (3, 67), dtype=np.int8)
    x_scale, zero = random.random((3, 1), np.float32), np.array([[5], [-128], [127]], np.int32)

    def run(x: Any, x_scale: Any, zero: Any = None) -> Any:
        return anyop.linear_int8_quantized(x, x_scale, weight, scale, None, "f32", zero)

    given = (x, x_scale, zero) if has_zeros else (x, x_scale)
    types = ("i8[t, 67]", "f32[t, 1]", "i32[t, 1]")[: len(given)]
    graph = anyop.graph(run, *types, frozen={"weight": weight, "scale": scale})
    text = str(graph)
    assert text.count("anyop.linear_int8_quantized_packed(") == 1
    assert "pack_weight_int8(" not in text and "sum_weight_int8(" not in text
    np.testing.assert_array_equal(graph(*given), run(*given))
