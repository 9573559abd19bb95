# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import Case

SIZES = [(1, 49152), (16, 128256)]


def plain(logits: np.ndarray, random: np.ndarray, k: int, top_p: float) -> np.ndarray:
    """Temperature 1, top_k by partition, top_p by a sort of the k that are left."""
    best = np.argpartition(-logits, k, axis=-1)[:, :k]
    ids = []
    for row, candidates, u in zip(logits, best, random, strict=True):
        order = candidates[np.argsort(-row[candidates], kind="stable")]
        w = np.exp(row[order] - row[order[0]], dtype=np.float64)
        kept = np.sort(order[(np.cumsum(w) - w) < top_p * w.sum()])
        run = np.cumsum(np.exp(row[kept] - row[order[0]], dtype=np.float64))
        ids.append(kept[np.searchsorted(run, u * run[-1], side="right")])
    return np.array(ids)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for b, v in SIZES:
        logits = 3 * random.standard_normal((b, v), np.float32)
        u, one = random.random(b, np.float32), np.ones(b, np.float32)
        k, p = np.full(b, 50, np.int32), np.full(b, 0.9, np.float32)
        yield Case(
            f"f32{[b, v]} top_k 50, top_p 0.9",
            lambda a=(logits, u, one, k, p): anyop.sample(*a),
            lambda logits=logits, u=u: plain(logits, u, 50, 0.9),
            moved=logits.nbytes,
            flops=10 * logits.size,
            tolerance=0,
        )
