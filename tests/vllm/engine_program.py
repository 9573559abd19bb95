# SPDX-License-Identifier: Apache-2.0
"""Engines of a tiny model, one after the other in this process: their tokens, and what ran.

    engine_program.py FOLDER '[{"options": {...}, "prompts": [[1, 2]]}]'

Run by vLLM's Python.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

TOKENS = 8
OPTIONS = {
    "enforce_eager": True, "skip_tokenizer_init": True, "max_model_len": 256, "dtype": "float32",
    "kv_cache_memory_bytes": 1 << 25, "max_num_seqs": 4, "seed": 0,
}  # fmt: skip


def make_model(folder: Path) -> None:
    """A llama with random weights that are not all alike."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512,
        tie_word_embeddings=False, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
            else:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)


def make_tokenizer(folder: Path) -> None:
    """A token is a character."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = {chr(i): i for i in range(128)}
    tokenizer = Tokenizer(models.WordLevel(letters, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="?").save_pretrained(folder)


def serve(folder: Path, options: dict[str, Any], prompts: list[list[int]]) -> dict[str, Any]:
    import anyop
    from vllm import LLM, SamplingParams
    from vllm.model_executor.layers import rotary_embedding

    rotary_embedding._ROPE_DICT.clear()  # a process has one engine, as a rule
    anyop.reset_counters()
    llm = LLM(model=str(folder), **{**OPTIONS, **options})
    sampling = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    made = llm.generate([{"prompt_token_ids": p} for p in prompts], sampling, use_tqdm=False)
    report = anyop.vllm.explain(llm)
    return {
        "tokens": [list(output.outputs[0].token_ids) for output in made],
        "report": list(report),
        "text": str(report),
        "pid": os.getpid(),
    }


def main() -> None:
    folder, engines = Path(sys.argv[1]), json.loads(sys.argv[2])
    import anyop.vllm

    if not (folder / "config.json").exists():
        make_model(folder)
        make_tokenizer(folder)
    found = []
    for engine in engines:
        try:
            found.append(serve(folder, engine.get("options", {}), engine["prompts"]))
        except (ValueError, anyop.Error) as error:
            found.append({"error": f"{type(error).__name__}: {error}"})
        gc.collect()
        if engine is not engines[-1]:
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
