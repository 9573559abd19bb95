# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal

SIZES = [(2, 2048, 16, 128), (8, 16, 32, 128), (4, 64, 16, 512)]  # parts, t, h, d


def of_numpy(a: Any) -> Any:
    def run() -> Any:
        lses = np.stack(a.lses)
        weights = np.exp(lses - lses.max(0))
        weights = (weights / weights.sum(0)).transpose(0, 2, 1)[..., None]
        return (np.stack(a.outs) * weights).sum(0)

    return run


def of_torch(t: TorchSide, a: Any) -> Any:
    n = len(a.outs)

    def run(*tensors: Any) -> Any:
        outs, lses = t.torch.stack(tensors[:n]), t.torch.stack(tensors[n:])
        lse = t.torch.logsumexp(lses, 0)
        weights = t.torch.exp(lses - lse).permute(0, 2, 1).unsqueeze(-1)
        return (outs.float() * weights).sum(0).to(outs.dtype), lse

    call = t.call(run, *a.outs, *a.lses)
    return lambda: call()[0]


def cases() -> Iterator[Case]:
    for parts, tokens, heads, d in SIZES:
        for name, dtype in each_dtype():
            outs = [normal((tokens, heads, d), dtype, i) for i in range(parts)]
            yield Case(
                f"{name}, {parts} parts {[tokens, heads, d]}",
                {
                    "outs": outs,
                    "lses": [normal((heads, tokens), F32, 9 + i) for i in range(parts)],
                    "out": (np.empty_like(outs[0]), np.empty((heads, tokens), F32)),
                },
                ours=lambda a: partial(anyop.merge_attention_states, a.outs, a.lses, out=a.out),
                numpy=of_numpy,
                torch=of_torch,
                moved=(parts + 1) * outs[0].nbytes,
                flops=3 * parts * outs[0].size,
                tolerance=2e-2,
            )
