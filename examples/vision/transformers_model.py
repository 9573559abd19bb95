# SPDX-License-Identifier: Apache-2.0
"""The same encoder as transformers has it, with random weights from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .encoder import Shape, merge_order

SHAPE = Shape(heads=4, depth=3, patch=14, frames=2, merge=2)
WIDTH, OUTPUT = 320, 256  # heads of 80, as in the 7B model


def module(seed: int) -> Any:
    from transformers.models.qwen2_vl import modeling_qwen2_vl
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig

    torch.manual_seed(seed)
    config = Qwen2VLVisionConfig(
        depth=SHAPE.depth,
        embed_dim=WIDTH,
        num_heads=SHAPE.heads,
        hidden_size=OUTPUT,
        patch_size=SHAPE.patch,
        temporal_patch_size=SHAPE.frames,
        spatial_merge_size=SHAPE.merge,
    )
    model = modeling_qwen2_vl.Qwen2VisionTransformerPretrainedModel(config).eval()
    with torch.no_grad():  # biases and norms that would show if they were left out
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * (0.1 if weight.ndim == 1 else 0.02))
    return model


def tokens(model: Any, image: Tensor) -> Tensor:
    """What the module makes of an image, whose patches it wants as rows, in the tokens' order."""
    patch = SHAPE.patch
    rows, columns = image.shape[1] // patch, image.shape[2] // patch
    patches = image.view(3, rows, patch, columns, patch).permute(1, 3, 0, 2, 4).flatten(0, 1)
    patches = patches[merge_order(rows, columns, SHAPE.merge)]  # [t, 3, patch, patch]
    pixels = patches[:, :, None].expand(-1, -1, SHAPE.frames, -1, -1).flatten(1)
    with torch.no_grad():
        out = model(pixels, grid_thw=torch.tensor([[1, rows, columns]]))
    found: Tensor = out.pooler_output
    return found
