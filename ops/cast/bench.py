# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import DTYPES, Case, normal

PAIRS = [
    ("bf16", "f32", (512, 576)),
    ("f32", "bf16", (16, 49152)),
    ("f16", "f32", (4096, 4096)),
]
TORCH = {"f32": "float32", "bf16": "bfloat16"}


def cases() -> Iterator[Case]:
    for source, target, shape in PAIRS:
        x = normal(shape, DTYPES[source])
        to = DTYPES[target]
        y = np.empty(shape, to)
        yield Case(
            f"{source} to {target} {list(shape)}",
            {"x": x, "y": y},
            ours=lambda a, to=to: partial(anyop.cast, a.x, to, out=a.y),
            numpy=lambda a, to=to: partial(a.x.astype, to),
            torch=lambda t, a, name=TORCH[target]: t.call(
                lambda v: v.to(getattr(t.torch, name)), a.x
            ),
            moved=x.nbytes + y.nbytes,
            tolerance=0,
            widen=False,
        )
