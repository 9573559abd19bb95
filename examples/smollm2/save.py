# SPDX-License-Identifier: Apache-2.0
"""Saves the model for programs without Python: anyop-run and anyop generate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyop

from .generate import PREFILL_CHUNK
from .layers import Mixed
from .model import Fresh, Model
from .weights import ModelFile

# What each argument of a step is given; the loop of anyop-run knows these words.
INPUTS = {
    "ids": ("i64[t]", "tokens"),
    "positions": ("i64[t]", "positions"),
    "starts": ("i32[2]", "starts"),
    "seq_lens": ("i32[1]", "lengths"),
}


def weights(model: Model) -> dict[str, Any]:
    """What nobody changes, by the names that it has in the file."""
    named = {"embedding": model.embedding.rows, "norm": model.norm, "cos_sin": model.cos_sin}
    named["block_table"] = model.block_table
    if model.packed_head is not None:
        named["head"] = model.packed_head
    elif model.head is not model.embedding.rows:
        named["head"] = model.head
    for i, layer in enumerate(model.layers):
        named |= {
            f"layer{i}_attn_norm": layer.attn_norm,
            f"layer{i}_output": layer.output.packed,
            f"layer{i}_ffn_norm": layer.ffn_norm,
            f"layer{i}_gate_up": layer.gate_up.packed,
            f"layer{i}_down": layer.down.packed,
        }
        parts = layer.qkv.parts if isinstance(layer.qkv, Mixed) else [layer.qkv]
        for name, part in zip(("qkv", "k", "v"), parts, strict=False):
            named[f"layer{i}_{name}"] = part.packed
    return named


def caches(model: Model) -> dict[str, Any]:
    named = {}
    for i, layer in enumerate(model.layers):
        named |= {f"layer{i}_keys": layer.key_cache, f"layer{i}_values": layer.value_cache}
    return named


def step_graph(model: Model) -> anyop.Graph:
    """Appends any number of tokens to the sequence; returns the likeliest next one."""

    def step(ids: Any, positions: Any, starts: Any, seq_lens: Any) -> Any:
        return anyop.argmax(model._run(Fresh(model), ids, positions, starts, seq_lens))

    types = [kind for kind, _ in INPUTS.values()]
    return anyop.graph(step, *types, state=caches(model), frozen=weights(model))


def save(
    file: ModelFile, path: Path, dtype: str, max_tokens: int = 2048,
    progress: Callable[[int, int], object] | None = None,
) -> None:  # fmt: skip
    """Writes all that generating needs to the folder `path`; tells how many bytes of how many."""
    model = Model(file, dtype, max_tokens)
    decoder = {
        "prefill": "step", "decode": "step", "token": "out",
        "inputs": {name: role for name, (_, role) in INPUTS.items()},
        "chunk": PREFILL_CHUNK, "max_tokens": model.max_tokens, "end_ids": sorted(file.end_ids),
    }  # fmt: skip
    metadata = {
        "decoder": decoder, "tokenizer": "tokenizer.json", "chat_template": file.chat_template,
    }  # fmt: skip
    anyop.save_graphs(
        path, {"step": step_graph(model)}, metadata=metadata,
        files={"tokenizer.json": file.tokenizer.to_str()}, progress=progress,
    )  # fmt: skip
