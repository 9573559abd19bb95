# SPDX-License-Identifier: Apache-2.0
"""Gradients of the functions that networks are made of."""

from __future__ import annotations

import torch
from torch import Tensor

from anyop.torch.graph_engine.node import Node, Run

_aten = torch.ops.aten
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _elu(n: Node) -> Tensor:
    scales = (n.attribute(name, 1.0) for name in ("alpha", "scale", "input_scale"))
    is_result = bool(n.attribute("is_result", False))
    y: Tensor = _aten.elu_backward(n["grads"], *scales, is_result, n["activations"])
    return y


def _glu(n: Node) -> Tensor:
    y: Tensor = _aten.glu_backward(n["y_grad"], n["x"], n.attribute("dim", -1))
    return y


def _hardtanh(n: Node) -> Tensor:
    low, high = n.attribute("min_val", -1.0), n.attribute("max_val", 1.0)
    y: Tensor = _aten.hardtanh_backward(n["grad"], n["result"], low, high)
    return y


def _layer_norm(n: Node) -> tuple[Tensor, ...]:
    gamma = n["gamma"]
    given = (n["dy"], n["x"], gamma.shape, n["mean"], n["rstd"], gamma, gamma)
    y: tuple[Tensor, ...] = _aten.native_layer_norm_backward(*given, [True] * 3)
    return y


def _leaky_relu(n: Node) -> Tensor:
    slope = n.attribute("negative_slope", 0.0)
    y: Tensor = _aten.leaky_relu_backward(n["gradients"], n["features"], slope, False)
    return y


def _of_softmax(n: Node) -> Tensor:
    (y, above), (axis,) = n.values, n.attribute("axes", [-1])
    assert y is not None
    dx: Tensor = _aten._softmax_backward_data(above, y, axis, y.dtype)
    return dx


def _log_softmax(n: Node) -> Tensor:
    y, (axis,) = n["x"], n.attribute("axis", [-1])
    dx: Tensor = _aten._log_softmax_backward_data(n["grad"], y, axis, y.dtype)
    return dx


def _mse_loss(n: Node) -> Tensor:
    how = _REDUCTIONS[n.attribute("reduction", "mean")]
    y: Tensor = _aten.mse_loss_backward(n["dout"], n["predict"], n["label"], how)
    return y


def _rms_norm(n: Node) -> tuple[Tensor, Tensor]:
    """The gradient of y = x s g, where the forward gave s, the reciprocal of the root mean square.

    In f32 for any dtype, as the forward computes (layers.py).
    """
    x, s, gamma = n["x"].float(), n["rstd"].float(), n["gamma"]
    axes = list(range(x.dim() - gamma.dim(), x.dim()))
    dy, above = n["dy"].float(), n["dy"].float() * gamma.float()
    dx = s * above - x * s**3 * (above * x).mean(axes, keepdim=True)
    return dx.to(n["x"].dtype), (dy * x * s).sum(list(range(x.dim() - gamma.dim())))


def _swiglu(n: Node) -> Tensor:
    """The gradient of silu(x) * gate, where x and gate are the two halves of one tensor."""
    axis, above = n.attribute("dim", -1), n["y_grad"]
    x, gate = n["x"].chunk(2, axis)
    s = torch.sigmoid(x)
    return torch.cat([above * gate * s * (1 + x * (1 - s)), above * x * s], axis)


OPERATORS: dict[str, Run] = {
    "EluGradV2": _elu,
    "GLUGrad": _glu,
    "GeluGrad": lambda n: _aten.gelu_backward(n["dy"], n["x"]),
    "HardSigmoidGrad": lambda n: _aten.hardsigmoid_backward(n["grads"], n["input_x"]),
    "HardSwishGrad": lambda n: _aten.hardswish_backward(n["grad"], n["x"]),
    "HardtanhGrad": _hardtanh,
    "LayerNormGradV3": _layer_norm,
    "LeakyReluGrad": _leaky_relu,
    "LogSigmoidGrad": lambda n: n["grads"] * torch.sigmoid(-n["features"]),
    "LogSoftmaxGrad": _log_softmax,
    "MseLossGrad": _mse_loss,
    "ReluGrad": lambda n: n["gradients"] * (n["features"] > 0),
    "RmsNormGrad": _rms_norm,
    "SigmoidGrad": lambda n: _aten.sigmoid_backward(n["dy"], n["y"]),
    "SoftmaxGrad": _of_softmax,
    "SwiGluGrad": _swiglu,
    "TanhGrad": lambda n: _aten.tanh_backward(n["dy"], n["y"]),
    "ThresholdGradV2D": lambda n: n["gradients"] * (n["features"] > n.attribute("threshold")),
}
