# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from functools import partial
from typing import Any

import anyop
import numpy as np
from anyop.bench import RATES, Case, TorchSide, each_dtype, normal

# Shapes of x and weight, stride, padding, groups: a patch of SigLIP's, Whisper's second layer, a
# layer of each channel alone, a layer of ResNet's and one that halves, Qwen2-VL's patches.
SIZES: list[tuple[tuple[int, ...], tuple[int, ...], list[int], list[int], int]] = [
    ((1, 3, 224, 224), (1152, 3, 14, 14), [14, 14], [0, 0], 1),
    ((1, 80, 1, 3000), (512, 80, 1, 3), [1, 1], [0, 1], 1),
    ((1, 256, 56, 56), (256, 1, 3, 3), [1, 1], [1, 1], 256),
    ((1, 64, 56, 56), (64, 64, 3, 3), [1, 1], [1, 1], 1),
    ((1, 128, 56, 56), (128, 128, 3, 3), [2, 2], [1, 1], 1),
    ((1024, 3, 2, 14, 14), (1280, 3, 2, 14, 14), [2, 14, 14], [0, 0, 0], 1),
]
PATCHES = [((1, 3, 224, 224), (1152, 3, 14, 14)), ((8, 3, 224, 224), (768, 3, 16, 16))]
# x, weight, stride, padding of the width.
CAUSAL = [
    ((1, 16, 8, 56), (16, 16, 3, 3), [1, 1], 1),
    ((1, 256, 16, 64), (256, 256, 3, 1), [1, 1], 0),
    ((1, 1, 3000, 80), (128, 1, 3, 3), [2, 2], 0),
]


def as_lists(shape: tuple[int, ...]) -> str:
    return str(list(shape)).replace(" ", "")


def tokens(t: TorchSide, x: Any, weight: Any) -> Any:
    return t.F.conv2d(x, weight, stride=weight.shape[2:]).flatten(2).transpose(1, 2)


def causal(t: TorchSide, stride: list[int], padding: int, x: Any, weight: Any) -> Any:
    top = weight.shape[2] - 1
    return t.F.conv2d(t.F.pad(x, (padding, padding, top, 0)), weight, stride=stride)


def case(title: str, x: Any, weight: Any, y: Any, name: str, ours: Any, torch: Any) -> Case:
    return Case(
        f"{title}{name} {as_lists(x.shape)}x{as_lists(weight.shape)}",
        {"x": x, "weight": weight, "y": y},
        ours=ours,
        torch=torch,
        moved=x.nbytes + weight.nbytes + y.nbytes,
        flops=2 * y.size * (weight.size // len(weight)),
        rate=RATES[name],
        tolerance=2e-2,
    )


def conv_cases() -> Iterator[Case]:
    for name, dtype in each_dtype():
        for shape, filters, stride, padding, groups in SIZES:
            x, weight = normal(shape, dtype, 0), normal(filters, dtype, 1, scale=0.05)
            kind = f"conv{len(stride)}d"
            op = getattr(anyop, kind)
            arguments = (None, stride, padding, [1] * len(stride), groups)
            yield case(
                f"{kind}, stride {as_lists(tuple(stride))}, groups {groups}, ",
                x,
                weight,
                np.empty(np.asarray(op(x, weight, *arguments)).shape, dtype),
                name,
                lambda a, op=op, arguments=arguments: partial(
                    op, a.x, a.weight, *arguments, out=a.y
                ),
                lambda t, a, kind=kind, arguments=arguments: t.call(
                    getattr(t.F, kind), a.x, a.weight, *arguments, weights=(a.weight,)
                ),
            )


def cases() -> Iterator[Case]:
    yield from conv_cases()
    for name, dtype in each_dtype():
        for shape, filters in PATCHES:
            x, weight = normal(shape, dtype, 0), normal(filters, dtype, 1, scale=0.05)
            yield case(
                "patch_embed, ",
                x,
                weight,
                np.empty(np.asarray(anyop.patch_embed(x, weight)).shape, dtype),
                name,
                lambda a: partial(anyop.patch_embed, a.x, a.weight, out=a.y),
                lambda t, a: t.call(partial(tokens, t), a.x, a.weight, weights=(a.weight,)),
            )
        for shape, filters, stride, padding in CAUSAL:
            x, weight = normal(shape, dtype, 0), normal(filters, dtype, 1, scale=0.05)
            y = np.asarray(anyop.causal_conv2d(x, weight, stride=stride, padding_w=padding))
            yield case(
                f"causal_conv2d, stride {as_lists(tuple(stride))}, ",
                x,
                weight,
                np.empty(y.shape, dtype),
                name,
                lambda a, stride=stride, padding=padding: partial(
                    anyop.causal_conv2d,
                    a.x,
                    a.weight,
                    stride=stride,
                    padding_w=padding,
                    out=a.y,
                ),
                lambda t, a, stride=stride, padding=padding: t.call(
                    partial(causal, t, stride, padding), a.x, a.weight, weights=(a.weight,)
                ),
            )
