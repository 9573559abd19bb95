# SPDX-License-Identifier: Apache-2.0
"""Numbers of a module that Dynamo passes as arguments, as constants that are checked at each call.

Where sizes vary, Dynamo makes a tensor f64[] of each float that a program reads, an eps for
instance. Such a number hardly ever changes: a graph is made for its value.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node

from anyop.torch._nodes.fold import PREFIX
from anyop.torch._nodes.memory import written_by

_CASTS = (torch.ops.prims.convert_element_type.default, torch.ops.aten._to_copy.default)


class Numbers:
    """The numbers of one program. values: by place of the argument."""

    def __init__(self) -> None:
        self.values: dict[int, float] = {}
        # Places of numbers that changed once: they stay arguments, so that the graph is not made
        # anew at each change.
        self.varied: set[int] = set()

    def fix(self, module: GraphModule, args: Any) -> None:
        """Replaces the numbers of a program by what they are in a call."""
        self.varied |= {i for i, value in self.values.items() if not is_same(args[i], value)}
        self.values = {}
        graph = module.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for i, node in enumerate(placeholders):
            if i in self.varied or not _is_number(node):
                continue
            self.values[i] = float(args[i])
            name = f"{PREFIX}number_{i}"
            module.register_buffer(name, args[i].detach().clone(), persistent=False)
            with graph.inserting_after(placeholders[-1]):
                made = graph.get_attr(name)
            with detect_fake_mode(node.meta["val"]) or contextlib.nullcontext():
                made.meta = {"val": torch.empty((), dtype=torch.float64)}
            node.replace_all_uses_with(made)


def is_same(tensor: Any, value: float) -> bool:
    number = float(tensor)
    return number == value or (math.isnan(number) and math.isnan(value))


def _is_number(node: Node) -> bool:
    """Whether an argument can be a float of the program: all that is done with it is a cast."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() or value.dtype != torch.float64:
        return False
    if value.device.type != "cpu" or not node.users:
        return False
    return all(u.target in _CASTS and not written_by(u) for u in node.users)
