# SPDX-License-Identifier: Apache-2.0
"""What engines say of models and options that ask for kernels that are not there: FOLDER NAME...

Weights are vLLM's own dummies. Run by vLLM's Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyop.vllm
from engine_program import OPTIONS

LLAMA = {
    "vocab_size": 128, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
    "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
STATES = {
    "vocab_size": 128, "hidden_size": 128, "num_hidden_layers": 1, "tie_word_embeddings": False,
}  # fmt: skip
NEXT = {
    **STATES, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 32, "intermediate_size": 256, "moe_intermediate_size": 64, "num_experts": 4,
    "num_experts_per_tok": 2, "shared_expert_intermediate_size": 64, "linear_num_key_heads": 4,
    "linear_num_value_heads": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "architectures": ["Qwen3NextForCausalLM"],
}  # fmt: skip
# A configuration of transformers, what differs in it, and options of the engine.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "plain": ("LlamaConfig", LLAMA, {}),
    "fp8": ("LlamaConfig", LLAMA, {"quantization": "fp8", "dtype": "bfloat16"}),
    "mamba": ("MambaConfig", {**STATES, "architectures": ["MambaForCausalLM"]}, {}),
    "mamba2": (
        "Mamba2Config",
        {**STATES, "num_heads": 8, "head_dim": 32, "n_groups": 1, "state_size": 32,
         "architectures": ["Mamba2ForCausalLM"]},
        {},
    ),
    "qwen3_next": ("Qwen3NextConfig", NEXT, {}),
    "ngram": (
        "LlamaConfig", LLAMA,
        {"speculative_config": {"method": "ngram", "num_speculative_tokens": 2,
                                "prompt_lookup_max": 3}},
    ),
}  # fmt: skip


def attempt(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The error of an engine's start, or the number of tokens of a request."""
    from vllm import LLM, SamplingParams

    try:
        llm = LLM(str(folder), load_format="dummy", **{**OPTIONS, **options})
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    sampling = SamplingParams(temperature=0, max_tokens=3, ignore_eos=True, detokenize=False)
    (made,) = llm.generate({"prompt_token_ids": [3, 4, 5]}, sampling, use_tqdm=False)
    counted = {line["name"]: line["calls"] for line in anyop.vllm.explain(llm)[0]["lines"]}
    return {"tokens": len(made.outputs[0].token_ids), "calls": counted}


def main() -> None:
    import transformers
    from vllm.distributed import cleanup_dist_env_and_memory

    found = {}
    for name in sys.argv[2:]:
        config, settings, options = CASES[name]
        folder = Path(sys.argv[1]) / name
        getattr(transformers, config)(**settings).save_pretrained(folder)
        found[name] = attempt(folder, options)
        cleanup_dist_env_and_memory()
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
