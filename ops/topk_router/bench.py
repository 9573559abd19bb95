# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import F32, Case, TorchSide, normal

QWEN = [(1, 128), (16, 128), (2048, 128)]
DEEPSEEK = [(1, 256), (16, 256), (512, 256)]
TOP = 8


def results(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    return np.empty((shape[0], TOP), F32), np.empty((shape[0], TOP), np.int32)


def first(call: Any) -> Any:
    return lambda: call()[0]


def softmax(t: TorchSide, x: Any) -> Any:
    weights, ids = t.torch.softmax(x, -1).topk(TOP, -1)
    return weights / weights.sum(-1, keepdim=True), ids


def grouped(t: TorchSide, x: Any, bias: Any) -> Any:
    p = t.torch.sigmoid(x)
    c = (p + bias).view(len(x), 8, -1)
    best = c.topk(2, -1).values.sum(-1).topk(4, -1).indices
    kept = t.torch.zeros(c.shape[:2], dtype=t.torch.bool).scatter_(1, best, True)
    ids = c.masked_fill(~kept[..., None], -t.torch.inf).flatten(1).topk(TOP, -1).indices
    weights = p.gather(1, ids)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * 2.5, ids


def cases() -> Iterator[Case]:
    for shape in QWEN:
        yield Case(
            f"softmax, top {TOP}, f32{list(shape)}",
            {"x": normal(shape, F32), "out": results(shape)},
            ours=lambda a: partial(anyop.topk_router, a.x, TOP, "softmax", True, out=a.out),
            torch=lambda t, a: first(t.call(partial(softmax, t), a.x)),
            goal="experts",
            moved=4 * shape[0] * shape[1],
            flops=20 * shape[0] * shape[1],
        )
    for shape in DEEPSEEK:
        yield Case(
            f"sigmoid, 4 of 8 groups, top {TOP}, f32{list(shape)}",
            {
                "x": normal(shape, F32),
                "bias": normal((shape[1],), F32, 1, 1 / 16),
                "out": results(shape),
            },
            ours=lambda a: partial(
                anyop.topk_router, a.x, TOP, "sigmoid", True, a.bias, 8, 4, 0, 2.5, out=a.out
            ),
            torch=lambda t, a: first(t.call(partial(grouped, t), a.x, a.bias)),
            goal="experts",
            moved=4 * shape[0] * shape[1],
            flops=20 * shape[0] * shape[1],
        )
