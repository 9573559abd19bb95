# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, normal

SIZES = [(1, 49152), (16, 128256)]
TOP_K, TOP_P = 50, 0.9


def plain(logits: np.ndarray, random: np.ndarray) -> np.ndarray:
    """Temperature 1, top_k by partition, top_p by a sort of the k that are left."""
    best = np.argpartition(-logits, TOP_K, axis=-1)[:, :TOP_K]
    ids = []
    for row, candidates, u in zip(logits, best, random, strict=True):
        order = candidates[np.argsort(-row[candidates], kind="stable")]
        w = np.exp(row[order] - row[order[0]], dtype=np.float64)
        kept = np.sort(order[(np.cumsum(w) - w) < TOP_P * w.sum()])
        run = np.cumsum(np.exp(row[kept] - row[order[0]], dtype=np.float64))
        ids.append(kept[np.searchsorted(run, u * run[-1], side="right")])
    return np.array(ids)


def of_torch(t: TorchSide, a: Any) -> Any:
    """The same by torch.topk; ids are sorted so that the same number draws the same token."""

    def draw(logits: Any, random: Any) -> Any:
        best, order = logits.topk(TOP_K, -1)
        w = (best - best[:, :1]).double().exp()
        w = w * ((w.cumsum(-1) - w) < TOP_P * w.sum(-1, keepdim=True))
        order, by = order.sort(-1)
        run = w.gather(-1, by).cumsum(-1)
        at = t.torch.searchsorted(run, random.double()[:, None] * run[:, -1:], right=True)
        return order.gather(-1, at)[:, 0]

    return t.call(draw, a.logits, a.random)


def cases() -> Iterator[Case]:
    for b, v in SIZES:
        logits = normal((b, v), scale=3)
        yield Case(
            f"f32{[b, v]} top_k {TOP_K}, top_p {TOP_P}",
            {
                "logits": logits,
                "random": np.random.default_rng(0).random(b, np.float32),
                "temperature": np.ones(b, np.float32),
                "top_k": np.full(b, TOP_K, np.int32),
                "top_p": np.full(b, TOP_P, np.float32),
            },
            ours=lambda a: partial(
                anyop.sample, a.logits, a.random, a.temperature, a.top_k, a.top_p
            ),
            numpy=lambda a: partial(plain, a.logits, a.random),
            torch=of_torch,
            moved=logits.nbytes,
            flops=10 * logits.size,
            tolerance=0,
        )
