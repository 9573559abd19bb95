# SPDX-License-Identifier: Apache-2.0
"""Which layers of vLLM run on which operators of ours, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """A layer of vLLM, and what computes it.

    layer       its class, by which vLLM replaces: no subclass of it is meant
    module      below vllm.model_executor.layers
    operator    ours; "" if the layer stays as vLLM wrote it, and `why` says why
    also        further operators of ours that the layer calls
    attributes  arguments of the operator, and the attributes of the layer that they are
    constants   further arguments
    call        the function of `_layers` that makes the call; "" if the operator takes what the
                layer is called with
    since       the first version of vLLM that has the class
    until       the first that does not
    """

    layer: str
    module: str
    operator: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    call: str = ""
    also: tuple[str, ...] = ()
    since: tuple[int, ...] = (0,)
    until: tuple[int, ...] = (1000,)
    why: str = ""


def _activation(layer: str, operator: str, **arguments: Any) -> Row:
    """`_name` is an attribute of the layer, anything else a constant."""
    attributes = {k: v[1:] for k, v in arguments.items() if str(v).startswith("_")}
    constants = {k: v for k, v in arguments.items() if k not in attributes}
    return Row(layer, "activation", operator, attributes, constants)


def _rope(layer: str, module: str, call: str = "rope", **more: Any) -> Row:
    operator = "mrope" if call in ("mrope", "xdrope") else "rotary_embedding"
    return Row(layer, f"rotary_embedding.{module}", operator, call=call, **more)


def _native(layer: str, module: str, why: str, **more: Any) -> Row:
    return Row(layer, module, why=why, **more)


ACTIVATIONS = (
    _activation("SiluAndMul", "silu_and_mul"),
    _activation("GeluAndMul", "gelu_and_mul", approximate="_approximate"),
    _activation("GELU", "gelu"),
    _activation("GELUTanh", "gelu", kind="tanh"),
    Row("NewGELU", "activation", "gelu", call="gelu_in_steps"),
    Row("FastGELU", "activation", "gelu", call="gelu_in_steps"),
    _activation("QuickGELU", "gelu", kind="quick"),
    _activation("ReLUSquaredActivation", "relu2"),
    _activation(
        "SiluAndMulWithClamp", "swiglu", limit="_swiglu_limit", alpha="_alpha", beta="_beta"
    ),
    _activation(
        "SwigluOAIAndMul", "swiglu", limit="_limit", alpha="_alpha", beta=1.0, order="interleaved"
    ),
)

# The classes that get_rope makes, and those that it does not know.
ROPES = (
    _rope("RotaryEmbedding", "base"),
    _rope("Llama3RotaryEmbedding", "llama3_rope"),
    _rope("LinearScalingRotaryEmbedding", "linear_scaling_rope"),
    _rope("NTKScalingRotaryEmbedding", "ntk_scaling_rope"),
    _rope("DynamicNTKScalingRotaryEmbedding", "dynamic_ntk_scaling_rope"),
    _rope("DynamicNTKAlphaRotaryEmbedding", "dynamic_ntk_alpha_rope"),
    _rope("YaRNScalingRotaryEmbedding", "yarn_scaling_rope"),
    _rope("Gemma4RotaryEmbedding", "gemma4_rope"),
    _rope("TeleChat3RoPEScaledRotaryEmbedding", "telechat3_scaling_rope", until=(0, 32)),
    _rope("DeepseekScalingRotaryEmbedding", "deepseek_scaling_rope", "deepseek_rope"),
    _rope("DeepseekV4ScalingRotaryEmbedding", "deepseek_scaling_rope", "deepseek_v4_rope"),
    _rope("MRotaryEmbedding", "mrope", "mrope", also=("rotary_embedding",)),
    _rope("XDRotaryEmbedding", "xdrope", "xdrope", until=(0, 32)),
    _rope("Phi3LongRoPEScaledRotaryEmbedding", "phi3_long_rope_scaled_rope", "phi3_rope"),
    Row("ApplyRotaryEmb", "rotary_embedding.common", "rope", call="apply_rotary"),
)

OTHERS = (
    Row("GemmaRMSNorm", "layernorm", "rms_norm", call="gemma_norm", also=("add_rms_norm",)),
    Row("LayerNorm", "layernorm", "layer_norm", call="layer_norm", since=(0, 32)),
    Row("Conv2dLayer", "conv", "conv2d", call="conv"),
    Row("Conv3dLayer", "conv", "conv3d", call="conv"),
    Row("VocabParallelEmbedding", "vocab_parallel_embedding", "embedding", call="embedding"),
)

# Where vLLM has no IR, its norm is a layer like others.
WITHOUT_IR = (Row("RMSNorm", "layernorm", "rms_norm", call="norm", also=("add_rms_norm",)),)

_ROPE = "rotary_embedding."
NATIVE = (
    _native("FatreluAndMul", "activation", "no operator has a threshold"),
    _native("MulAndSilu", "activation", "no operator has the gate in the second half"),
    _native("SwigluStepAndMul", "activation", "no operator limits the gate after its sigmoid"),
    _native("GeluAndMulSparse", "activation", "no operator drops gates by their deviation"),
    _native("SituAndMul", "activation", "no operator computes SituGLU"),
    _native("XIELU", "activation", "no operator computes xIELU"),
    _native("RMSNormGated", "layernorm", "no operator norms and gates in groups"),
    _native("DualChunkRotaryEmbedding", _ROPE + "dual_chunk_rope", "turns a query by five tables"),
    _native("FourierRotaryEmbedding", _ROPE + "fope", "has a table for each head"),
    _native("Llama4VisionRotaryEmbedding", _ROPE + "llama4_vision_rope", "has a complex table"),
    _native(
        "MRotaryEmbeddingInterleaved", _ROPE + "mrope_interleaved", "has its own order of axes"
    ),
    _native(
        "BailingMRotaryEmbedding", _ROPE + "bailing_mrope", "has its own order of axes",
        since=(0, 32),
    ),
)  # fmt: skip

# vLLM IR: the operator of vLLM, and ours.
IR = {"rms_norm": "rms_norm", "fused_add_rms_norm": "add_rms_norm"}

# Methods that compute with weights as they are; others are quantizations, which are vLLM's own.
PLAIN_METHODS = frozenset((
    "AnyopEmbeddingMethod", "FusedMoEModularMethod", "UnquantizedEmbeddingMethod",
    "UnquantizedFusedMoEMethod", "UnquantizedLinearMethod",
))  # fmt: skip

# Layers that compute nothing themselves, or by names of the extension _C, which have rows of their
# own in a report: it does not list these layers as not replaced.
COMPOSED = frozenset((
    "Attention", "ColumnParallelLinear", "FusedMoE", "FusedMoEModularMethod", "GateLinear",
    "LogitsProcessor", "MLAAttention", "MergedColumnParallelLinear", "MoERunner",
    "MultiHeadLatentAttentionWrapper", "ParallelLMHead", "QKVParallelLinear", "RMSNorm",
    "ReplicatedLinear", "RoutedExperts", "RowParallelLinear", "UnquantizedFusedMoEMethod",
))  # fmt: skip


def rows(version: tuple[int, ...], has_ir: bool = True) -> list[Row]:
    """Rows of one version of vLLM, those without an operator last."""
    every = (*ACTIVATIONS, *ROPES, *OTHERS, *(() if has_ir else WITHOUT_IR), *NATIVE)
    return [row for row in every if row.since <= version < row.until]
