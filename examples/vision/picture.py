# SPDX-License-Identifier: Apache-2.0
"""The image that the encoder looks at, and a picture of what it makes of it."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import torch
from torch import Tensor

matplotlib.use("Agg")  # a file, no window
import matplotlib.pyplot as plt  # noqa: E402


def draw(height: int, width: int) -> Tensor:
    """A sun over hills: [3, height, width], red, green and blue from 0 to 1."""
    y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
    image = torch.stack((0.5 + 0.3 * y, 0.7 + 0.2 * y, 1 - 0.2 * y))  # the sky
    sun = (x - 0.72) ** 2 + (y - 0.28) ** 2 < 0.02
    image[:, sun] = torch.tensor([1.0, 0.85, 0.2])[:, None]
    far = y > 0.62 - 0.1 * torch.sin(7 * x)
    near = y > 0.75 + 0.08 * torch.sin(5 * x + 2)
    image[:, far] = torch.tensor([0.35, 0.55, 0.3])[:, None]
    image[:, near] = torch.tensor([0.15, 0.4, 0.15])[:, None]
    return image


def normalized(image: Tensor) -> Tensor:
    """With the mean and deviation of the images that the model knows."""
    mean = torch.tensor([0.48145466, 0.4578275, 0.40821073])
    deviation = torch.tensor([0.26862954, 0.26130258, 0.27577711])
    return (image - mean[:, None, None]) / deviation[:, None, None]


def write(image: Tensor, tokens: Tensor, columns: int, path: Path) -> None:
    """The image, and beside it each token in the colours of the tokens' three main directions."""
    directions = torch.linalg.svd(tokens - tokens.mean(0), full_matrices=False)[0][:, :3]
    low, high = directions.min(0).values, directions.max(0).values
    colours = ((directions - low) / (high - low)).view(-1, columns, 3)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    left.imshow(image.permute(1, 2, 0).numpy())
    left.set_title("what the encoder sees")
    right.imshow(colours.numpy())
    right.set_title("its tokens, by their three main directions")
    for axes in (left, right):
        axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)
