# SPDX-License-Identifier: Apache-2.0
"""Modules of anyop.torch.nn and the operators behind them."""

from __future__ import annotations

from collections.abc import Callable

import torch

# A module without parameters of its own: one tensor in, the operator's options, one tensor out. A
# row whose operator is not there is skipped.
REGULAR = {
    "SiluAndMul": "silu_and_mul",
    "Gelu": "gelu",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
}

# A module written by hand: what it calls its operators, and their names.
OPERATORS = {
    "RMSNorm": {"norm": "rms_norm", "add_norm": "add_rms_norm"},
    "RotaryEmbedding": {
        "rotate": "rope",
        "rotate_in_place": "rotary_embedding",
        "table": "rotary_cache",
    },
    "Linear": {"linear": "linear", "pack": "pack_weight", "packed": "linear_packed"},
    "Embedding": {"embedding": "embedding"},
    "Attention": {
        "attention": "attention",
        "paged": "paged_attention",
        "store": "reshape_and_cache",
    },
}

# The activations that linear applies to its sum, as functions that torch differentiates: linear's
# own gradient has none of them.
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu2": lambda x: torch.relu(x).square(),
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "sigmoid": torch.sigmoid,
}

# The rope_type of a model's configuration (transformers, vLLM), and the kind of the table.
ROPE_KINDS = {
    "default": "default",
    "linear": "linear",
    "ntk": "ntk",
    "dynamic": "dynamic_factor",
    "yarn": "yarn",
    "deepseek_yarn": "deepseek_yarn",
    "deepseek_llama_scaling": "deepseek_yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "proportional": "proportional",
}

# The other keys of such a configuration, and the parameters of the operator that makes the table.
ROPE_KEYS = {
    "rope_theta": "base",
    "factor": "factor",
    "alpha": "alpha",
    "mixed_b": "mixed_b",
    "original_max_position_embeddings": "original_max_position",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "extrapolation_factor": "extrapolation",
    "truncate": "truncate",
    "attn_factor": "attn_factor",
    "attention_factor": "attn_factor",
    "apply_yarn_scaling": "apply_yarn_scaling",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
}
