# SPDX-License-Identifier: Apache-2.0
"""How a graph of anyop's writes the type of a torch tensor."""

from __future__ import annotations

from typing import Any

import torch

from anyop.torch._dispatch.operators import DTYPES
from anyop.torch._nodes.sizes import Sizes, Unconverted

# Those that the rules for ATen's operators are written for. Tensors of others (unsigned, complex
# with their conjugates that are not computed yet) are left to torch, which calls our operators.
_OF_GRAPHS = frozenset(list(DTYPES)[:12])


def tensor_type(value: torch.Tensor, sizes: Sizes) -> str:
    """ "f32[s0, 4]"; throws Unconverted where a graph cannot hold such a tensor."""
    return f"{graph_dtype(value)}[{', '.join(str(sizes(n)) for n in value.shape)}]"


def graph_dtype(value: Any) -> str:
    if value.device.type != "cpu":
        raise Unconverted(
            f"tensors on {value.device} are left to torch: a graph of anyop's has tensors of the "
            "CPU here, and torch calls operators on a device one by one"
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise Unconverted(f"a tensor of {value.layout}{', quantized' * value.is_quantized}")
    if value.dtype not in _OF_GRAPHS or value.dim() > 8:  # kMaxRank of include/anyop/signature.h
        raise Unconverted(f"a tensor of {value.dtype} with {value.dim()} dimensions")
    return DTYPES[value.dtype]
