# SPDX-License-Identifier: Apache-2.0
"""A statement of .prepack that has a condition: blocks are packed for x in bytes only."""

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
