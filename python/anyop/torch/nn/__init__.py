# SPDX-License-Identifier: Apache-2.0
"""Modules on anyop's operators, with the parameter names of torch's and transformers' own.

    norm = anyop.torch.nn.RMSNorm(4096, eps=1e-5)
    y, residual = norm(x, residual)                # fused with the addition
    proj = anyop.torch.nn.Linear(4096, 11008, pack=True)   # a packed weight for inference
    rope = anyop.torch.nn.get_rope(64, 8192, rope_parameters=config.rope_parameters)

State dicts are those of the modules that they replace; all train, through the operators' gradients.
Modules of a single operator are made from the registry: `module_of` does it for your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyop.torch.nn._attention import Attention, PagedBatch
from anyop.torch.nn._embedding import Embedding
from anyop.torch.nn._linear import Linear
from anyop.torch.nn._norm import RMSNorm
from anyop.torch.nn._regular import module_of, regular_modules
from anyop.torch.nn._rotary import RotaryEmbedding, get_rope
from anyop.torch.patterns.nn import REGULAR

_regular = regular_modules(REGULAR, __name__)
globals().update(_regular)

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = [
    "Attention",
    "Embedding",
    "Linear",
    "PagedBatch",
    "RMSNorm",
    "RotaryEmbedding",
    "get_rope",
    "module_of",
]
__all__ += list(_regular)
