# SPDX-License-Identifier: Apache-2.0
"""Operators of networks: products of matrices, normalisations, softmax, convolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anyop.torch.graph_engine.node import Limits, Node, Run


def _turned(x: Tensor, is_turned: bool) -> Tensor:
    return x.transpose(-1, -2) if is_turned else x


def _product(n: Node) -> Tensor:
    x = _turned(n["x1"], n.attribute("transpose_x1", n.attribute("adj_x1", False)))
    y = torch.matmul(x, _turned(n["x2"], n.attribute("transpose_x2", n.attribute("adj_x2", False))))
    bias = n.get("bias")
    return y if bias is None else y + bias


def _softmax(n: Node) -> Tensor:
    (axis,) = n.attribute("axes", [-1])
    x = n["x"]
    return torch.softmax(x.float() if n.attribute("half_to_float", False) else x, axis)


def _log_softmax(n: Node) -> Tensor:
    (axis,) = n.attribute("axes", [-1])
    return torch.log_softmax(n["logits"], axis)


def _layer_norm(n: Node) -> tuple[Tensor, ...]:
    shape, epsilon = n.ints("normalized_shape"), n.attribute("epsilon", 1e-5)
    return torch.native_layer_norm(n["x"], shape, n.get("gamma"), n.get("beta"), epsilon)


def _rms_norm(n: Node) -> tuple[Tensor, Tensor]:
    return _normed(n["x"], n)


def _normed(x: Tensor, n: Node) -> tuple[Tensor, Tensor]:
    gamma, wide = n["gamma"], x.float()
    axes = list(range(x.dim() - gamma.dim(), x.dim()))
    scale = torch.rsqrt(wide.square().mean(axes, keepdim=True) + n.attribute("epsilon", 1e-6))
    return (wide * scale * gamma.float()).to(x.dtype), scale


def _add_rms_norm(n: Node) -> tuple[Tensor, Tensor, Tensor]:
    x = n["x1"] + n["x2"]
    y, scale = _normed(x, n)
    return y, scale, x


def _swiglu(n: Node) -> Tensor:
    x, gate = n["x"].chunk(2, n.attribute("dim", -1))
    return F.silu(x) * gate


def _convolution(n: Node) -> Tensor:
    top, bottom, left, right = n.attribute("pads")
    strides, dilations = n.attribute("strides")[2:], n.attribute("dilations", [1] * 4)[2:]
    x = F.pad(n["x"], (left, right, top, bottom))
    how = (strides, 0, dilations, n.attribute("groups", 1))
    return F.conv2d(x, n["filter"], n.get("bias"), *how)


OPERATORS: dict[str, Run] = {
    "AddRmsNorm": _add_rms_norm,
    "BatchMatMul": _product,
    "BatchMatMulV2": _product,
    "Conv2D": _convolution,
    "LayerNormV4": _layer_norm,
    "LogSoftmaxV2": _log_softmax,
    "MatMul": _product,
    "MatMulV2": _product,
    "RmsNorm": _rms_norm,
    "SoftmaxV2": _softmax,
    "SwiGlu": _swiglu,
}
LIMITS: Limits = {"Conv2D": {"data_format": ("NCHW",), "offset_x": (0,)}}
