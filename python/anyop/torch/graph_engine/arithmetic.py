# SPDX-License-Identifier: Apache-2.0
"""Operators that work element by element, and sums, products and the like over dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from anyop.torch.graph_engine.node import TYPES, Limits, Node, Run

_OF_X: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Asin": torch.asin,
    "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh, "Ceil": torch.ceil,
    "Cos": torch.cos, "Cosh": torch.cosh, "Erf": torch.erf, "Erfc": torch.erfc,
    "Erfinv": torch.erfinv, "Expm1": torch.expm1, "Floor": torch.floor, "Gelu": F.gelu,
    "HardSwish": F.hardswish, "Invert": torch.bitwise_not, "IsInf": torch.isinf,
    "Log1p": torch.log1p, "LogSigmoid": F.logsigmoid, "LogicalNot": torch.logical_not,
    "Mish": F.mish, "Neg": torch.neg, "OnesLike": torch.ones_like,
    "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Relu6": F.relu6, "Rsqrt": torch.rsqrt,
    "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh,
    "Softplus": F.softplus, "Sqrt": torch.sqrt, "Square": torch.square, "Tan": torch.tan,
    "Tanh": torch.tanh, "Trunc": torch.trunc, "ZerosLike": torch.zeros_like,
}  # fmt: skip
_OF_BOTH: dict[str, Callable[..., Any]] = {
    "Add": torch.add, "AddV2": torch.add, "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor, "Equal": torch.eq,
    "FloorDiv": torch.floor_divide, "FloorMod": torch.remainder, "Greater": torch.gt,
    "GreaterEqual": torch.ge, "Less": torch.lt, "LessEqual": torch.le,
    "LogicalAnd": torch.logical_and, "LogicalOr": torch.logical_or, "Maximum": torch.maximum,
    "Minimum": torch.minimum, "Mul": torch.mul, "NotEqual": torch.ne, "Pow": torch.pow,
    "RealDiv": torch.true_divide, "Sub": torch.sub,
}  # fmt: skip


def _of_x(function: Callable[..., Any]) -> Run:
    return lambda n: function(n.values[0])


def _of_both(function: Callable[..., Any]) -> Run:
    return lambda n: function(n["x1"], n["x2"])


def _divided(n: Node) -> Tensor:
    x, y = n["x1"], n["x2"]
    mode = None if x.is_floating_point() or y.is_floating_point() else "trunc"
    return torch.div(x, y, rounding_mode=mode)


def _scaled(n: Node) -> Tensor:
    x, scale, shift = n["x"], n.attribute("scale", 1.0), n.attribute("shift", 0.0)
    return x if scale == 1 and shift == 0 else x * scale + shift


def _exp(n: Node) -> Tensor:
    x, base = _scaled(n), n.attribute("base", -1.0)
    return torch.exp(x if base <= 0 else x * math.log(base))


def _log(n: Node) -> Tensor:
    y, base = torch.log(_scaled(n)), n.attribute("base", -1.0)
    return y if base <= 0 else y / math.log(base)


def _swish(n: Node) -> Tensor:
    x, scale = n["x"], n.attribute("scale", 1.0)
    return F.silu(x) if scale == 1 else x * torch.sigmoid(x * scale)


def _elu(n: Node) -> Tensor:
    alpha, scale = n.attribute("alpha", 1.0), n.attribute("scale", 1.0)
    y: Tensor = torch.ops.aten.elu(n["x"], alpha, scale, n.attribute("input_scale", 1.0))
    return y


def _round(n: Node) -> Tensor:
    return torch.round(n["x"], decimals=n.attribute("decimals", 0))


def _cast(n: Node) -> Tensor:
    return n["x"].to(TYPES[n.attribute("dst_type")])


def _axes(n: Node, x: Tensor, attribute: str = "axes") -> list[int] | None:
    """The axes of a reduction; None where the node asks to leave its input alone without axes."""
    given = n.get("axes")
    axes = n.attribute(attribute) if given is None else n.ints("axes")
    if axes:
        return list(axes)
    return None if n.attribute("noop_with_empty_axes", False) else list(range(x.dim()))


def _reduced(function: Callable[..., Any]) -> Run:
    def run(n: Node) -> Tensor:
        x = n["x"]
        axes, keep = _axes(n, x), bool(n.attribute("keep_dims", False))
        if axes is None:
            return x
        y = function(x, axes, keep) if axes or x.dim() else x
        # Sums of integers are int64 to torch, but of their own type to the engine.
        return y.to(x.dtype) if y.dtype == torch.int64 else y

    return run


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of one dimension take several, one after the other."""

    def run(x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
        for axis in sorted((a % x.dim() for a in axes), reverse=True):
            x = function(x, axis, keepdim=keep)
        return x

    return run


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return x.mean(axes, keepdim=keep)


def _with_value(function: Callable[..., Any]) -> Run:
    def run(n: Node) -> tuple[Tensor, Tensor]:
        axis, keep = n.attribute("dimension", 0), n.attribute("keep_dims", False)
        values, places = function(n["x"], axis, keepdim=keep)
        # torch returns values first; the engine's operator has places first.
        return places.to(torch.int32), values

    return run


def _place_of(function: Callable[..., Tensor]) -> Run:
    def run(n: Node) -> Tensor:
        places = function(n["x"], n.number("dimension"))
        return places.to(TYPES.get(n.attribute("dtype", 3), torch.int32))

    return run


def _deviation(n: Node) -> tuple[Tensor, Tensor]:
    x = n["x"]
    dims = n.attribute("dim") or list(range(x.dim()))
    correction = n.attribute("correction", int(bool(n.attribute("unbiased", True))))
    y, mean = torch.std_mean(x, dims, correction=correction, keepdim=n.attribute("keepdim", False))
    return y, mean


def _cumsum(n: Node) -> Tensor:
    x, axis = n["x"], n.number("axis")
    if n.attribute("reverse", False):
        return x.flip(axis).cumsum(axis, dtype=x.dtype).flip(axis)
    return x.cumsum(axis, dtype=x.dtype)


def _clamped(n: Node) -> Tensor:
    return torch.minimum(torch.maximum(n["x"], n["clip_value_min"]), n["clip_value_max"])


OPERATORS: dict[str, Run] = {
    **{name: _of_x(function) for name, function in _OF_X.items()},
    **{name: _of_both(function) for name, function in _OF_BOTH.items()},
    "Addcdiv": lambda n: n["input_data"] + n["value"] * (n["x1"] / n["x2"]),
    "Addcmul": lambda n: n["input_data"] + n["value"] * (n["x1"] * n["x2"]),
    "ArgMaxV2": _place_of(torch.argmax),
    "ArgMaxWithValue": _with_value(torch.max),
    "ArgMin": _place_of(torch.argmin),
    "ArgMinWithValue": _with_value(torch.min),
    "Axpy": lambda n: n["x1"] + n.attribute("alpha", 1.0) * n["x2"],
    "AxpyV2": lambda n: n["x1"] + n["alpha"] * n["x2"],
    "Cast": _cast,
    "ClipByValueV2": _clamped,
    "Cumsum": _cumsum,
    "Div": _divided,
    "Elu": _elu,
    "Exp": _exp,
    "GLU": lambda n: F.glu(n["x"], n.attribute("dim", -1)),
    "HardSigmoid": lambda n: (
        n["input_x"] * n.attribute("alpha", 1 / 6) + n.attribute("beta", 0.5)
    ).clamp(0, 1),
    "LeakyRelu": lambda n: F.leaky_relu(n["x"], n.attribute("negative_slope", 0.0)),
    "Lerp": lambda n: torch.lerp(n["start"], n["end"], n["weight"]),
    "Log": _log,
    "Muls": lambda n: n["x"] * n.attribute("value"),
    "PRelu": lambda n: F.prelu(n["x"], n["weight"]),
    "ReduceAll": _reduced(_one_by_one(torch.all)),
    "ReduceAny": _reduced(_one_by_one(torch.any)),
    "ReduceLogSumExp": _reduced(torch.logsumexp),
    "ReduceMax": _reduced(torch.amax),
    "ReduceMean": _reduced(_mean),
    "ReduceMin": _reduced(torch.amin),
    "ReduceProd": _reduced(_one_by_one(torch.prod)),
    "ReduceProdD": _reduced(_one_by_one(torch.prod)),
    "ReduceStdV2": _deviation,
    "ReduceSum": _reduced(torch.sum),
    "Round": _round,
    "Swish": _swish,
    "TruncateDiv": lambda n: torch.div(n["x1"], n["x2"], rounding_mode="trunc"),
}
LIMITS: Limits = {"Cast": {"dst_type": tuple(TYPES)}, "Cumsum": {"exclusive": (False,)}}
