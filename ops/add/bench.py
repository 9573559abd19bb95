# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import anyop
import numpy as np
from anyop.bench import Case, each_dtype, normal

SIZES = [(1, 576), (16, 576), (512, 576), (2048, 4096)]


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in SIZES:
            x, y = normal(shape, dtype, 0), normal(shape, dtype, 1)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": y, "z": np.empty_like(x)},
                ours=lambda a: partial(anyop.add, a.x, a.y, out=a.z),
                numpy=lambda a: partial(np.add, a.x, a.y, out=a.z),
                torch=lambda t, a: t.call(t.torch.add, a.x, a.y),
                goal="movement",
                moved=3 * x.nbytes,
                flops=x.size,
            )
