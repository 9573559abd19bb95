# SPDX-License-Identifier: Apache-2.0
"""A small Llama in the formats of 4-bit checkpoints, and the model that these decode to.

Weights are drawn as elements, zero points and scales, so that both are the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import models

GROUP = 32
AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)  # of element i of a word
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class Format(NamedTuple):
    """How a checkpoint stores its layers, and what its config.json says."""

    kind: str  # "awq", "gptq" or "tensors"
    has_zeros: bool
    is_ordered: bool = False  # groups are of inputs by importance, not of neighbours

    def config(self) -> dict[str, Any]:
        if self.kind == "awq":
            return {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True,
                    "version": "gemm"}  # fmt: skip
        if self.kind == "gptq":
            return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True,
                    "desc_act": self.is_ordered}  # fmt: skip
        weights = {
            "num_bits": 4, "type": "int", "strategy": "group", "group_size": GROUP,
            "symmetric": not self.has_zeros, "dynamic": False, "observer": "minmax",
            "actorder": "group" if self.is_ordered else None,
        }  # fmt: skip
        groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
        return {"quant_method": "compressed-tensors", "format": "pack-quantized",
                "quantization_status": "compressed", "ignore": ["lm_head"],
                "config_groups": groups}  # fmt: skip


FORMATS = {
    "awq": Format("awq", True),
    "gptq": Format("gptq", False),
    "gptq_ordered": Format("gptq", False, True),
    "w4a16": Format("tensors", False),
    "w4a16_zeros": Format("tensors", True),
    "w4a16_ordered": Format("tensors", False, True),
}
DEFAULT = ("awq", "gptq_ordered", "w4a16_zeros")


class Layer(NamedTuple):
    """q [outputs, inputs], zeros and scales [outputs, groups], and the group of each input."""

    q: Any
    zero: Any
    scale: Any
    group: Any

    def decoded(self) -> Any:
        group = self.group.long()
        return (self.q - self.zero[:, group]).float() * self.scale.float()[:, group]


def words(elements: Any, dim: int, places: tuple[int, ...] = tuple(range(8))) -> Any:
    """Eight neighbours along `dim` in an int32; place p is bits 4p to 4p + 3."""
    import torch

    parts = elements.long().unflatten(dim, (-1, 8)).unbind(dim + 1)
    made = sum(part << 4 * place for part, place in zip(parts, places, strict=True))
    return torch.where(made >= 1 << 31, made - (1 << 32), made).int()


def stored(layer: Layer, form: Format) -> dict[str, Any]:
    """The tensors of a layer in a checkpoint, without the layer's name."""
    import torch

    if form.kind == "awq":
        return {
            "qweight": words(layer.q.t(), 1, AWQ_PLACES),
            "qzeros": words(layer.zero.t(), 1, AWQ_PLACES),
            "scales": layer.scale.t().contiguous(),
        }
    if form.kind == "gptq":
        return {
            "qweight": words(layer.q.t(), 0),
            "qzeros": words(layer.zero.t() - 1, 1),
            "scales": layer.scale.t().contiguous(),
            "g_idx": layer.group.int(),
        }
    made = {
        "weight_packed": words(layer.q, 1),
        "weight_scale": layer.scale,
        "weight_shape": torch.tensor(layer.q.shape),
    }
    if form.has_zeros:
        made["weight_zero_point"] = words(layer.zero, 0)
    if form.is_ordered:
        made["weight_g_idx"] = layer.group.int()
    return made


def drawn(shape: tuple[int, int], form: Format, seed: int) -> Layer:
    """seed: of the groups' order, which layers with one input share."""
    import torch

    outputs, inputs = shape
    groups = inputs // GROUP
    q = torch.randint(0, 16, shape)
    zero = torch.full((outputs, groups), 8)
    if form.has_zeros:
        zero = torch.randint(4, 12, (outputs, groups))
    scale = torch.rand(outputs, groups).mul(0.05).add(0.02).half()
    group = torch.arange(inputs) // GROUP
    if form.is_ordered:
        order = torch.randperm(inputs, generator=torch.Generator().manual_seed(seed))
        group = group[order]
    return Layer(q, zero, scale, group)


# A layer's name and sizes -> its weight in f32, and its tensors in a checkpoint.
Draw = Callable[[str, tuple[int, int]], "tuple[Any, dict[str, Any]]"]


def save(
    name: str,
    folder: Path,
    config: dict[str, Any],
    draw: Draw,
    rest: Callable[[Any], dict[str, Any]] = lambda model: {},
) -> None:
    """folder/name is the checkpoint, folder/name_decoded the same model in f32. rest: tensors of a
    checkpoint that the whole model decides.
    """
    import torch
    import transformers
    from safetensors.torch import save_file

    decoded = folder / f"{name}_decoded"
    torch.manual_seed(1)
    llama = transformers.LlamaConfig(**{**models.COMMON, "head_dim": 32})
    model = transformers.AutoModelForCausalLM.from_config(llama, dtype=torch.float32).eval()
    tensors: dict[str, Any] = {}
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            layer, _, kind = key.rpartition(".")
            if layer.endswith(TARGETS):
                weight, stored_parts = draw(layer, tuple(parameter.shape))
                parameter.copy_(weight)
                parts = stored_parts.items()
                tensors |= {f"{layer}.{part}": value.contiguous() for part, value in parts}
                continue
            if parameter.dim() > 1:
                parameter.normal_(0, 0.02 if "embed" in key else 0.25)
            else:
                parameter.uniform_(0.5, 1.5)
            tensors[key] = parameter.clone()
        tensors |= rest(model)
    model.save_pretrained(decoded)
    checkpoint = folder / name
    checkpoint.mkdir()
    save_file(tensors, checkpoint / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((decoded / "config.json").read_text())
    settings["quantization_config"] = config
    (checkpoint / "config.json").write_text(json.dumps(settings))


def make(name: str, folder: Path) -> None:
    form = FORMATS[name]

    def draw(layer: str, shape: tuple[int, int]) -> tuple[Any, dict[str, Any]]:
        seed = 1 if layer.endswith(("o_proj", "down_proj")) else 0
        made = drawn(shape, form, seed)
        return made.decoded(), stored(made, form)

    save(name, folder, form.config(), draw)


def expected(name: str, folder: Path) -> list[list[int]]:
    return models.expected(folder / f"{name}_decoded")
