# SPDX-License-Identifier: Apache-2.0
"""Small models of many kinds with random weights, and the tokens that transformers makes of them.

A row is the name of a configuration of transformers and what differs from `COMMON` in it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TOKENS = 8
VOCABULARY = 384
COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 192,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 96}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
    "original_max_position_embeddings": 128,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
SHARED = {"tie_word_embeddings": True}
DEEPSEEK = {
    "num_hidden_layers": 3, "num_key_value_heads": 4, "kv_lora_rank": 64, "q_lora_rank": 48,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 96,
    "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1,
}  # fmt: skip


class Row(NamedTuple):
    config: str
    settings: dict[str, Any]
    leaves_out: tuple[str, ...] = ()  # of COMMON


MODELS = {
    "llama3_rope_80": Row("LlamaConfig", {"head_dim": 80, "rope_parameters": LLAMA3}),
    "llama_yarn_32": Row("LlamaConfig", {"head_dim": 32, "rope_parameters": YARN}),
    "llama_linear_128": Row("LlamaConfig", {"head_dim": 128, "rope_parameters": LINEAR}),
    "llama_64": Row("LlamaConfig", {"head_dim": 64, **SHARED}),
    "mistral_window": Row("MistralConfig", {"head_dim": 32, "sliding_window": 48}),
    "qwen2": Row("Qwen2Config", SHARED),
    "qwen3": Row("Qwen3Config", {"head_dim": 32}),
    "gemma2": Row("Gemma2Config", {"head_dim": 32, "sliding_window": 48, **SHARED}),
    "gemma3": Row("Gemma3TextConfig", {"head_dim": 32, "sliding_window": 48, **SHARED}),
    "phi3": Row("Phi3Config", {}),
    "gpt_neox": Row("GPTNeoXConfig", {"rotary_pct": 0.25}, ("num_key_value_heads",)),
    "gptj": Row(
        "GPTJConfig",
        {"n_embd": 128, "n_layer": 2, "n_head": 4, "n_positions": 512, "rotary_dim": 16},
        ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
    ),
    "bloom_alibi": Row(
        "BloomConfig",
        {"hidden_size": 128, "n_layer": 2, "n_head": 4, **SHARED},
        ("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    ),
    "mixtral": Row("MixtralConfig", {"num_local_experts": 8, "num_experts_per_tok": 2}),
    "qwen3_moe": Row("Qwen3MoeConfig", {"head_dim": 32, **EXPERTS}),
    # Experts of a size that vLLM's own grouped kernels do not take.
    "qwen3_moe_40": Row("Qwen3MoeConfig", {"head_dim": 32, **EXPERTS, "moe_intermediate_size": 40}),
    "gpt_oss_sinks": Row(
        "GptOssConfig",
        {"head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 48},
    ),
    "deepseek_v2": Row(
        "DeepseekV2Config",
        {**DEEPSEEK, "norm_topk_prob": False, "topk_method": "group_limited_greedy"},
    ),
    # Of the one size that vLLM's backends for latent attention take.
    "deepseek_v2_576": Row(
        "DeepseekV2Config",
        {
            **DEEPSEEK,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "norm_topk_prob": False,
            "topk_method": "group_limited_greedy",
        },
    ),
    # vLLM reads two settings that transformers leaves out.
    "deepseek_v3": Row(
        "DeepseekV3Config", {**DEEPSEEK, "topk_method": "noaux_tc", "scoring_func": "sigmoid"}
    ),
}
# What ./check runs; the rest is for --all.
DEFAULT = ("llama3_rope_80", "gemma2", "qwen3_moe", "gpt_oss_sinks")


def prompts() -> list[list[int]]:
    """Of 1 to 300 tokens; the last two begin alike, for the cache of prefixes."""
    lengths = (1, 5, 33, 300)
    made = [[3 + (7 * i * i + 11 * i + n) % (VOCABULARY - 3) for i in range(n)] for n in lengths]
    return [*made, made[-1][:160] + [5, 6, 7]]


def make(name: str, folder: Path) -> None:
    """Saves the model of a row with weights that make tokens differ."""
    import torch
    import transformers

    row = MODELS[name]
    common = {key: value for key, value in COMMON.items() if key not in row.leaves_out}
    config = getattr(transformers, row.config)(**{**common, **row.settings})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("bias"):
                parameter.normal_(0, 0.1)
            elif parameter.dim() > 1:  # else a tied model repeats what it reads
                parameter.normal_(0, 0.02 if "embed" in key or "wte" in key else 0.25)
            else:
                parameter.uniform_(0.5, 1.5)
        for key, buffer in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                buffer.uniform_(-0.1, 0.1)
    model.save_pretrained(folder)


def expected(folder: Path, prepare: Callable[[Any], None] = lambda model: None) -> list[list[int]]:
    """What transformers continues each prompt with, each alone and without a cache. prepare:
    changes the model before.
    """
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prepare(model)
    made = []
    with torch.no_grad():
        for prompt in prompts():
            ids = torch.tensor([prompt])
            for _ in range(TOKENS):
                logits = model(ids, use_cache=False).logits[:, -1]
                ids = torch.cat([ids, logits.argmax(-1, keepdim=True)], 1)
            made.append(ids[0, len(prompt) :].tolist())
    return made
