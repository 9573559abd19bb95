# SPDX-License-Identifier: Apache-2.0
"""Models served by vLLM, one after the other in this process, beside transformers' tokens.

    models_program.py FOLDER '["llama_64"]' '{"enforce_eager": true}'

Run by vLLM's Python.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import models

OPTIONS = {
    "skip_tokenizer_init": True, "max_model_len": 384, "dtype": "float32", "block_size": 32,
    "kv_cache_memory_bytes": 1 << 25, "max_num_seqs": 4, "seed": 0, "enforce_eager": True,
    "max_num_batched_tokens": 128, "enable_prefix_caching": True, "enable_chunked_prefill": True,
}  # fmt: skip


def serve(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Tokens of all prompts together, then of each alone, which finds the others' prefixes."""
    import anyop
    from anyop.vllm import _dropin
    from vllm import LLM, SamplingParams
    from vllm.model_executor.layers import rotary_embedding

    rotary_embedding._ROPE_DICT.clear()  # a process has one engine, as a rule
    anyop.reset_counters()
    llm = LLM(model=str(folder), **{**OPTIONS, **options})
    sampling = SamplingParams(
        temperature=0, max_tokens=models.TOKENS, ignore_eos=True, detokenize=False
    )

    def tokens(prompts: list[list[int]]) -> list[list[int]]:
        asked = [{"prompt_token_ids": prompt} for prompt in prompts]
        made = llm.generate(asked, sampling, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in made]

    prompts = models.prompts()
    return {
        "together": tokens(prompts),
        "alone": [tokens([prompt])[0] for prompt in prompts],
        "calls": {name: count for name, count in _dropin.counters().items() if count},
    }


def main() -> None:
    folder, names, options = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    found = {}
    for name in names:
        try:
            if not (folder / name / "config.json").exists():
                models.make(name, folder / name)
            wanted = models.expected(folder / name)
            found[name] = {"expected": wanted, **serve(folder / name, options)}
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        gc.collect()
        if name != names[-1]:
            from vllm.distributed import cleanup_dist_env_and_memory

            cleanup_dist_env_and_memory()
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
