# SPDX-License-Identifier: Apache-2.0
"""Programs of torch, and what the backend makes of their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import torch
import torch.nn.functional as F

Program = Callable[..., Any]

aten = torch.ops.aten


def floats(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return made.to(dtype)


X, Y, ROW, MATRIX = floats(3, 8), floats(3, 8, seed=1), floats(8), floats(5, 8)
WIDE, BATCH = X.double(), floats(2, 3, 8)
IDS = torch.tensor([[0, 4], [2, 2]])
HEADS = [floats(2, 4, 6, 8, seed=i) for i in range(3)]
IMAGES, FILTERS = floats(2, 4, 9, 7), floats(6, 2, 3, 3)
H, B16 = torch.float16, torch.bfloat16


def embed(ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.embedding(ids, weight, padding_idx=2)


# (name, program, arguments, an operator of the program that must be anyop's)
CONVERTED: list[tuple[str, Program, tuple[Any, ...], str]] = [
    ("add", lambda x, y: x + y, (X, Y), "aten.add.Tensor"),
    ("add_row", lambda x, y: x + y, (BATCH, ROW), "aten.add.Tensor"),
    ("add_row_first", lambda x, y: y + x, (BATCH, ROW), "aten.add.Tensor"),
    ("add_ones", lambda x, y: x[None] + y[:, None, :][:, 0], (X, Y), "aten.add.Tensor"),
    ("add_number", lambda x: x + 0.1, (X,), "aten.add.Tensor"),
    ("add_whole", lambda x: x + 3, (torch.arange(6),), "aten.add.Tensor"),
    ("add_bf16", lambda x, y: x + y, (X.to(B16), Y.to(B16)), "aten.add.Tensor"),
    ("add_scalars", lambda x, y: x[0, 0] + y[0, 0], (X, Y), "aten.add.Tensor"),
    ("mul", lambda x, y: x * y, (X, Y), "aten.mul.Tensor"),
    ("mul_f16", lambda x, y: x * y, (X.to(H), Y.to(H)), "aten.mul.Tensor"),
    ("mul_row_of_matrix", lambda x, y: x * y, (X, ROW[None]), "aten.mul.Tensor"),
    ("mul_number", lambda x: x * 0.3, (X,), "aten.mul.Tensor"),
    ("sub", lambda x, y: x - y, (X, Y), "aten.sub.Tensor"),
    ("neg", lambda x: -x, (X.to(B16),), "aten.neg.default"),
    ("silu", F.silu, (X * 9,), "aten.silu.default"),
    ("silu_bf16", F.silu, (X.to(B16),), "aten.silu.default"),
    ("silu_of_a_number", lambda x: F.silu(x[0, 0]), (X,), "aten.silu.default"),
    ("sigmoid", torch.sigmoid, (X * 9,), "aten.sigmoid.default"),
    ("softmax", lambda x: torch.softmax(x, -1), (X,), "aten._softmax.default"),
    ("softmax_bf16", lambda x: torch.softmax(x, 1), (X.to(B16),), "aten._softmax.default"),
    ("embedding", embed, (IDS, MATRIX), "aten.embedding.default"),
    ("mm", torch.mm, (X, floats(8, 5)), "aten.mm.default"),
    ("mm_transposed", lambda x, w: x @ w.t(), (X, MATRIX), "aten.mm.default"),
    ("mm_of_transposed", lambda x, y: x.t() @ y, (X, Y), "aten.mm.default"),
    ("mm_both", lambda x, y: x.t() @ y.t(), (floats(8, 3), floats(5, 8)), "aten.mm.default"),
    ("linear", F.linear, (BATCH, MATRIX), "aten.mm.default"),
    ("linear_bias", F.linear, (X, MATRIX, floats(5)), "aten.addmm.default"),
    ("linear_bf16", F.linear, (X.to(B16), MATRIX.to(B16), floats(5, dtype=B16)),
     "aten.addmm.default"),
    ("addmm", torch.addmm, (floats(5), X, floats(8, 5)), "aten.addmm.default"),
    ("bmm", torch.bmm, (BATCH, floats(2, 8, 4)), "aten.bmm.default"),
    ("bmm_nt", lambda x, y: x @ y.mT, (BATCH, floats(2, 5, 8)), "aten.bmm.default"),
    ("bmm_tn", lambda x, y: x.mT @ y, (BATCH, floats(2, 3, 4)), "aten.bmm.default"),
    ("to_bf16", lambda x: x.to(B16), (X,), "aten._to_copy.default"),
    ("to_f64", lambda x: x.double(), (X.to(H),), "aten._to_copy.default"),
    ("to_f32_of_mask", lambda x: (x > 0).float(), (X,), "aten._to_copy.default"),
    ("copy", lambda x, y: torch.ops.aten.copy(x, y), (X, Y), "aten.copy.default"),
    ("copy_cast", lambda x, y: torch.ops.aten.copy(x.to(B16), y.t()), (X, floats(*X.t().shape)),
     "aten.copy.default"),
    ("clone_transposed", lambda x: x.t().contiguous(), (X,), "aten.clone.default"),
    ("rms_norm", lambda x, w: F.rms_norm(x, (8,), w, 1e-5), (X, ROW), "anyop.rms_norm.default"),
    ("rms_norm_bare", lambda x: F.rms_norm(x, (8,), None, 1e-5), (BATCH,),
     "anyop.rms_norm.default"),
    ("rms_norm_bf16", lambda x, w: F.rms_norm(x, (8,), w, 1e-5), (X.to(B16), ROW.to(B16)),
     "anyop.rms_norm.default"),
    ("attention", F.scaled_dot_product_attention, tuple(HEADS),
     "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("attention_causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
     tuple(HEADS), "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("attention_scale",
     lambda q, k, v: F.scaled_dot_product_attention(q[:, :, :2], k, v, scale=0.3),
     tuple(HEADS), "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("attention_grouped",
     lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
     tuple(HEADS), "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("conv1d", lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1),
     (floats(2, 3, 9), floats(4, 3, 3), floats(4)), "aten.convolution.default"),
    ("conv2d", lambda x, w: F.conv2d(x, w, None, (2, 1), (0, 2), (1, 2), groups=2),
     (IMAGES, FILTERS), "aten.convolution.default"),
    ("conv2d_same", lambda x, w: F.conv2d(x.to(B16), w.to(B16), padding="same", groups=2),
     (IMAGES, FILTERS), "aten.convolution.default"),
    ("conv3d", lambda x, w: F.conv3d(x, w, stride=2),
     (floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 2)), "aten.convolution.default"),
    ("conv1d_gradient", lambda dy, x, w: torch.ops.aten.convolution_backward(
        dy, x, w, [4], [2], [1], [1], False, [0], 1, [True, True, True]),
     (floats(2, 4, 5), floats(2, 3, 9), floats(4, 3, 3)), "aten.convolution_backward.default"),
    ("conv3d_gradient_of_weight", lambda dy, x, w: torch.ops.aten.convolution_backward(
        dy, x, w, None, [2, 2, 2], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1,
        [False, True, False])[1],
     (floats(1, 3, 2, 2, 3), floats(1, 2, 4, 5, 6), floats(3, 2, 2, 2, 2)),
     "aten.convolution_backward.default"),
]  # fmt: skip


def hugging_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As transformers writes it."""
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


for _dtype in (torch.float32, B16):
    CONVERTED.append(("hugging_norm", hugging_norm, (X.to(_dtype), ROW.to(_dtype)),
                      "anyop.rms_norm.default"))  # fmt: skip

CONVERTED += [
    (f"cat_to_nothing_{operator.removesuffix('.default').partition('.')[2]}",
     lambda x: torch.cat([torch.tensor([]), x], -2), (X,), operator)
    for operator in ("aten.cat.default", "aten.lift_fresh_copy.default")
]  # fmt: skip

# What must stay with torch: (name, program, arguments, operator)
HOST: list[tuple[str, Program, tuple[Any, ...], str]] = [
    ("copy_repeated", lambda x, y: torch.ops.aten.copy(x, y[:1]), (X, Y), "aten.copy.default"),
    ("add_alpha", lambda x, y: torch.add(x, y, alpha=2), (X, Y), "aten.add.Tensor"),
    ("add_mixed", lambda x, y: x + y, (X, Y.to(B16)), "aten.add.Tensor"),
    ("add_f64", lambda x: x + x, (WIDE,), "aten.add.Tensor"),
    ("add_column", lambda x: x + x[:, :1], (X,), "aten.add.Tensor"),
    ("add_outer", lambda x, y: x[:, None] + y[None], (ROW, ROW), "aten.add.Tensor"),
    ("mul_number_bf16", lambda x: x * 0.3, (X.to(B16),), "aten.mul.Tensor"),
    ("mul_float_of_whole", lambda x: x * 0.5, (torch.arange(6),), "aten.mul.Tensor"),
    ("softmax_first", lambda x: torch.softmax(x, 0), (X,), "aten._softmax.default"),
    ("softmax_f64", lambda x: torch.softmax(x, 1), (WIDE,), "aten._softmax.default"),
    ("argmax", lambda x: x.argmax(-1), (X,), "aten.argmax.default"),
    ("to_whole", lambda x: x.to(torch.int32), (X * 3,), "aten._to_copy.default"),
    ("whole_to_bf16", lambda x: x.to(B16), (torch.arange(300),), "aten._to_copy.default"),
    ("addmm_beta", lambda b, x, y: torch.addmm(b, x, y, beta=2), (floats(5), X, floats(8, 5)),
     "aten.addmm.default"),
    ("attention_mask", F.scaled_dot_product_attention,
     (*HEADS, torch.ones(6, 6).tril().bool()),
     "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("attention_causal_wide",
     lambda q, k, v: F.scaled_dot_product_attention(q[:, :, :2], k, v, is_causal=True),
     tuple(HEADS), "aten._scaled_dot_product_flash_attention_for_cpu.default"),
    ("cat", lambda x, y: torch.cat([x, y], 1), (X, Y), "aten.cat.default"),
    ("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w.swapaxes(0, 1)),
     (IMAGES[:, :2], FILTERS), "aten.convolution.default"),
    ("conv2d_channels_last",
     lambda x, w: F.conv2d(x.to(memory_format=torch.channels_last), w, groups=2),
     (IMAGES, FILTERS), "aten.convolution.default"),
    ("topk", lambda x: x.topk(3).values, (X,), "aten.topk.default"),
    ("norm_of_columns", lambda x: x * torch.rsqrt(x.pow(2).mean(0, keepdim=True) + 1e-6), (X,),
     "aten.rsqrt.default"),
    ("norm_of_cubes", lambda x: x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6), (X,),
     "aten.rsqrt.default"),
    ("complex", lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 4, 2)) * 1j), (X,),
     "aten.mul.Tensor"),
]  # fmt: skip

VIEWS: list[tuple[str, Program]] = [
    ("view", lambda x: x.view(6, 4, 2)),
    ("reshape_copies", lambda x: x.transpose(0, 2).reshape(8, 6)),
    ("flatten", lambda x: x.flatten(1)),
    ("permute", lambda x: x.permute(2, 0, 1)),
    ("transpose", lambda x: x.transpose(-1, 0)),
    ("mT", lambda x: x.mT),
    ("unsqueeze", lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(-1)),
    ("squeeze", lambda x: x[:, :1].squeeze()),
    ("slice", lambda x: x[1:, :-1, 2:6]),
    ("slice_from_the_end", lambda x: x[:, -2:, -3:-1]),
    ("slice_too_far", lambda x: x[:, 1:99]),
    ("slice_step", lambda x: x[:, :, ::2]),
    ("select", lambda x: x[1, -1]),
    ("split", lambda x: torch.stack(x.split([3, 5], -1)[1].split(2, 2)[:2])),
    ("chunk", lambda x: x.chunk(3, 2)[2]),
    ("unbind", lambda x: x.unbind(1)[2]),
    ("expand_one", lambda x: x.expand(1, 2, 3, 8)),
    ("expand", lambda x: x[:, :1].expand(2, 3, 8)),
    ("diagonal", lambda x: x.diagonal(0, 1, 2)),
    ("as_strided", lambda x: (x * 1.0).as_strided((2, 4), (24, 2), 4)),
    ("windows", lambda x: (x * 1.0).as_strided((2, 5, 4), (24, 1, 1))),
]


def kinds(compiled: Any) -> dict[str, set[str]]:
    """How each operator runs."""
    found: dict[str, set[str]] = {}
    for row in anyop.torch.report(compiled):
        found.setdefault(row["operator"], set()).add(row["kind"])
    return found


def compiled_last() -> Any:
    """The program that torch.compile made last."""
    from anyop.torch._compile import backend

    return [p for ref in backend._programs if (p := ref()) is not None][-1]
