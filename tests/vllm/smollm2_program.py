# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 in bf16, served by vLLM: `smollm2_program.py FILE.gguf FOLDER`. Run by vLLM's Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

PROMPT = "The capital of France is"
TOKENS = 24


def main() -> None:
    from vllm import LLM, SamplingParams

    from examples.vllm.save import save

    file, folder = Path(sys.argv[1]), Path(sys.argv[2])
    save(file, folder)
    llm = LLM(
        model=str(folder), dtype="bfloat16", max_model_len=512, enforce_eager=True,
        kv_cache_memory_bytes=1 << 28, max_num_seqs=4,
    )  # fmt: skip
    sampling = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True)
    (made,) = llm.generate([PROMPT], sampling, use_tqdm=False)
    found = {"prompt": PROMPT, "count": TOKENS, "ids": list(made.outputs[0].token_ids)}
    print("RESULT", json.dumps({**found, "text": made.outputs[0].text}), flush=True)


if __name__ == "__main__":
    main()
