# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# sequences of one token, keys, heads, width, how many are chosen
SIZES = [(1, 8192, 64, 128, 2048), (1, 32768, 64, 128, 2048), (4, 8192, 64, 128, 2048)]
BLOCK = 64


def gathered(a: Any) -> Any:
    """The keys of each sequence: [b, l, d]."""
    return a.keys[a.table].reshape(len(a.table), -1, a.keys.shape[-1])


def plain(a: Any) -> Any:
    keys, top = np.ascontiguousarray(gathered(a)), a.out[0].shape[1]

    def run() -> np.ndarray:
        dots = np.maximum(a.query @ keys.swapaxes(-1, -2), 0)
        scores = (a.weights[:, None] @ dots)[:, 0]
        return np.sort(np.argpartition(-scores, top - 1)[:, :top])

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    top = a.out[0].shape[1]

    def run(query: Any, weights: Any, keys: Any) -> Any:
        dots = t.torch.relu(query @ keys.transpose(-1, -2))
        scores = (weights[:, None].to(dots.dtype) @ dots)[:, 0]
        return t.torch.topk(scores, top, sorted=False).indices.sort().values

    return t.call(run, a.query, a.weights, gathered(a).contiguous())


def cases() -> Iterator[Case]:
    for b, length, h, d, top in SIZES:
        blocks = b * length // BLOCK
        table = np.random.default_rng(0).permutation(blocks).astype(np.int32).reshape(b, -1)
        for name, dtype in each_dtype():
            keys = normal((blocks, BLOCK, d), dtype, 1)
            yield Case(
                f"{name} b {b}, {top} of {length} keys, {h} heads of {d}",
                {
                    "query": normal((b, h, d), dtype, 0),
                    "weights": normal((b, h), np.dtype(np.float32), 2),
                    "keys": keys,
                    "table": table,
                    "lengths": np.full(b, length, np.int32),
                    "starts": np.arange(b + 1, dtype=np.int32),
                    "out": (np.empty((b, top), np.int32), np.empty(b, np.int32)),
                },
                ours=lambda a: partial(
                    anyop.lightning_indexer,
                    a.query,
                    a.weights,
                    a.keys,
                    a.table,
                    a.lengths,
                    a.starts,
                    top=a.out[0].shape[1],
                    out=a.out,
                ),
                numpy=plain,
                torch=of_torch,
                moved=keys.nbytes,
                flops=2 * h * d * length * b,
                rate=RATES[name],
                # Of two scores that bf16 makes equal either is chosen, which shifts the positions
                # between them by a place: one of a few in a thousand.
                tolerance=5e-2,
                note="NumPy and torch get keys gathered beforehand",
            )
