# SPDX-License-Identifier: Apache-2.0
"""A sigmoid with its gradient, written in Python, as a module of torch that trains.

python -m examples.sigmoid_module
"""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import torch
from anyop.torch import nn


# The gradient is an operator as well: dy is the gradient of y, dx that of x.
@anyop.define("sigmoid2_backward(dy: T[...], y: T[...]) -> (dx: T[...]?) where T in f32 | f64")
def sigmoid2_backward(dy: Any, y: Any) -> Any:
    return dy * y * (1 - y)


@anyop.define(
    "sigmoid2(x: T[...]) -> (y: T[...]) where T in f32 | f64", gradient="sigmoid2_backward"
)
def sigmoid2(x: Any) -> Any:
    """sigmoid2: 1 / (1 + exp(-x)), for torch tensors and NumPy arrays."""
    exp = torch.exp if isinstance(x, torch.Tensor) else np.exp
    return 1 / (1 + exp(-x))


Sigmoid2 = nn.module_of(sigmoid2)


def train(activation: torch.nn.Module, compiled: bool, steps: int = 60) -> list[float]:
    """Losses of a small network that learns whether points lie in a circle."""
    torch.manual_seed(0)
    points = torch.rand(256, 2) * 2 - 1
    inside = (points.square().sum(1, keepdim=True) < 0.5).float()
    model = torch.nn.Sequential(nn.Linear(2, 16), activation, nn.Linear(16, 1), activation)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)

    def loss_of(points: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.binary_cross_entropy(model(points), inside)

    step = torch.compile(loss_of, fullgraph=True) if compiled else loss_of
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = step(points)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    print(torch.autograd.gradcheck(sigmoid2, x), sigmoid2(np.zeros(2)))
    ours, theirs = train(Sigmoid2(), False), train(torch.nn.Sigmoid(), False)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    np.testing.assert_allclose(train(Sigmoid2(), True), ours, rtol=1e-3)
    print(f"loss {ours[0]:.3f} -> {ours[-1]:.3f}, eager and compiled, as with torch.nn.Sigmoid")


if __name__ == "__main__":
    main()
