# SPDX-License-Identifier: Apache-2.0
"""Text that comes with Python itself: the language reference behind `help()`."""

from __future__ import annotations

from collections.abc import Iterator
from pydoc_data.topics import topics

import torch
from torch import Tensor


def text() -> str:
    """About 700 kB, the topics in alphabetical order."""
    return "\n\n".join(topics[name] for name in sorted(topics))


def batches(
    ids: list[int], sequences: int, length: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (inputs, targets), each i64[sequences, length], from random places, for ever."""
    if len(ids) <= length:
        raise ValueError(f"The text has {len(ids)} tokens, but must have more than {length}.")
    stream = torch.tensor(ids)
    random = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(ids) - length, (sequences, 1), generator=random)
        window = stream[starts + torch.arange(length + 1)]
        yield window[:, :-1].contiguous(), window[:, 1:].contiguous()
