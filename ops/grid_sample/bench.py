# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, each_dtype, normal

# An image [n, h, w, c] and the points of a grid: a vision encoder's position table, feature maps.
SIZES = [
    ((1, 24, 24, 1536), (1024, 1)),
    ((1, 24, 24, 1536), (4096, 1)),
    ((1, 64, 64, 256), (128, 128)),
    ((8, 32, 32, 64), (32, 32)),
]


def of_torch(t: TorchSide, x: Any, grid: Any) -> Any:
    """In f32: torch's coordinates have the image's dtype, and bf16 is too coarse for them."""
    image = x.permute(0, 3, 1, 2).float()
    y = t.F.grid_sample(image, grid, "bilinear", "border", align_corners=False)
    return y.permute(0, 2, 3, 1).to(x.dtype)


def cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape, (ho, wo) in SIZES:
            x, grid = normal(shape, dtype), normal((shape[0], ho, wo, 2), F32, 1, 0.5)
            y = np.empty((shape[0], ho, wo, shape[3]), dtype)
            yield Case(
                f"{name}{list(shape)} at {[ho, wo]}",
                {"x": x, "grid": grid, "y": y},
                ours=lambda a: partial(anyop.grid_sample, a.x, a.grid, out=a.y),
                torch=lambda t, a: t.call(partial(of_torch, t), a.x, a.grid),
                moved=5 * y.nbytes,
                flops=11 * y.size,
            )
