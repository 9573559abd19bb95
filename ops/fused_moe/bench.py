# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import BF16, F32, Case, TorchSide, normal

# Tokens, width, width of an expert, experts in memory, choices, what acts: of Qwen3-30B-A3B and
# gpt-oss-20b. Only so many experts are made as leave the caches.
QWEN = (2048, 768, 32, 8, "silu")
GPT_OSS = (2880, 2880, 8, 4, "swiglu")
SIZES = [(1, *QWEN), (8, *QWEN), (16, *QWEN), (512, *QWEN), (1, *GPT_OSS), (16, *GPT_OSS)]


def options(a: Any) -> tuple[Any, ...]:
    if a.activation == "silu":
        return ("silu",)
    return ("swiglu", 7.0, 1.702, 1.0, "interleaved")


def packed(a: Any) -> partial[Any]:
    w13, w2 = np.asarray(anyop.pack_weight(a.w13)), np.asarray(anyop.pack_weight(a.w2))
    return partial(
        anyop.fused_moe_packed,
        a.x, w13, w2, a.w2.shape[2], a.weights, a.ids, None, None, *options(a), out=a.y,
    )  # fmt: skip


def plain(a: Any) -> partial[Any]:
    return partial(
        anyop.fused_moe,
        a.x, a.w13, a.w2, a.weights, a.ids, None, None, *options(a), out=a.y,
    )  # fmt: skip


def gate(t: TorchSide, z: Any, activation: str) -> Any:
    if activation == "silu":
        g, u = z.chunk(2, -1)
        return t.F.silu(g) * u
    g, u = z[..., ::2].clamp(max=7.0), z[..., 1::2].clamp(-7.0, 7.0)
    return g * t.torch.sigmoid(1.702 * g) * (u + 1)


def of_torch(t: TorchSide, a: Any) -> Any:
    """An expert after the other over its tokens, as transformers and vLLM do without a kernel."""

    def run(x: Any, w13: Any, w2: Any, weights: Any, ids: Any) -> Any:
        y = t.torch.zeros_like(x)
        for g in ids.unique().tolist():
            token, choice = (ids == g).nonzero(as_tuple=True)
            o = t.F.linear(gate(t, t.F.linear(x[token], w13[g]), a.activation), w2[g])
            y.index_add_(0, token, o * weights[token, choice, None].to(x.dtype))
        return y

    return t.call(run, a.x, a.w13, a.w2, a.weights, a.ids)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for t, d, f, e, k, activation in SIZES:
        x = normal((t, d), BF16)
        w13, w2 = normal((e, 2 * f, d), BF16, 1, d**-0.5), normal((e, d, f), BF16, 2, f**-0.5)
        ids = np.argsort(random.random((t, e)), -1)[:, :k].astype(np.int32)
        weights = np.full((t, k), 1 / k, F32)
        used = len(np.unique(ids))
        for name, ours in (("packed", packed), ("as they lie", plain)):
            yield Case(
                f"bf16 {[t, d]}, {k} of {e} experts of {f}, {name}",
                {
                    "x": x,
                    "w13": w13,
                    "w2": w2,
                    "weights": weights,
                    "ids": ids,
                    "activation": activation,
                    "y": np.empty_like(x),
                },
                ours=ours,
                torch=of_torch,
                others={"vllm": "experts"},
                moved=used * (w13.nbytes + w2.nbytes) // e,
                flops=6 * t * k * d * f,
                rate="bf16 dot",
                tolerance=5e-2,
            )
