# SPDX-License-Identifier: Apache-2.0
"""A graph packs the weights of experts that it knows, once."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np


def test_frozen_weights_of_experts_are_packed() -> None:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, np.float32)

    w13, w2, weight = normal(3, 20, 16), normal(3, 16, 10), normal(3, 20, 16)

    def run(x: Any, weights: Any, ids: Any, offsets: Any) -> Any:
        y = anyop.fused_moe(x, w13, w2, weights, ids)
        return y, anyop.grouped_linear(x, weight, offsets)

    graph = anyop.graph(
        run, "f32[t, 16]", "f32[t, 2]", "i32[t, 2]", "i32[4]",
        frozen={"w13": w13, "w2": w2, "weight": weight},
    )  # fmt: skip
    text = str(graph)
    assert "anyop.fused_moe_packed(" in text
    assert "anyop.grouped_linear_packed(" in text
    assert "anyop.pack_weight(" not in text
    arguments = (
        normal(4, 16),
        normal(4, 2),
        np.array([[0, 1], [2, -1], [1, 1], [0, 2]], np.int32),
        np.array([0, 1, 1, 4], np.int32),
    )
    for packed, plain in zip(graph(*arguments), run(*arguments), strict=True):
        np.testing.assert_allclose(packed, plain, rtol=1e-4, atol=1e-3)
