# SPDX-License-Identifier: Apache-2.0
"""What `explain` says of layers that no engine of these tests has. Run by vLLM's Python."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import anyop.vllm
import torch
from anyop.vllm import _classes, _explain
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import CustomOp
from vllm.model_executor.layers import activation, layernorm


class ScaledNorm(layernorm.GemmaRMSNorm):
    """A model's own."""


class TheirGate(activation.FatreluAndMul):
    """Of another plug-in."""


def refusal(found: list[_explain.Line]) -> str:
    """What strict mode says of such a model."""

    class Config:
        compilation_config = CompilationConfig(custom_ops=["all"])

    class Worker:
        rank, vllm_config = 0, Config()

        def get_model(self) -> Any:
            return MODEL[0]

    try:
        with anyop.strict():
            _explain.after_load(Worker())
        return ""
    except anyop.Unsupported as error:
        return str(error)


class Elsewhere:
    """An engine whose worker is not ours."""

    class llm_engine:  # noqa: N801
        class vllm_config:  # noqa: N801
            class parallel_config:  # noqa: N801
                worker_cls = "their.Worker"


MODEL: list[Any] = []


def main() -> None:
    _classes.register()
    CustomOp.register_oot(_decorated_op_cls=TheirGate, name="FatreluAndMul")
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=["all"]))
    with set_current_vllm_config(config):
        model = torch.nn.ModuleList([
            activation.SiluAndMul(), ScaledNorm(8), activation.MulAndSilu(),
            activation.FatreluAndMul(), torch.nn.GELU(),
        ])  # fmt: skip
        MODEL.append(model)
        found = [line for line in _explain.lines(model, ["all"]) if line.kind == "layer"]
    try:
        anyop.vllm.explain(Elsewhere())
        elsewhere = ""
    except anyop.NotAvailable as error:
        elsewhere = str(error)
    result = {
        "lines": {line.name: dataclasses.asdict(line) for line in found},
        "summary": _explain.summary(found),
        "refusal": refusal(found),
        "elsewhere": elsewhere,
    }
    print("RESULT", json.dumps(result))


if __name__ == "__main__":
    main()
