# SPDX-License-Identifier: Apache-2.0
"""Each layer of the table beside vLLM's own code, and the registry. Run by vLLM's Python."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyop.vllm
import torch
import vllm
from anyop.vllm import _classes, _native, _tables
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import op_registry_oot
from vllm.model_executor.layers import activation, conv, layernorm, rotary_embedding
from vllm.model_executor.layers.linear import RowParallelLinear
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

TOKENS, HEADS, KEYS, SIZE = 5, 4, 2, 32
ROPE = (SIZE, SIZE, 64, 10000.0, True)
F32 = torch.float32
IN_STEPS = ("NewGELU", "FastGELU")  # in 16 bits of vLLM's own, as each step is rounded
SCALED = {"max_trained_positions": 64}


def rope_layer(cls: Any, *args: Any, **kwargs: Any) -> Any:
    return cls(*ROPE, *args, **kwargs)


def build(name: str) -> Any:
    """A layer as models make it."""
    ropes = rotary_embedding
    made = {
        "GeluAndMul": lambda: activation.GeluAndMul("tanh"),
        "SiluAndMulWithClamp": lambda: activation.SiluAndMulWithClamp(1.5, 1.1, 0.5),
        "GemmaRMSNorm": lambda: layernorm.GemmaRMSNorm(64),
        "LayerNorm": lambda: layernorm.LayerNorm(64),
        "Conv2dLayer": lambda: conv.Conv2dLayer(6, 8, (3, 2), stride=(2, 1), padding=1, groups=2),
        "Conv3dLayer": lambda: conv.Conv3dLayer(3, 8, (2, 4, 4), stride=(2, 4, 4)),
        "RMSNorm": without_ir,
        "RotaryEmbedding": lambda: ropes.RotaryEmbedding(SIZE, SIZE // 2, 64, 1e4, False, F32),
        "Llama3RotaryEmbedding": lambda: rope_layer(
            ropes.Llama3RotaryEmbedding, F32, 8.0, 1.0, 4.0, 32
        ),
        "LinearScalingRotaryEmbedding": lambda: rope_layer(
            ropes.LinearScalingRotaryEmbedding, 2.0, F32
        ),
        "NTKScalingRotaryEmbedding": lambda: rope_layer(
            ropes.NTKScalingRotaryEmbedding, 2.0, F32, None
        ),
        "DynamicNTKScalingRotaryEmbedding": lambda: ropes.DynamicNTKScalingRotaryEmbedding(
            SIZE, SIZE, 64, 32, 1e4, True, 2.0, F32
        ),
        "DynamicNTKAlphaRotaryEmbedding": lambda: rope_layer(
            ropes.DynamicNTKAlphaRotaryEmbedding, 2.0, F32
        ),
        "YaRNScalingRotaryEmbedding": lambda: rope_layer(
            ropes.YaRNScalingRotaryEmbedding, 2.0, F32
        ),
        "TeleChat3RoPEScaledRotaryEmbedding": lambda: rope_layer(
            ropes.TeleChat3RoPEScaledRotaryEmbedding, 2.0, F32
        ),
        "DeepseekScalingRotaryEmbedding": lambda: ropes.DeepseekScalingRotaryEmbedding(
            SIZE, SIZE, 64, 1e4, False, 2.0, F32
        ),
        "DeepseekV4ScalingRotaryEmbedding": lambda: ropes.DeepseekV4ScalingRotaryEmbedding(
            SIZE, SIZE // 2, 64, 1e4, False, 2.0, F32
        ),
        "MRotaryEmbedding": lambda: rope_layer(
            ropes.MRotaryEmbedding, F32, mrope_section=[6, 5, 5], mrope_interleaved=True
        ),
        "XDRotaryEmbedding": lambda: rope_layer(
            ropes.XDRotaryEmbedding, 2.0, F32, xdrope_section=[4, 4, 4, 4]
        ),
        "Phi3LongRoPEScaledRotaryEmbedding": phi3,
    }
    if name in made:
        return made[name]()
    if name == "Gemma4RotaryEmbedding":
        return rope_layer(ropes.Gemma4RotaryEmbedding, F32)
    if name == "ApplyRotaryEmb":
        return ropes.common.ApplyRotaryEmb()
    return getattr(activation, name)()


def without_ir() -> Any:
    """As it is replaced where vLLM has no IR."""
    (row,) = _tables.WITHOUT_IR
    return _classes._make(layernorm.RMSNorm, row, [])(64)


def phi3() -> Any:
    """Through get_rope, since no registry knows the class."""
    rotary_embedding._ROPE_DICT.clear()
    parameters = {
        "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * (SIZE // 2),
        "long_factor": [2.0] * (SIZE // 2), "original_max_position_embeddings": 32,
    }  # fmt: skip
    return rotary_embedding.get_rope(SIZE, 64, True, parameters, F32)


def inputs(name: str) -> list[tuple[Any, ...]]:
    """Calls of the layer; what is written is copied by `outputs`."""
    torch.manual_seed(0)
    positions = torch.tensor([0, 1, 7, 31, 3])
    q, k = torch.randn(TOKENS, HEADS * SIZE), torch.randn(TOKENS, KEYS * SIZE)
    by_head = q.view(TOKENS, HEADS, SIZE), k.view(TOKENS, KEYS, SIZE)
    axes = torch.stack([positions, positions + 1, positions * 0, positions + 2])
    if name == "MRotaryEmbedding":
        return [(positions, q, k), (axes[:3], q, k)]
    if name == "XDRotaryEmbedding":
        return [(axes, q, k)]
    if name.startswith("DeepseekV4"):
        return [(positions, *by_head), (positions, by_head[0], None, None, True)]
    if name.startswith("Deepseek"):
        sliced = torch.randn(TOKENS, HEADS, SIZE + 8)[..., 8:]
        return [(positions, sliced, by_head[1][:, :1]), (positions, *by_head, positions + 1)]
    if name.startswith("Phi3"):
        return [(positions, q, k), (positions, q, k, positions + 1)]
    if name == "ApplyRotaryEmb":
        cos, sin = torch.randn(2, TOKENS, SIZE // 2)
        return [(by_head[0], cos, sin), (torch.randn(3, TOKENS, HEADS, SIZE), cos, sin)]
    if name.endswith("RotaryEmbedding"):
        packed = torch.cat((q, k), dim=-1).split([q.shape[1], k.shape[1]], dim=-1)
        pairs = ((q, k), packed, (q, None), by_head)
        return [(positions, *pair) for pair in pairs]
    if name.startswith("Conv"):
        sizes = (6, 9, 7) if name == "Conv2dLayer" else (3, 4, 8, 8)
        return [(torch.randn(2, *sizes),), (torch.randn(2, *sizes[::-1]).transpose(1, -1),)]
    if name.endswith("RMSNorm"):
        return [(torch.randn(TOKENS, 64),), (torch.randn(2, 3, 64), torch.randn(2, 3, 64))]
    return [(torch.randn(TOKENS, 64) * 3,), (torch.randn(2, 3, 64) * 3,)]


def copied(x: Any, dtype: torch.dtype) -> Any:
    """With the strides of x."""
    if not isinstance(x, torch.Tensor):
        return x
    to = dtype if x.is_floating_point() else x.dtype
    return torch.empty_strided(x.size(), x.stride(), dtype=to).copy_(x)


def outputs(call: Any, arguments: tuple[Any, ...], dtype: torch.dtype) -> list[torch.Tensor]:
    got = call(*(copied(x, dtype) for x in arguments))
    return [y for y in (got if isinstance(got, tuple) else (got,)) if y is not None]


def compare(name: str) -> dict[str, Any]:
    layer = build(name)
    cls = type(layer)
    for parameter in layer.parameters():
        parameter.normal_()
    theirs = layer.forward_native if hasattr(layer, "forward_native") else None
    if theirs is None:
        base = cls.__mro__[1]
        theirs = lambda *args: base.forward(layer, *args)  # noqa: E731
    worst, operators = 0.0, set()
    for dtype in (torch.float32, torch.bfloat16):
        if dtype != F32 and name.endswith(("Norm", "dLayer")):
            layer.to(dtype)
        for arguments in inputs(name):
            anyop.reset_counters()
            got = outputs(layer, arguments, dtype)
            operators |= {row.op for row in anyop.counters() if row.calls}
            want = outputs(theirs, arguments, dtype)
            allowed = 1e-5 if dtype == F32 else 1e-9 if name in IN_STEPS else 3e-2
            for a, b in zip(got, want, strict=True):
                a, b = a.float(), b.float().view(a.shape)
                worst = max(worst, float(((a - b).abs() / (1 + b.abs())).max()) / allowed)
    return {"worst": worst, "cls": cls.__name__, "operators": sorted(operators)}


def refused() -> dict[str, Any]:
    """What no operator takes: vLLM's own code, and in strict mode an error."""
    layer, x = activation.SiluAndMul(), torch.randn(2, 8, dtype=torch.float64)
    _native.calls.clear()
    same = torch.equal(layer(x), layer.forward_native(x))
    try:
        with anyop.strict():
            layer(x)
        error = ""
    except anyop.Unsupported as raised:
        error = str(raised)
    return {"same": same, "noted": list(_native.calls.items()), "error": error}


def misfit() -> str:
    """A class that this vLLM does not have."""
    wrong = _tables.Row("SiluAndMull", "activation", "silu_and_mul")
    state, table = _classes._State.made, _tables.rows
    _classes._State.made, _tables.rows = None, lambda *_: [wrong]
    try:
        _classes.register()
        return ""
    except anyop.InvalidArgument as raised:
        return str(raised)
    finally:
        _classes._State.made, _tables.rows = state, table


def lora() -> dict[str, bool]:
    """Whether LoRA's wrappers take a replaced layer for what it is."""
    from vllm.config.lora import LoRAConfig
    from vllm.lora.layers import RowParallelLinearWithLoRA, VocabParallelEmbeddingWithLoRA

    anyop.vllm.replace("RowParallelLinear", torch.nn.functional.linear)
    wrappers = {
        VocabParallelEmbedding: VocabParallelEmbeddingWithLoRA,
        RowParallelLinear: RowParallelLinearWithLoRA,
    }
    known = {}
    for cls, wrapper in wrappers.items():
        ours = op_registry_oot[cls.__name__]
        assert ours is not cls
        known[cls.__name__] = wrapper.can_replace_layer(
            source_layer=object.__new__(ours), lora_config=LoRAConfig(),
            packed_modules_list=[], model_config=None,
        )  # fmt: skip
    return known


@torch.no_grad()
def main() -> None:
    _classes.register()
    first = dict(op_registry_oot)
    again = _classes.register()
    version = _classes.vllm_version()
    names = [row.layer for row in _tables.rows(version) if row.operator]
    names.remove("VocabParallelEmbedding")  # needs an engine's groups
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=["all"]))
    found: dict[str, Any] = {"layers": {}, "twice": first == op_registry_oot and len(again)}
    with set_current_vllm_config(config):
        config.model_config = type("Model", (), {"max_model_len": 64})()
        for name in [*names, "RMSNorm"]:
            found["layers"][name] = compare(name)
        found["enabled"] = sorted(config.compilation_config.enabled_custom_ops)
        found["refused"] = refused()
    found["misfit"] = misfit()
    found["lora"] = lora()
    found["vllm"] = vllm.__version__
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
