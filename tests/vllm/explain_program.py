# SPDX-License-Identifier: Apache-2.0
"""What `explain` says of layers that no engine of these tests has. Run by vLLM's Python."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import anyop.vllm
import torch
from anyop.vllm import _classes, _explain
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import CustomOp
from vllm.model_executor.layers import activation, layernorm
from vllm.model_executor.layers.linear import RowParallelLinear


class ScaledNorm(layernorm.GemmaRMSNorm):
    """A model's own."""


class TheirGate(activation.FatreluAndMul):
    """Of another plug-in."""


def quantized() -> Any:
    """A linear layer whose weights vLLM has quantized."""

    class FewBitsMethod:
        pass

    layer = object.__new__(RowParallelLinear)
    torch.nn.Module.__init__(layer)
    layer.quant_method = FewBitsMethod()
    return layer


def looped() -> Any:
    """Experts that vLLM 0.27 computes one by one."""

    def forward_torch() -> None:
        pass

    class UnquantizedFusedMoEMethod:
        cpu_fused_moe = SimpleNamespace(forward_method=forward_torch)

    layer = quantized()
    layer.quant_method = UnquantizedFusedMoEMethod()
    return layer


def refusal(model: Any) -> str:
    """What strict mode says of a model."""
    config = SimpleNamespace(compilation_config=CompilationConfig(custom_ops=["all"]))
    worker = SimpleNamespace(rank=0, vllm_config=config, get_model=lambda: model)
    try:
        with anyop.strict():
            _explain.after_load(worker)
        return ""
    except anyop.Unsupported as error:
        return str(error)


def elsewhere_engine() -> Any:
    """An engine whose worker is not ours."""
    parallel = SimpleNamespace(worker_cls="their.Worker")
    config = SimpleNamespace(parallel_config=parallel)
    return SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))


def main() -> None:
    _classes.register()
    CustomOp.register_oot(_decorated_op_cls=TheirGate, name="FatreluAndMul")
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=["all"]))
    with set_current_vllm_config(config):
        model = torch.nn.ModuleList([
            activation.SiluAndMul(), ScaledNorm(8), activation.MulAndSilu(),
            activation.FatreluAndMul(), torch.nn.GELU(), torch.nn.Dropout(), quantized(),
            looped(),
        ])  # fmt: skip
        found = [line for line in _explain.lines(model, ["all"]) if line.kind == "layer"]
    try:
        anyop.vllm.explain(elsewhere_engine())
        elsewhere = ""
    except anyop.NotAvailable as error:
        elsewhere = str(error)
    result = {
        "lines": {line.name: dataclasses.asdict(line) for line in found},
        "summary": _explain.summary(found),
        "refusal": refusal(model),
        "elsewhere": elsewhere,
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
