# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import anyop
import numpy as np
from opbench import BF16, Case

SIZES = [(1, 49152), (16, 128256)]


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for shape in SIZES:
        wide = random.standard_normal(shape, np.float32)
        for dtype, name in ((np.dtype(np.float32), "f32"), (BF16, "bf16")):
            x = wide.astype(dtype)
            twin = x.astype(np.float32)
            yield Case(
                f"{name}{list(shape)}",
                lambda x=x: anyop.argmax(x),
                lambda twin=twin: twin.argmax(-1),
                moved=x.nbytes,
                tolerance=0,
            )
