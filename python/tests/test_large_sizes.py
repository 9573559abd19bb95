# SPDX-License-Identifier: Apache-2.0
"""Tensors that fit no memory, made of one element: OutOfMemory, whatever the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest


def wide(*shape: int, dtype: Any = np.float32) -> Any:
    """One element, seen as many."""
    return np.broadcast_to(dtype(1), shape)


MANY = (1 << 61) - 1
BLOCKS, PAIRS = (1 << 60) - 1, (1 << 59) - 1

CALLS: dict[str, Callable[[], Any]] = {
    # Two copies of 2^63 bytes: next to none where the sum wraps.
    "swap_blocks": lambda: anyop.swap_blocks(
        wide(BLOCKS, 2), np.zeros((3, 2), np.float32), wide(PAIRS, 2, dtype=np.int64)
    ),
    # Workspaces of more bytes than 63 bits count.
    "linear": lambda: anyop.linear(wide(64, 1 << 54), wide(64, 1 << 54)),
    "top_k": lambda: anyop.top_k(wide(1, MANY), 4),
    "softmax": lambda: anyop.softmax(wide(1 << 30, 1 << 30)),
    "argmax": lambda: anyop.argmax(wide(1, MANY)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_fits_no_memory_is_out_of_memory(name: str) -> None:
    with pytest.raises(MemoryError) as caught:
        CALLS[name]()
    if isinstance(caught.value, anyop.Error):
        assert str(caught.value).startswith(f"{name}: ")


def test_more_pairs_of_tokens_and_experts_than_an_i32_counts_are_refused() -> None:
    ids = wide(1 << 16, 1 << 15, dtype=np.int32)
    with pytest.raises(ValueError) as caught:
        anyop.moe_permute(wide(1 << 16, 1, dtype=np.int8), ids, 2)
    assert str(caught.value) == (
        "moe_permute: t * k < 2147483648 must hold, but t is 65536 (x is i8[65536, 1]), k is 32768 "
        "(ids is i32[65536, 32768])."
    )


def test_a_graph_counts_no_negative_bytes() -> None:
    def step(x: Any) -> Any:
        y = anyop.softmax(x)
        return anyop.argmax(anyop.add(anyop.softmax(y), y))

    g = anyop.graph(step, "f32[n]", name="g")
    assert g.memory(n=1 << 40)[0] >= 1 << 42
    with pytest.raises(anyop.OutOfMemory) as caught:
        g.memory(n=1 << 60)
    assert str(caught.value) == (
        "graph: the values take 2^63 bytes or more together, but no memory is as large. Try "
        "smaller inputs."
    )
