# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import Case, TorchSide, normal

SIZES = [(1, 49152, 512, 64), (16, 128256, 512, 256)]
REPETITION, FREQUENCY, PRESENCE = 1.1, 0.2, 0.1


def of_torch(t: TorchSide, a: Any) -> Any:
    """Counts by scatter, then the three penalties over the whole vocabulary."""

    def apply(logits: Any, prompt: Any, output: Any) -> None:
        ones = t.torch.ones_like(prompt, dtype=logits.dtype)
        in_prompt = t.torch.zeros_like(logits).scatter_add_(1, prompt, ones) > 0
        more = t.torch.ones_like(output, dtype=logits.dtype)
        counts = t.torch.zeros_like(logits).scatter_add_(1, output, more)
        seen = in_prompt | (counts > 0)
        scaled = t.torch.where(logits > 0, logits / REPETITION, logits * REPETITION)
        logits.copy_(t.torch.where(seen, scaled, logits))
        logits.sub_(FREQUENCY * counts + PRESENCE * (counts > 0))

    return t.call(apply, a.logits, a.prompt, a.output)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for b, v, p, o in SIZES:
        logits = normal((b, v))
        yield Case(
            f"f32{[b, v]}, {p} and {o} tokens",
            {
                "logits": logits,
                "prompt": random.integers(0, v, (b, p)),
                "output": random.integers(0, v, (b, o)),
                "repetition": np.full(b, REPETITION, np.float32),
                "frequency": np.full(b, FREQUENCY, np.float32),
                "presence": np.full(b, PRESENCE, np.float32),
            },
            ours=lambda a: partial(
                anyop.penalties, a.logits, a.prompt, a.output, a.repetition, a.frequency, a.presence
            ),
            torch=of_torch,
            moved=8 * b * (p + o),
            flops=4 * b * (p + o),
            result=lambda a: a.logits,
        )
