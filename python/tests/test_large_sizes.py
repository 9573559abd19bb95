# SPDX-License-Identifier: Apache-2.0
"""Tensors that fit no memory, made of one element: OutOfMemory, whatever the operator."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop


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


ROWS = 10**9
MOST_BYTES = 1 << 20  # of what a call reads and writes
MOST_S = 0.5
NAMES = [name for name, _, _ in _anyop.dtypes()]


def kinds(value: Any) -> list[tuple[str, Any]]:
    """The tensors of a generated argument, as (dtype, shape)."""
    if isinstance(value, tuple):
        return [value]
    return value if isinstance(value, list) and value and isinstance(value[0], tuple) else []


def calls(name: str) -> Iterator[dict[str, Any]]:
    """Generated calls with each of their sizes 0 or 10^9, whose tensors have few elements."""
    params = [p["name"] for p in anyop.info(name)["params"]]
    function = _anyop.functions()[name]
    for seed, pattern in itertools.product(range(4), range(8)):
        call = _anyop.example_call(function, seed, -1, {}, {})
        if call is None:
            continue
        values = [value for value, _ in call]
        sizes = sorted({s for v in values for _, shape in kinds(v) for s in shape})
        as_size = {s: 0 if pattern >> (i % 3) & 1 else ROWS for i, s in enumerate(sizes)}

        def made(kind: tuple[str, Any], as_size: dict[int, int] = as_size) -> Any:
            shape = [as_size[s] for s in kind[1]]
            if math.prod(shape) * 8 > MOST_BYTES:
                raise OverflowError
            return np.zeros(shape, _anyop.numpy_dtype(kind[0]))

        try:
            arguments = [
                [made(k) for k in v] if isinstance(v, list) and kinds(v) else made(v)
                if isinstance(v, tuple) else v
                for v in values
            ]  # fmt: skip
        except (OverflowError, ValueError):
            continue
        yield dict(zip(params, arguments, strict=True))


def result_bytes(name: str, arguments: dict[str, Any]) -> int:
    def described(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            dtype = next(n for n in NAMES if _anyop.numpy_dtype(n) == value.dtype)
            return (0, dtype, value.shape, (1,) * value.ndim)
        return [described(v) for v in value] if isinstance(value, list) else value

    n_results = len(anyop.info(name)["results"])
    given = tuple(described(v) for v in arguments.values())
    made = _anyop.plan_memory(_anyop.functions()[name], given, (True,) * n_results)
    return sum(8 * math.prod(shape) for _, shape in made if shape is not None)


def test_many_rows_of_no_elements_take_no_time() -> None:
    """Of every operator: rows without elements are not gone through one by one."""
    made, slow = 0, []
    for name in _anyop.functions():
        if not name.startswith("anyop."):
            continue
        for arguments in calls(name):
            try:
                if result_bytes(name, arguments) > MOST_BYTES:
                    continue
                begin = time.process_time()
                _anyop.functions()[name](**arguments)
            except (anyop.Error, TypeError):
                continue
            made += 1
            if time.process_time() - begin > MOST_S:
                shapes = {k: v.shape for k, v in arguments.items() if isinstance(v, np.ndarray)}
                slow.append((name, shapes))
    assert slow == []
    assert made > 200
