# SPDX-License-Identifier: Apache-2.0
"""Training with anyop's operators and gradients agrees with training with PyTorch's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("anyop")
torch = pytest.importorskip("torch")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.finetune.corpus import batches, text  # noqa: E402
from examples.finetune.training import (  # noqa: E402
    Settings,
    Trainer,
    largest_difference,
    train,
)
from examples.smollm2.weights import Config  # noqa: E402

SMALL = Config(
    layers=2, hidden=96, heads=6, kv_heads=2, head_dim=16, ffn=160, vocab=131, context=64,
    rope_base=1e4, eps=1e-5,
)  # fmt: skip
IDS = [(i * i + i // 7) % SMALL.vocab for i in range(600)]
LOSS_BOUND = 2e-5
GRADIENT_BOUND = 2e-5  # of the largest element


def weights(c: Config) -> dict[str, Any]:
    random = np.random.default_rng(3)
    kv = c.kv_heads * c.head_dim
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (c.vocab, c.hidden)}
    norms = {"output_norm": (c.hidden,)}
    for i in range(c.layers):
        p = f"blk.{i}."
        norms |= {p + "attn_norm": (c.hidden,), p + "ffn_norm": (c.hidden,)}
        shapes |= {p + "attn_q": (c.hidden, c.hidden), p + "attn_output": (c.hidden, c.hidden)}
        shapes |= {p + "attn_k": (kv, c.hidden), p + "attn_v": (kv, c.hidden)}
        shapes |= {p + "ffn_gate": (c.ffn, c.hidden), p + "ffn_up": (c.ffn, c.hidden)}
        shapes |= {p + "ffn_down": (c.hidden, c.ffn)}
    made = {n: random.standard_normal(s) / s[-1] ** 0.5 for n, s in shapes.items()}
    made |= {n: 1 + 0.1 * random.standard_normal(s) for n, s in norms.items()}
    return {f"{n}.weight": w.astype(np.float32) for n, w in made.items()}


def settings(rank: int) -> Settings:
    return Settings(steps=5, sequences=3, length=17, rank=rank, learning_rate=1e-2, seed=1)


@pytest.mark.parametrize("rank", [0, 4])
def test_losses_and_gradients_at_the_same_weights_are_those_of_torch(rank: int) -> None:
    s = settings(rank)
    batch = batches(IDS, s.sequences, s.length, s.seed)
    trainers = {n: Trainer(n, SMALL, weights(SMALL), s) for n in ("anyop", "torch")}
    for _ in range(s.steps):
        at = next(batch)
        losses = [float(t.gradients(*at).detach()) for t in trainers.values()]
        assert abs(losses[0] - losses[1]) <= LOSS_BOUND
        ours, theirs = (dict(t.model.named_parameters()) for t in trainers.values())
        compared = 0
        for name, parameter in theirs.items():
            mine = ours[name].grad
            assert (mine is None) == (parameter.grad is None) == (not parameter.requires_grad)
            if mine is not None and parameter.grad is not None:
                scale = max(float(parameter.grad.abs().max()), 1e-6)
                error = float((mine - parameter.grad).abs().max())
                print(f"{name}: {error / scale:.1e}")
                assert error <= GRADIENT_BOUND * scale, f"{name}: {error:.2e} of {scale:.2e}"
                compared += 1
        assert compared == (8 * SMALL.layers if rank else 6 * SMALL.layers + 2)
        trainers["torch"].optimizer.step()
        trainers["anyop"].model.load_state_dict(trainers["torch"].model.state_dict())


@pytest.mark.slow
def test_training_lowers_the_loss_alike() -> None:
    s = settings(0)
    s.steps = 20
    runs = list(train(SMALL, weights(SMALL), s, batches(IDS, s.sequences, s.length, s.seed)))[-1]
    assert largest_difference(runs) <= 50 * LOSS_BOUND
    for run in runs.values():
        assert len(run.losses) == len(run.seconds) == 20
        assert np.mean(run.losses[-4:]) < np.mean(run.losses[:4]) - 0.2


def test_the_corpus_is_long_and_its_batches_follow_the_seed() -> None:
    assert len(text()) > 300_000
    inputs, targets = next(batches(IDS, 3, 17, 7))
    assert inputs.shape == targets.shape == (3, 17)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert torch.equal(inputs, next(batches(IDS, 3, 17, 7))[0])
    assert not torch.equal(inputs, next(batches(IDS, 3, 17, 8))[0])
    with pytest.raises(ValueError, match="has 5 tokens, but must have more than 17"):
        next(batches(IDS[:5], 3, 17, 0))
