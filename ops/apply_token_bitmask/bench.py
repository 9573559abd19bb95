# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, each_dtype, normal

SIZES = [(1, 49152), (16, 128256)]


def plain(a: Any) -> Any:
    """Bits of little-endian words, low bit first, are bytes of bits in the same order."""
    v = a.logits.shape[1]

    def mask() -> None:
        allowed = np.unpackbits(a.bitmask.view(np.uint8), axis=1, count=v, bitorder="little")
        a.logits[allowed == 0] = -np.inf

    return mask


def of_torch(t: TorchSide, a: Any) -> Any:
    def mask(logits: Any, bitmask: Any) -> None:
        bits = bitmask[..., None] >> t.torch.arange(32, dtype=t.torch.int32) & 1
        logits.masked_fill_(bits.flatten(1)[:, : logits.shape[1]] == 0, -float("inf"))

    return t.call(mask, a.logits, a.bitmask)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for name, dtype in each_dtype():
        for n, v in SIZES:
            logits = normal((n, v), dtype)
            words = -(-v // 32)
            yield Case(
                f"{name}{[n, v]}",
                {
                    "logits": logits,
                    "bitmask": random.integers(-(2**31), 2**31, (n, words)).astype(np.int32),
                },
                ours=lambda a: partial(anyop.apply_token_bitmask, a.logits, a.bitmask),
                numpy=plain,
                torch=of_torch,
                moved=2 * logits.nbytes,
                tolerance=0,
                result=lambda a: a.logits == -np.inf,
                widen=False,
            )
