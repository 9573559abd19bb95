# SPDX-License-Identifier: Apache-2.0
"""python -m examples.lora: two adapters and none in one batch, beside merged weights."""

from __future__ import annotations

from examples.smollm2.weights import Config

from .adapters import AdaptedModel, greedy, merged, random_adapter, random_model

CONFIG = Config(
    layers=3, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=97, context=64,
    rope_base=10000.0, eps=1e-5,
)  # fmt: skip
PROMPTS = [[3, 14, 15], [9, 26, 53, 58], [9, 79], [3, 14, 15], [3, 14, 15]]
ASKED = [0, 1, -1, 1, -1]  # the adapter of each prompt


def main() -> None:
    file = random_model(CONFIG)
    adapters = [
        random_adapter(file, 4, 1, "attn_q", "attn_v"),
        random_adapter(file, 8, 2, "attn_k", "attn_output", "ffn_gate", "ffn_down"),
    ]
    batch = greedy(AdaptedModel(file, adapters, len(PROMPTS)), PROMPTS, ASKED, 24)
    for prompt, asked, tokens in zip(PROMPTS, ASKED, batch, strict=True):
        plain = merged(file, adapters[asked]) if asked >= 0 else file
        alone = greedy(AdaptedModel(plain, adapters, 1), [prompt], [-1], 24)[0]
        print(f"adapter {asked if asked >= 0 else 'none'}: {prompt} -> {tokens.tolist()}")
        assert tokens.tolist() == alone.tolist()
    print("a batch of two adapters and none gives the tokens of merged weights")


if __name__ == "__main__":
    main()
