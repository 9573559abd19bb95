# SPDX-License-Identifier: Apache-2.0
"""Generates with a model in vLLM, and counts the calls of our operator."""

import sys

import anyop.vllm
from vllm import LLM, SamplingParams

if __name__ == "__main__":  # vLLM starts processes, which import this file
    llm = LLM(sys.argv[1], max_model_len=256, kv_cache_memory_bytes=1 << 25)
    llm.generate("An operator is", SamplingParams(max_tokens=8, temperature=0))
    for worker in anyop.vllm.explain(llm):
        (silu,) = [line for line in worker["lines"] if line["name"] == "SiluAndMul"]
        print(f"worker {worker['rank']}: {silu['calls']} calls of {silu['operator']}")
