# SPDX-License-Identifier: Apache-2.0
"""What a call with MindSpore's tensors costs, beside MindSpore's own operators."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np

import anyop
from anyop.bench.commands.interleave import Row, chain, interleave

CHAIN = 20


def measure(calls: int = 500) -> list[Row]:
    """Minimum over interleaved rounds, tensors of 4 floats; no call returns before it is done."""
    mindspore.runtime.launch_blocking()
    ours, theirs = anyop.ops.anyop.add, mindspore.ops.add
    names: dict[str, Any] = {
        "anyop_add": ours,
        "ms_add": theirs,
        "graph_anyop": mindspore.jit(chain(anyop.add, CHAIN)),
        "graph_ms": mindspore.jit(chain(mindspore.ops.add, CHAIN)),
        **{
            name: mindspore.Tensor(np.full(4, value, np.float32))
            for name, value in {"a": 1, "b": 2, "c": 0}.items()
        },
    }
    own, graph = "mindspore.ops.add(a, b)", f"mindspore.jit of {CHAIN} mindspore.ops.add"
    return interleave(
        [
            (own, "ms_add(a, b)", ""),
            (graph, "graph_ms(a, b).asnumpy()", ""),
            ("anyop.add(a, b, out=c), MindSpore's tensors", "anyop_add(a, b, out=c)", own),
            ("anyop.add(a, b), MindSpore's tensors", "anyop_add(a, b)", own),
            (f"mindspore.jit of {CHAIN} anyop.add", "graph_anyop(a, b).asnumpy()", graph),
        ],
        names,
        calls,
    )
