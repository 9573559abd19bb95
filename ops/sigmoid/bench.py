# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

SIZES = [(16, 4096), (2048, 256)]


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a: partial(anyop.sigmoid, a.x, out=a.y),
                numpy=lambda a: lambda: 1 / (1 + np.exp(-a.x)),
                torch=lambda t, a: t.call(t.torch.sigmoid, a.x),
                moved=2 * x.nbytes,
                flops=12 * x.size,
            )
