# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

SIZES = [
    (1, 576, 1536, "q4_1"),
    (1, 1536, 576, "q4_1"),
    (1, 576, 1536, "q4_0"),
    (1, 576, 49152, "q8_0"),
    (16, 576, 49152, "q8_0"),
    (1, 4096, 14336, "q4_0"),
    (1, 4096, 14336, "q4_1"),
    (1, 4096, 14336, "q8_0"),
    (1, 4096, 14336, "q4_K"),
    (1, 4096, 14336, "q5_K"),
    (1, 4096, 14336, "q6_K"),
    (512, 4096, 4096, "q4_0"),
    (512, 4096, 4096, "q4_1"),
    (512, 4096, 4096, "q4_K"),
    (512, 4096, 4096, "q6_K"),
]
SUPERBLOCKS = {"q4_K": (144, 0, 4), "q5_K": (176, 0, 4), "q6_K": (210, 208, 210)}


def blocks_of(n: int, k: int, kind: str) -> Any:
    """Quantized numbers; superblocks, which anyop only reads, of any bytes and small scales."""
    if kind not in SUPERBLOCKS:
        return np.asarray(anyop.quantize_blocks(normal((n, k), seed=2), kind))
    size, first, end = SUPERBLOCKS[kind]
    random = np.random.default_rng(2)
    blocks = random.integers(0, 256, (n, k // 256, size), dtype=np.uint8)
    numbers = random.uniform(1e-4, 2e-4, (n, k // 256, (end - first) // 2))
    blocks[..., first:end] = numbers.astype(np.float16).view(np.uint8)
    return blocks.reshape(n, -1)


def packed(a: Any, kind: str) -> partial[Any]:
    blocks = np.asarray(anyop.pack_blocks(a.blocks, kind))
    return partial(anyop.linear_blocks_packed, a.x, blocks, len(a.blocks), None, kind, out=a.y)


def in_rows(a: Any, kind: str) -> partial[Any]:
    return partial(anyop.linear_blocks, a.x, a.blocks, None, "q8", kind, out=a.y)


def gathered(kind: str, count: int) -> Case:
    """Rows of a table of tokens. NumPy and torch gather from the decoded one."""
    blocks = blocks_of(32000, 1024, kind)
    table = np.asarray(anyop.dequantize_blocks(blocks, kind))
    y = np.empty((count, 1024), np.float32)
    return Case(
        f"{kind} rows of tokens, f32 [{count}] of {list(table.shape)}",
        {
            "ids": np.random.default_rng(0).integers(0, len(table), count),
            "blocks": blocks,
            "table": table,
            "y": y,
        },
        ours=lambda a: partial(anyop.embedding_blocks, a.ids, a.blocks, kind, "f32", out=a.y),
        numpy=lambda a: partial(np.take, a.table, a.ids, axis=0, out=a.y, mode="clip"),
        torch=lambda t, a: t.call(t.F.embedding, a.ids, a.table),
        moved=y.nbytes + count * blocks.shape[1],
        tolerance=0,
        widen=False,
        note="NumPy and torch: the decoded table",
    )


def cases() -> Iterator[Case]:
    """The others multiply by the decoded weight, in the dtype of x."""
    yield from (gathered(kind, 512) for kind in ("q4_0", "q6_K"))
    for m, k, n, kind in SIZES:
        blocks = blocks_of(n, k, kind)
        for name, dtype in each_dtype("bf16"):
            x = normal((m, k), dtype, 1)
            weight = np.asarray(anyop.dequantize_blocks(blocks, kind)).astype(dtype)
            y = np.empty((m, n), dtype)
            arrays = {"x": x, "blocks": blocks, "weight": weight, "y": y, "format": kind}
            goal = "one row" if m == 1 else ""
            for what, ours in (("packed", packed), ("in rows", in_rows)):
                yield Case(
                    f"{kind} {what}, {name} [{m},{k}]x[{n},{k}]",
                    arrays,
                    ours=partial(ours, kind=kind),
                    numpy=lambda a: lambda: a.x @ a.weight.T,
                    torch=lambda t, a: t.call(t.F.linear, a.x, a.weight),
                    others={"llama": ours.__name__},
                    goal="one row of blocks" if m == 1 and ours is in_rows else goal,
                    moved=x.nbytes + blocks.nbytes + y.nbytes,
                    flops=2 * m * n * k,
                    rate="int8 dot",
                    tolerance=4e-2,
                    note="NumPy and torch: the decoded weight; llama.cpp: x and y in f32",
                )
