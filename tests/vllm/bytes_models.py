# SPDX-License-Identifier: Apache-2.0
"""A small Llama in the formats of W8A8 checkpoints, and the tokens of one that rounds as they do.

Inputs of layers are rounded to bytes here, so that what is expected is the decoded model with the
same rounding before each layer, in f32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import models
from quantized_models import TARGETS, save

Tensors = dict[str, Any]


class Format(NamedTuple):
    """How inputs are rounded, and whether each output of a layer has a scale."""

    is_static: bool
    has_zeros: bool
    by_channel: bool = True

    def config(self) -> dict[str, Any]:
        inputs = {
            "num_bits": 8, "type": "int", "strategy": "tensor" if self.is_static else "token",
            "symmetric": not self.has_zeros, "dynamic": not self.is_static, "observer": "minmax",
        }  # fmt: skip
        weights = {
            "num_bits": 8, "type": "int", "strategy": "channel" if self.by_channel else "tensor",
            "symmetric": True, "dynamic": False, "observer": "minmax",
        }  # fmt: skip
        groups = {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
        }
        return {"quant_method": "compressed-tensors", "format": "int-quantized",
                "quantization_status": "compressed", "ignore": ["lm_head"],
                "config_groups": groups}  # fmt: skip


FORMATS = {
    "w8a8": Format(False, False),
    "w8a8_zeros": Format(False, True),
    "w8a8_static": Format(True, False),
    "w8a8_static_zeros": Format(True, True),
    "w8a8_tensor": Format(False, False, by_channel=False),
}
DEFAULT = ("w8a8_zeros", "w8a8_static_zeros")


def rounded_rows(x: Any, has_zeros: bool) -> Any:
    """Each row of x as bytes, and back."""
    if not has_zeros:
        most = x.abs().amax(-1, keepdim=True)
        return (x * (127 / most)).round() * (most / 127)
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    steps = 255 / (high - low)
    zero = (-128 - low * steps).round()
    q = ((x * steps).round() + zero).clamp(-128, 127)
    return (q - zero) * ((high - low) / 255)


def rounded(x: Any, scale: Any, zero: Any) -> Any:
    """The same with a scale and a zero point that are known before."""
    return (((x * (1 / scale)).round() + zero).clamp(-128, 127) - zero) * scale


def merged(scale: Any, zero: Any) -> tuple[Any, Any]:
    """What vLLM makes of them when it loads a layer, whose parts may have ranges of their own."""
    high, low = scale * (127 - zero), scale * (-128 - zero)
    scale = (high - low) / 255
    return scale, (-128 - low / scale).round()


def calibrated(model: Any, has_zeros: bool) -> Tensors:
    """Scales and zero points of the inputs of each layer, for the prompts."""
    import torch

    found: dict[str, tuple[float, float]] = {}

    def look(name: str) -> Any:
        def hook(_: Any, given: Any) -> None:
            low, high = found.get(name, (0.0, 0.0))
            found[name] = (min(low, float(given[0].min())), max(high, float(given[0].max())))

        return hook

    hooks = [layer.register_forward_pre_hook(look(name)) for name, layer in layers(model)]
    for prompt in models.prompts():
        model(torch.tensor([prompt]), use_cache=False)
    for hook in hooks:
        hook.remove()
    made = {}
    for name, (low, high) in found.items():
        scale = (high - low) / 255 if has_zeros else max(high, -low) / 127
        made[f"{name}.input_scale"] = torch.tensor([scale])
        if has_zeros:
            zero = round(-128 - low / scale)
            made[f"{name}.input_zero_point"] = torch.tensor([zero], dtype=torch.int8)
    return made


def layers(model: Any) -> list[tuple[str, Any]]:
    return [(name, layer) for name, layer in model.named_modules() if name.endswith(TARGETS)]


def make(name: str, folder: Path) -> None:
    """folder/name is the checkpoint, folder/name_decoded the model of its weights in f32."""
    import torch

    form = FORMATS[name]

    def draw(_: str, shape: tuple[int, int]) -> tuple[Any, Tensors]:
        q = torch.randint(-127, 128, shape, dtype=torch.int8)
        scale = torch.rand(shape[0] if form.by_channel else 1, 1).mul(0.002).add(0.0025)
        stored = scale if form.by_channel else scale[0]
        return q.float() * scale, {"weight": q, "weight_scale": stored}

    def rest(model: Any) -> Tensors:
        return calibrated(model, form.has_zeros) if form.is_static else {}

    save(name, folder, form.config(), draw, rest)


def expected(name: str, folder: Path) -> list[list[int]]:
    from safetensors.torch import load_file

    form, stored = FORMATS[name], load_file(folder / name / "model.safetensors")

    def rounding(layer: str) -> Any:
        def hook(_: Any, given: Any) -> Any:
            if not form.is_static:
                return (rounded_rows(given[0], form.has_zeros),)
            scale, zero = stored[f"{layer}.input_scale"], 0
            if form.has_zeros:
                scale, zero = merged(scale, stored[f"{layer}.input_zero_point"].float())
            return (rounded(given[0], scale, zero),)

        return hook

    def prepare(model: Any) -> None:
        for layer, module in layers(model):
            module.register_forward_pre_hook(rounding(layer))

    return models.expected(folder / f"{name}_decoded", prepare)
