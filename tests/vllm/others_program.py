# SPDX-License-Identifier: Apache-2.0
"""Layers that another package registers as vLLM's platforms do, before ours and after: ORDER.

Run by vLLM's Python.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyop.vllm
import torch
from anyop.vllm import _classes, _explain
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import CustomOp, PluggableLayer
from vllm.model_executor.layers import activation, rotary_embedding, vocab_parallel_embedding


class MyRotaryEmbedding(rotary_embedding.RotaryEmbedding):
    def forward_oot(self, positions: Any, query: Any, key: Any = None) -> Any:
        return "theirs"


class MySiluAndMul(activation.SiluAndMul):
    def forward_oot(self, x: torch.Tensor) -> Any:
        return "theirs"


class MyGelu(activation.GELU):
    """Says how it computes on a CPU, too."""

    def forward_oot(self, x: torch.Tensor) -> Any:
        raise AssertionError

    def forward_cpu(self, x: torch.Tensor) -> Any:
        return "theirs on a CPU"


class MyEmbedding(vocab_parallel_embedding.VocabParallelEmbedding):
    pass


@CustomOp.register("model_layer")
class ModelLayer(CustomOp):
    """Of a model: no class of vLLM's has its place."""

    def forward_native(self) -> Any:
        return "native"

    def forward_oot(self) -> Any:
        return "theirs"


REGISTERED_OPS = {"RotaryEmbedding": MyRotaryEmbedding, "SiluAndMul": MySiluAndMul}


def register_theirs() -> None:
    """In each of the forms that vLLM has."""
    for name, cls in REGISTERED_OPS.items():
        CustomOp.register_oot(_decorated_op_cls=cls, name=name)
    activation.GELU.register_oot(MyGelu)
    PluggableLayer.register_oot(name="VocabParallelEmbedding")(MyEmbedding)


def again() -> str:
    """What vLLM says of two packages that are both not ours."""
    try:
        CustomOp.register_oot(_decorated_op_cls=MyRotaryEmbedding, name="RotaryEmbedding")
    except AssertionError as error:
        return str(error)
    return ""


def over_a_users() -> str:
    """Theirs for a layer that `replace` was called for."""
    anyop.vllm.replace("QuickGELU", over_a_users)
    try:
        CustomOp.register_oot(_decorated_op_cls=MyGelu, name="QuickGELU")
    except anyop.InvalidArgument as error:
        return str(error)
    return ""


def made(*custom_ops: str) -> dict[str, Any]:
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=list(custom_ops)))
    x, places = torch.ones(2, 64), torch.arange(2)
    with set_current_vllm_config(config):
        layers = {
            "RotaryEmbedding": rotary_embedding.RotaryEmbedding(32, 32, 64, 1e4, True, x.dtype),
            "SiluAndMul": activation.SiluAndMul(),
            "GELU": activation.GELU(),
        }
        answers = [layers["RotaryEmbedding"](places, x, x), layers["SiluAndMul"](x)]
        answers += [layers["GELU"](x), ModelLayer()()]
        model = torch.nn.ModuleList([*layers.values(), activation.NewGELU()])
        lines = [line for line in _explain.lines(model, ["all"]) if line.kind == "layer"]
    return {
        "answers": [one if isinstance(one, str) else "vLLM's" for one in answers],
        "why": {line.name: line.why for line in lines},
        "replaced": [line.name for line in lines if line.replaced],
    }


def main() -> None:
    order = (register_theirs, _classes.register)
    for register in order if sys.argv[1] == "theirs" else reversed(order):
        register()
    found = {"on": made("all"), "off": made("none"), "again": again(), "user": over_a_users()}
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main()
