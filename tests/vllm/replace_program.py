# SPDX-License-Identifier: Apache-2.0
"""What `anyop.vllm.replace` refuses, and what it gives. Run by vLLM's Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop.vllm
import torch
import vllm
from anyop.vllm import _classes
from vllm.config import CompilationConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import CustomOp, op_registry_oot
from vllm.model_executor.layers import activation


def mine(x: torch.Tensor) -> torch.Tensor:
    return x[..., : x.shape[-1] // 2] * 0 + 7


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x[..., : x.shape[-1] // 2] * 0 + by


class Theirs(activation.FatreluAndMul):
    """Of another plug-in."""


class OwnSilu(activation.SiluAndMul):
    """Of a model."""


def refusal(call: Callable[[], Any]) -> str:
    try:
        call()
    except anyop.Error as error:
        return f"{type(error).__name__}: {error}"
    return ""


def made(*custom_ops: str) -> list[float]:
    """The first element of what layers give."""
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=list(custom_ops)))
    x = torch.ones(1, 4)
    with set_current_vllm_config(config):
        layers = activation.SiluAndMul(), activation.SwigluOAIAndMul(limit=3.0)
        return [round(float(layer(x)[0, 0]), 4) for layer in layers]


def unnamed() -> list[str]:
    """Layers that vLLM registers and `replace` does not find by their names."""
    root = Path(vllm.__path__[0]) / "model_executor"
    declared = re.compile(r"^@(?:CustomOp|PluggableLayer)\.register\([^)]*\)\s+class (\w+)", re.M)
    names = [n for file in root.rglob("*.py") for n in declared.findall(file.read_text())]
    assert len(names) > 40
    return [name for name in names if refusal(lambda n=name: _classes._find_class(n))]


def main() -> None:
    replace = anyop.vllm.replace
    replace("SiluAndMul", mine)  # before ours are registered, and after
    _classes.register()
    keys = [VllmConfig().compute_hash(), VllmConfig().compute_hash()]
    replace("SwigluOAIAndMul", scaled, by="limit")
    keys.append(VllmConfig().compute_hash())
    replace("SiluAndMul", mine)
    CustomOp.register_oot(_decorated_op_cls=Theirs, name="FatreluAndMul")
    replace("GeluAndMul", scaled, by="limitt")
    config = VllmConfig(compilation_config=CompilationConfig(custom_ops=["all"]))
    with set_current_vllm_config(config):
        attribute = refusal(lambda: activation.GeluAndMul())
        replace(OwnSilu, mine)
        own = float(OwnSilu()(torch.ones(1, 4))[0, 0])
    found = {
        "own_class": own,
        "keys": keys,
        "all": made("all"),
        "off": made("all", "-silu_and_mul"),
        "none": made("none"),
        "switch": op_registry_oot["SiluAndMul"].name,
        "unnamed": unnamed(),
        "unimported": refusal(lambda: replace("conv2d", mine)),
        "unknown": refusal(lambda: replace("SiluAndMull", mine)),
        "by_switch": refusal(lambda: replace("silu_and_mul", mine)),
        "no_function": refusal(lambda: replace("SiluAndMul", "my_silu")),  # type: ignore[arg-type]
        "other_function": refusal(lambda: replace("SiluAndMul", scaled, by="limit")),
        "other_plugin": refusal(lambda: replace("FatreluAndMul", mine)),
        "attribute": attribute,
    }
    print("RESULT", json.dumps(found))


if __name__ == "__main__":
    main()
