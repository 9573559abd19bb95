# SPDX-License-Identifier: Apache-2.0
"""The decoder over torch in more ways: other compilers of the plain PyTorch model, and the
LlamaForCausalLM of transformers with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .torch_model import DTYPES, TorchModel
from .weights import ModelFile


def inductor(file: ModelFile, dtype: str) -> TorchModel:
    return TorchModel(file, dtype, compiled=True)


def max_autotune(file: ModelFile, dtype: str) -> TorchModel:
    model = TorchModel(file, dtype, compiled=True)
    model._decode = model.step_by("inductor", {"max_autotune": True})
    return model


def through_anyop(file: ModelFile, dtype: str) -> TorchModel:
    return TorchModel(file, dtype, compiled="anyop")


class TransformersModel:
    """LlamaForCausalLM, eager, with its own cache."""

    def __init__(self, file: ModelFile, dtype: str) -> None:
        import transformers

        c = file.config
        config = transformers.LlamaConfig(
            hidden_size=c.hidden, intermediate_size=c.ffn, num_hidden_layers=c.layers,
            num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, vocab_size=c.vocab,
            max_position_embeddings=c.context, rms_norm_eps=c.eps,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
            rope_theta=c.rope_base, tie_word_embeddings="output.weight" not in file.tensors,
        )  # fmt: skip
        self._cache = transformers.DynamicCache
        self._model = transformers.LlamaForCausalLM(config).to(DTYPES[dtype]).eval()
        weights = {k: torch.tensor(w).to(DTYPES[dtype]) for k, w in self._named(file).items()}
        left = self._model.load_state_dict(weights, strict=False)
        if left.unexpected_keys or set(left.missing_keys) - {"lm_head.weight"}:
            raise RuntimeError(f"transformers names its weights otherwise: {left}")
        self.reset()

    @staticmethod
    def _named(file: ModelFile) -> dict[str, Any]:
        """The file's weights under transformers' names."""
        c, names = file.config, {}
        parts = {
            "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
        }  # fmt: skip
        for i in range(c.layers):
            for ours, theirs in parts.items():
                w = file.tensors[f"blk.{i}.{ours}.weight"]
                if ours in ("attn_q", "attn_k"):  # neighbours to halves
                    w = w.reshape(-1, c.head_dim // 2, 2, c.hidden).swapaxes(1, 2)
                    w = w.reshape(-1, c.hidden)
                names[f"model.layers.{i}.{theirs}.weight"] = w
        names["model.embed_tokens.weight"] = file.tensors["token_embd.weight"]
        names["model.norm.weight"] = file.tensors["output_norm.weight"]
        if "output.weight" in file.tensors:
            names["lm_head.weight"] = file.tensors["output.weight"]
        return names

    def reset(self) -> None:
        self._past = self._cache()

    @torch.inference_mode()
    def forward(self, ids: Any) -> Any:
        """Appends ids[t]; returns the last token's logits f32[1, vocab]."""
        tokens = torch.from_numpy(np.asarray(ids, np.int64))[None]
        made = self._model(tokens, past_key_values=self._past, use_cache=True, logits_to_keep=1)
        return made.logits[:, -1].float()
