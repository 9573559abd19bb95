# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

LATENT, ROTATED, BLOCK = 512, 64, 128  # of DeepSeek-V3.2
TOKENS = [1, 16, 2048]


def of_torch(t: TorchSide, a: Any) -> Any:
    torch = t.torch

    def store(
        kv: Any, weight: Any, cos: Any, sin: Any, index: Any, keys: Any, latents: Any
    ) -> None:
        latent = t.F.rms_norm(kv[:, :LATENT], (LATENT,), weight, 1e-5)
        pair = kv[:, LATENT:].unflatten(-1, (-1, 2))
        p, q = pair[..., 0], pair[..., 1]
        key = torch.cat([p, q], -1) * cos + torch.cat([-q, p], -1) * sin
        keys.index_copy_(0, index, key)
        latents.index_copy_(0, index, latent)

    caches = [c.view(-1, c.shape[-1]) for c in (a.keys, a.latents)]
    return t.call(store, a.kv, a.weight, a.cos, a.sin, a.index, *caches)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for t in TOKENS:
            kv = normal((t, LATENT + ROTATED), dtype)
            blocks = -(-2 * t // BLOCK)
            yield Case(
                f"{name} {[t, LATENT + ROTATED]}",
                {
                    "kv": kv,
                    "weight": normal((LATENT,), dtype, 1),
                    "cos": normal((t, ROTATED), dtype, 2),
                    "sin": normal((t, ROTATED), dtype, 3),
                    "index": np.random.default_rng(0).permutation(blocks * BLOCK)[:t],
                    "keys": np.zeros((blocks, BLOCK, ROTATED), dtype),
                    "latents": np.zeros((blocks, BLOCK, LATENT), dtype),
                },
                ours=lambda a: partial(
                    anyop.kv_rmsnorm_rope_cache,
                    a.kv,
                    a.weight,
                    a.cos,
                    a.sin,
                    a.index,
                    a.keys,
                    a.latents,
                ),
                torch=of_torch,
                moved=2 * kv.nbytes,
                flops=7 * kv.size,
                tolerance=3e-2,
                result=lambda a: a.latents,
            )
