# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

# Tokens, channels, taps: of Mamba-2, Qwen3-Next and LFM2.
SIZES = [(512, 4352, 4), (2048, 4352, 4), (512, 2048, 3)]
STEPS = [(1, 4352, 4), (16, 4352, 4), (16, 8192, 4)]


def whole(t: TorchSide, x: Any, weight: Any) -> Any:
    taps = weight.shape[1]
    y = t.F.conv1d(t.F.pad(x.T[None], (taps - 1, 0)), weight[:, None], groups=len(weight))
    return t.F.silu(y)[0].T


def step(t: TorchSide, x: Any, weight: Any, state: Any) -> Any:
    window = t.torch.cat([state, x[:, None]], 1)
    state.copy_(window[:, 1:])
    return t.F.silu((window * weight.T).sum(1))


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for t, c, k in SIZES:
            x = normal((t, c), dtype)
            yield Case(
                f"{name}{[t, c]}, {k} taps",
                {
                    "x": x,
                    "weight": normal((c, k), dtype, 1),
                    "starts": np.array([0, t]),
                    "y": np.empty_like(x),
                },
                ours=lambda a: partial(
                    anyop.causal_conv1d,
                    a.x,
                    a.weight,
                    None,
                    None,
                    a.starts,
                    activation="silu",
                    out=a.y,
                ),
                torch=lambda s, a: s.call(partial(whole, s), a.x, a.weight),
                moved=2 * x.nbytes,
                flops=2 * k * x.size,
            )
        for b, c, k in STEPS:
            x = normal((b, c), dtype)
            yield Case(
                f"update, {name}{[b, c]}, {k} taps",
                {
                    "x": x,
                    "weight": normal((c, k), dtype, 1),
                    "state": normal((b, k - 1, c), dtype, 2),
                    "y": np.empty_like(x),
                },
                ours=lambda a: partial(
                    anyop.causal_conv1d_update,
                    a.x,
                    a.weight,
                    None,
                    a.state,
                    activation="silu",
                    out=a.y,
                ),
                torch=lambda s, a: s.call(partial(step, s), a.x, a.weight, a.state),
                moved=(2 + k + 2 * (k - 1)) * x.nbytes,
                flops=2 * k * x.size,
            )
