# SPDX-License-Identifier: Apache-2.0
"""A tiny model with an adapter, and the same with the adapter merged. Run by vLLM's Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyop.vllm
import torch
from engine_program import OPTIONS, TOKENS, make_model

PROMPT, RANK, ALPHA = [3, 4, 5, 6, 7], 4, 8
PARTS = ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj")


def make_adapter(model: Path, adapter: Path, merged: Path) -> None:
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    torch.manual_seed(1)
    tensors = {}
    with torch.no_grad():
        for i, layer in enumerate(loaded.model.layers):
            for part in PARTS:
                weight = layer.get_submodule(part).weight
                a, b = torch.randn(RANK, weight.shape[1]), torch.randn(weight.shape[0], RANK)
                a, b = a * 0.2, b * 0.2
                weight += b @ a * (ALPHA / RANK)
                name = f"base_model.model.model.layers.{i}.{part}"
                tensors[f"{name}.lora_A.weight"], tensors[f"{name}.lora_B.weight"] = a, b
    loaded.save_pretrained(merged)
    adapter.mkdir()
    save_file(tensors, adapter / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none",
        "target_modules": [part.rpartition(".")[2] for part in PARTS],
    }  # fmt: skip
    (adapter / "adapter_config.json").write_text(json.dumps(config))


def tokens_of(llm: Any, *requests: Any) -> list[list[int]]:
    """Of the prompt with each adapter, all at once; None is none."""
    from vllm import SamplingParams

    sampling = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    prompts = [{"prompt_token_ids": PROMPT} for _ in requests]
    made = llm.generate(prompts, sampling, use_tqdm=False, lora_request=list(requests))
    return [list(one.outputs[0].token_ids) for one in made]


def main() -> None:
    from vllm import LLM
    from vllm.distributed import cleanup_dist_env_and_memory
    from vllm.lora.request import LoRARequest

    folder = Path(sys.argv[1])
    model, adapter, merged = folder / "model", folder / "adapter", folder / "merged"
    make_model(model)
    make_adapter(model, adapter, merged)
    llm = LLM(str(model), enable_lora=True, max_lora_rank=8, **OPTIONS)
    one = LoRARequest("one", 1, str(adapter))
    found: dict[str, Any] = {
        "base": tokens_of(llm, None),
        "adapter": tokens_of(llm, one),
        "mixed": tokens_of(llm, None, one, None),
        "lora": {row.op: row.calls for row in anyop.counters() if "lora" in row.op},
        "lines": {line["name"]: line for line in anyop.vllm.explain(llm)[0]["lines"]},
    }
    del llm
    cleanup_dist_env_and_memory()
    found["merged"] = tokens_of(LLM(str(merged), **OPTIONS), None)
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
