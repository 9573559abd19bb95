# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

# Sequences of one new token, keys of each. The rest is one of eight ranks of DeepSeek-V3.2.
SIZES = [(1, 4096), (4, 4096)]
HIDDEN, Q_RANK, HEADS, NOPE, LATENT, ROPE = 7168, 1536, 16, 128, 512, 64
INDEX_HEADS, INDEX_WIDTH, TOP, BLOCK, EPS = 8, 128, 2048, 64, 1e-6
SCALE = (NOPE + ROPE) ** -0.5
WEIGHTS = {
    "w_q_a": (Q_RANK, HIDDEN),
    "q_norm": (Q_RANK,),
    "w_q_b": (HEADS * (NOPE + ROPE), Q_RANK),
    "w_kv_a": (LATENT + ROPE, HIDDEN),
    "kv_norm": (LATENT,),
    "w_uk": (HEADS, NOPE, LATENT),
    "w_iq": (INDEX_HEADS * INDEX_WIDTH, Q_RANK),
    "w_ik": (INDEX_WIDTH, HIDDEN),
    "ik_weight": (INDEX_WIDTH,),
    "ik_bias": (INDEX_WIDTH,),
    "w_iw": (INDEX_HEADS, HIDDEN),
}


def of_torch(t: TorchSide, a: Any) -> Any:
    """Slots and the rows of each sequence's keys are known beforehand."""
    linear = t.F.linear

    def rotated(z: Any, angles: Any, pairs_are_next: bool) -> Any:
        cos, sin = angles[:, None, : ROPE // 2], angles[:, None, ROPE // 2 :]
        if pairs_are_next:
            p, q = z.unflatten(-1, (-1, 2)).unbind(-1)
            return t.torch.stack([p * cos - q * sin, q * cos + p * sin], -1).flatten(-2)
        p, q = z.chunk(2, -1)
        return t.torch.cat([p * cos - q * sin, q * cos + p * sin], -1)

    def run(x: Any, angles: Any, slots: Any, rows: Any, w: Any, caches: Any) -> Any:
        w = dict(zip(WEIGHTS, w, strict=True))
        kv_cache, rope_cache, index_cache = (c.flatten(0, 1) for c in caches)
        low = t.F.rms_norm(linear(x, w["w_q_a"]), (Q_RANK,), w["q_norm"], EPS)
        q = linear(low, w["w_q_b"]).unflatten(-1, (HEADS, -1))
        q_rope = rotated(q[..., NOPE:], angles, True)
        q_latent = t.torch.einsum("thn,hnc->thc", q[..., :NOPE], w["w_uk"])
        kv = linear(x, w["w_kv_a"])
        kv_cache[slots] = t.F.rms_norm(kv[:, :LATENT], (LATENT,), w["kv_norm"], EPS)
        rope_cache[slots] = rotated(kv[:, None, LATENT:], angles, True)[:, 0]
        key = t.F.layer_norm(
            linear(x, w["w_ik"]), (INDEX_WIDTH,), w["ik_weight"], w["ik_bias"], EPS
        )
        query = linear(low, w["w_iq"]).unflatten(-1, (INDEX_HEADS, -1))
        both = t.torch.cat([query, key[:, None]], 1)
        both = t.torch.cat([rotated(both[..., :ROPE], angles, False), both[..., ROPE:]], -1)
        index_cache[slots] = both[:, -1]
        dots = t.torch.relu(both[:, :-1] @ index_cache[rows].transpose(-1, -2))
        scores = (linear(x, w["w_iw"])[:, None] @ dots)[:, 0]
        chosen = rows.gather(1, t.torch.topk(scores, TOP, sorted=False).indices)
        latents = kv_cache[chosen][:, None]
        keys = t.torch.cat([latents, rope_cache[chosen][:, None]], -1)
        query = t.torch.cat([q_latent, q_rope], -1)[:, :, None]
        y = t.F.scaled_dot_product_attention(query, keys, latents, scale=SCALE, enable_gqa=True)
        return y[:, :, 0]

    return t.call(run, a.x, a.angles, a.slots, a.rows, a.weights, a.caches)


def cases() -> Iterator[Case]:
    for b, length in SIZES:
        blocks = b * length // BLOCK
        table = np.random.default_rng(0).permutation(blocks).astype(np.int32).reshape(b, -1)
        rows = (table[..., None].astype(np.int64) * BLOCK + np.arange(BLOCK)).reshape(b, -1)
        positions = np.full(b, length - 1)
        cos_sin = anyop.rotary_cache(length, ROPE)
        for name, dtype in each_dtype():
            weights = [
                normal(shape, dtype, i, scale=1.0 if len(shape) == 1 else shape[-1] ** -0.5)
                for i, shape in enumerate(WEIGHTS.values())
            ]
            caches = [
                normal((blocks, BLOCK, width), dtype, 20 + width)
                for width in (LATENT, ROPE, INDEX_WIDTH)
            ]
            read = sum(w.nbytes for w in weights) + b * caches[0].itemsize * (
                length * INDEX_WIDTH + TOP * (LATENT + ROPE)
            )
            yield Case(
                f"{name} b {b}, {TOP} of {length} keys",
                {
                    "x": normal((b, HIDDEN), dtype, 11),
                    "positions": positions,
                    "slots": rows[:, -1].copy(),
                    "table": table,
                    "lengths": np.full(b, length, np.int32),
                    "starts": np.arange(b + 1, dtype=np.int32),
                    "cos_sin": cos_sin.astype(dtype),
                    "angles": cos_sin[positions].astype(dtype),
                    "rows": rows,
                    "weights": weights,
                    "caches": caches,
                    "out": np.empty((b, HEADS, LATENT), dtype),
                },
                ours=lambda a: partial(
                    anyop.sparse_mla_decode_step,
                    a.x,
                    a.positions,
                    a.slots,
                    a.table,
                    a.lengths,
                    a.starts,
                    a.cos_sin,
                    *a.weights,
                    *a.caches,
                    TOP,
                    SCALE,
                    out=a.out,
                ),
                torch=of_torch,
                moved=read,
                flops=2 * sum(w.size for w in weights) * b,
                tolerance=1e-1,  # scores that are nearly equal are chosen otherwise
                note="torch gets the rows of keys beforehand, and rotates in the dtype of x",
            )
