# SPDX-License-Identifier: Apache-2.0
"""Layers of vLLM with weights of 4 bits, and with inputs and weights of 8: what its classes decide
for kernels of its own.

Each function makes of a method of vLLM's the one that takes its place (`_versions.METHODS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyop import _anyop

CPU = "vllm.model_executor.kernels.linear.mixed_precision.cpu:CPUWNA16LinearKernel"
BYTES = "vllm.model_executor.kernels.linear.scaled_mm.cpu:CPUInt8ScaledMMLinearKernel"
LAYERS = "vllm.model_executor.layers.quantization."
SCHEMES = LAYERS + "compressed_tensors.schemes."
NIBBLES = SCHEMES + "compressed_tensors_wNa16:CompressedTensorsWNA16"
W8A8 = SCHEMES + "compressed_tensors_w8a8_int8:CompressedTensorsW8A8Int8"
SCALES = ("scales", "weight_scale", "input_scale")
INDICES = ("g_idx", "weight_g_idx")


def every_size(theirs: Callable[..., tuple[bool, str | None]]) -> Callable[..., Any]:
    """Whether a layer can run. vLLM asks for multiples of 32; our kernels take every size, and what
    is left is what its Python needs, which arranges words of 8 elements in blocks of 16 outputs.
    """

    def can_implement(*given: Any) -> tuple[bool, str | None]:
        config = given[-1]
        inputs, outputs = config.partition_weight_shape
        size = config.group_size
        if size != -1 and (size < 1 or inputs % size):
            return False, f"groups of {size} do not divide the {inputs} inputs of a layer"
        fits = inputs % 8 == 0 and outputs % 16 == 0
        if fits and config.weight_type in _types():
            return True, None
        return theirs(config)

    return can_implement


def _types() -> tuple[Any, ...]:
    from vllm.scalar_type import scalar_types

    return scalar_types.uint4, scalar_types.uint4b8


def every_dtype(theirs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The dtypes of a model. vLLM leaves out f32, which its kernels do not take."""

    def get_supported_act_dtypes(*_: Any) -> list[Any]:
        import torch

        return [*theirs(), torch.float32]

    return get_supported_act_dtypes


def marked(theirs: Callable[..., None]) -> Callable[..., None]:
    """What a checkpoint must fill is recognizable until it has: vLLM does not look for parameters
    of quantized layers that were never loaded.
    """

    def create_weights(self: Any, layer: Any, *given: Any, **named: Any) -> None:
        theirs(self, layer, *given, **named)
        for names, mark in ((SCALES, float("nan")), (INDICES, -1)):
            for name in names:
                if (parameter := getattr(layer, name, None)) is not None:
                    parameter.data.fill_(mark)

    return create_weights


def checked(theirs: Callable[..., None]) -> Callable[..., None]:
    """Refuses what a checkpoint lacks or has wrong, when the model is loaded."""

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        _check_scale(layer, self.w_s_name)
        if getattr(self.config, "has_g_idx", False):  # until 0.29
            _check_index(layer, self.w_gidx_name, self.w_s_name)
        theirs(self, layer)

    return process_weights_after_loading


def checked_bytes(theirs: Callable[..., None]) -> Callable[..., None]:
    """The same of a layer with inputs of 8 bits, whose scale a checkpoint may have, too."""

    def process_weights_after_loading(self: Any, layer: Any) -> None:
        _, *scales = self.layer_param_names[:3]
        for name in scales:
            if getattr(layer, name, None) is not None:
                _check_scale(layer, name)
        theirs(self, layer)

    return process_weights_after_loading


def _name(layer: Any, name: str) -> str:
    prefix = getattr(layer, "prefix", "")
    return f"{prefix}.{name}" if prefix else name


def _check_scale(layer: Any, name: str) -> None:
    scale = getattr(layer, name)
    absent = int(scale.isnan().sum())
    if absent:
        raise _anyop.InvalidArgument(
            f"anyop.vllm: {absent} of the {scale.numel()} numbers of {_name(layer, name)} are NaN, "
            "because the checkpoint has no scales of a layer, or wrong ones. Quantize the model "
            "again, or load all of its files."
        )


def _check_index(layer: Any, name: str, scale_name: str) -> None:
    index, scale = getattr(layer, name), getattr(layer, scale_name)
    groups = scale.shape[1 - scale.output_dim]
    wrong = ((index < 0) | (index >= groups)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise _anyop.InvalidArgument(
            f"anyop.vllm: {_name(layer, name)}[{at}] is {int(index[at])}, but must be from 0 to "
            f"{groups - 1}, as the layer has {groups} groups. Quantize the model again, or load "
            "all of its files."
        )


METHODS: dict[str, Callable[[Any], Any]] = {
    CPU + ".can_implement": every_size,
    CPU + ".process_weights_after_loading": checked,
    LAYERS + "auto_gptq:AutoGPTQConfig.get_supported_act_dtypes": every_dtype,
    LAYERS + "auto_gptq:AutoGPTQLinearMethod.create_weights": marked,
    LAYERS + "auto_awq:AutoAWQConfig.get_supported_act_dtypes": every_dtype,
    LAYERS + "auto_awq:AutoAWQMarlinLinearMethod.create_weights": marked,
    NIBBLES + ".create_weights": marked,
    BYTES + ".process_weights_after_loading": checked_bytes,
    W8A8 + ".create_weights": marked,
}
