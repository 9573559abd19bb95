# SPDX-License-Identifier: Apache-2.0
"""A mixture of experts decodes the tokens of transformers' class, in every way to call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

anyop = pytest.importorskip("anyop")
torch = pytest.importorskip("torch")

from examples.moe.__main__ import TYPES  # noqa: E402
from examples.moe.model import Config, Decoder, greedy  # noqa: E402
from examples.moe.weights import random_weights  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
PROMPTS = [[3, 141, 59, 26, 5], [1], list(range(20, 45))]


def theirs(c: Config, weights: dict[str, Any]) -> Any:
    transformers = pytest.importorskip("transformers")
    model = transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(
            vocab_size=c.vocab,
            hidden_size=c.hidden,
            num_attention_heads=c.heads,
            num_key_value_heads=c.kv_heads,
            head_dim=c.head_dim,
            num_experts=c.experts,
            num_experts_per_tok=c.top,
            norm_topk_prob=True,
            moe_intermediate_size=c.expert_width,
            num_hidden_layers=c.layers,
            rms_norm_eps=c.eps,
            rope_parameters={"rope_type": "default", "rope_theta": c.rope_base},
            tie_word_embeddings=False,
            attention_bias=False,
        )
    )
    model.load_state_dict(weights, strict=True)
    return model.eval()


@torch.no_grad()
def test_tokens_are_those_of_transformers() -> None:
    c = Config()
    weights = random_weights(c)
    model = theirs(c, weights)
    for prompt in PROMPTS:
        ids = list(prompt)
        for _ in range(16):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        assert greedy(Decoder(c, weights).step, prompt, 16) == ids[len(prompt) :]


@torch.no_grad()
def test_captured_and_compiled_steps_give_the_tokens_of_eager_ones() -> None:
    c = Config()
    weights = random_weights(c, seed=1)
    captured = anyop.graph(Decoder(c, weights).step, *TYPES)
    compiled = torch.compile(Decoder(c, weights).step, backend="anyop", fullgraph=True)
    distinct = set()
    for prompt in PROMPTS:
        eager = greedy(Decoder(c, weights).step, prompt, 16)
        distinct |= set(eager)
        assert greedy(captured, prompt, 16) == eager
        assert greedy(compiled, prompt, 16) == eager
    assert len(distinct) > 8


@pytest.mark.slow
def test_the_program_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.moe"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("eager, captured and compiled steps give the same tokens\n")
