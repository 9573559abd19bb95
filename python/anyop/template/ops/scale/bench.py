# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial

import my_ops
import numpy as np
from anyop.bench import Case, each_dtype, normal


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape in ((1, 4096), (512, 4096)):
            x = normal(shape, dtype)
            yield Case(
                f"{name}{list(shape)}",
                {"x": x, "y": np.empty_like(x)},
                ours=lambda a: partial(my_ops.scale, a.x, 3.0, out=a.y),
                numpy=lambda a: partial(np.multiply, a.x, np.float32(3), out=a.y),
                torch=lambda t, a: t.call(lambda v: v * 3, a.x),
                moved=2 * x.nbytes,
                flops=x.size,
            )
