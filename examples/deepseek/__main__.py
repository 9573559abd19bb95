# SPDX-License-Identifier: Apache-2.0
"""Trains a tiny model of DeepSeek-V3.2's shape, then decodes with sparse attention."""

from __future__ import annotations

import anyop
import torch

from .decode import TYPES, Decoder, greedy
from .model import Config, Model
from .train import sequence, train

STEPS, TOKENS = 300, 24


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more would wait for each other longer than they compute
    model = Model(Config())
    losses = train(model, STEPS)
    print(f"loss {losses[0]:.2f}, after {STEPS} steps {sum(losses[-10:]) / 10:.2f}")
    model.requires_grad_(False)
    prompt = sequence(model.c, 5, 8).tolist()
    dense = greedy(Decoder(model, None).step, prompt, TOKENS)
    print("dense:", dense)
    for name, top in (("all keys", 64), ("8 keys", 8)):
        eager = greedy(Decoder(model, top).step, prompt, TOKENS)
        captured = greedy(anyop.graph(Decoder(model, top).step, *TYPES), prompt, TOKENS)
        step = torch.compile(Decoder(model, top).step, backend="anyop", fullgraph=True)
        assert captured == eager
        assert greedy(step, prompt, TOKENS) == eager
        assert top < 64 or eager == dense
        print(f"sparse, {name}: {eager}")
    print("eager, captured and compiled steps agree; with all keys they are the dense ones")


if __name__ == "__main__":
    main()
