# SPDX-License-Identifier: Apache-2.0
"""Decodes with a tiny mixture of experts of random weights: eager, captured and compiled."""

from __future__ import annotations

import anyop
import torch

from .model import Config, Decoder, greedy
from .weights import random_weights

TYPES = ("i64[t]", "i64[t]", "i32[2]", "i32[1]")
PROMPT = [3, 141, 59, 26, 5]


def main() -> None:
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)  # more would wait for each other longer than they compute
    c = Config()
    weights = random_weights(c)
    eager = greedy(Decoder(c, weights).step, PROMPT, 24)
    captured = greedy(anyop.graph(Decoder(c, weights).step, *TYPES), PROMPT, 24)
    compiled = torch.compile(Decoder(c, weights).step, backend="anyop", fullgraph=True)
    print(f"{c.experts} experts, {c.top} for each token: {eager}")
    assert captured == eager
    assert greedy(compiled, PROMPT, 24) == eager
    print("eager, captured and compiled steps give the same tokens")


if __name__ == "__main__":
    main()
