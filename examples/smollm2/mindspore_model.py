# SPDX-License-Identifier: Apache-2.0
"""The decoder in MindSpore's graphs: a step is one node, whatever it computes, since MindSpore's
runtime takes some microseconds for each.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import anyop
import mindspore as ms
import numpy as np

from .model import Fresh, Model
from .weights import ModelFile


class MindSporeModel(Model):
    """One sequence at a time. Two graphs over the same Parameters: a step of one token, whose sizes
    MindSpore knows, and one of any number.
    """

    def __init__(
        self, file: ModelFile, dtype: str = "bf16", max_tokens: int = 2048,
        cache: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(file, dtype, max_tokens, host="mindspore", cache=cache)
        types = ("i64[t]", "i64[t]", "i32[2]", "i32[1]")
        step = anyop.graph(partial(self._run, Fresh(self)), *types, name="step")
        self.cell = anyop.mindspore.GraphCell(step)
        run = self.cell.construct
        self._one, self._any_number = ms.jit(run), ms.jit(run, dynamic=1)

    def forward(self, ids: Any, all_logits: bool = False) -> Any:
        """Appends the tokens ids[t] to the sequence. Returns logits [1, vocab]."""
        t, start = len(ids), self.length
        if all_logits or start + t > self.max_tokens:
            return super().forward(ids, all_logits)  # which refuses, or runs in PyNative
        tensor = self.host.tensor
        step = self._one if t == 1 else self._any_number
        logits = step(
            tensor(np.asarray(ids, np.int64)),
            tensor(np.arange(start, start + t)),
            tensor(np.array([0, t], np.int32)),
            tensor(np.array([start + t], np.int32)),
        )
        self.length = start + t
        return logits
