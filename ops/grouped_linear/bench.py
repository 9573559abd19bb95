# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import BF16, Case, TorchSide, normal

# Rows, k, n, groups in memory: an eighth of Qwen3-30B-A3B's experts.
SIZES = [(8, 2048, 1536, 16), (128, 2048, 1536, 16), (2048, 2048, 1536, 16)]


def packed(a: Any) -> partial[Any]:
    weight = np.asarray(anyop.pack_weight(a.weight))
    return partial(anyop.grouped_linear_packed, a.x, weight, a.weight.shape[1], a.offsets, out=a.y)


def plain(a: Any) -> partial[Any]:
    return partial(anyop.grouped_linear, a.x, a.weight, a.offsets, out=a.y)


def of_torch(t: TorchSide, a: Any) -> Any:
    """A product for each group that has rows."""
    ends = a.offsets.tolist()

    def run(x: Any, weight: Any) -> Any:
        groups = [
            t.F.linear(x[begin:end], weight[g])
            for g, (begin, end) in enumerate(zip(ends[:-1], ends[1:], strict=True))
            if end > begin
        ]
        return t.torch.cat(groups)

    return t.call(run, a.x, a.weight)


def cases() -> Iterator[Case]:
    for m, k, n, e in SIZES:
        x, weight = normal((m, k), BF16), normal((e, n, k), BF16, 1, k**-0.5)
        offsets = (np.arange(e + 1) * m // e).astype(np.int32)
        used = int((np.diff(offsets) > 0).sum())
        for name, ours in (("packed", packed), ("as they lie", plain)):
            yield Case(
                f"bf16 {[m, k]}x{[e, n, k]}, {name}",
                {"x": x, "weight": weight, "offsets": offsets, "y": np.empty((m, n), BF16)},
                ours=ours,
                torch=of_torch,
                moved=used * weight.nbytes // e + x.nbytes + 2 * m * n,
                flops=2 * m * n * k,
                rate="bf16 dot",
                tolerance=2e-2,
            )
