# SPDX-License-Identifier: Apache-2.0
"""MindSpore as a host: every operator of every loaded library takes MindSpore's tensors.

    y = anyop.rms_norm(x, weight)            # mindspore.Tensor in, mindspore.Tensor out
    anyop.rms_norm(x, weight, out=y)         # writes y
    mindspore.grad(loss)(x)                  # by the operator's own gradient

It starts by itself once anyop and mindspore are both imported, in either order.
"""

from __future__ import annotations

from typing import Any

from mindspore.graph._parse.resources import convert_object_map as _builtins_in_graphs

import anyop
from anyop import _anyop
from anyop.hosting.facts import Operator
from anyop.mindspore import _graph, _node, _tensors

__all__ = ["ModuleWrapper", "register_new"]

_known: set[str] = set()


def register_new() -> None:
    """Makes operators known to MindSpore's parser that were loaded or defined meanwhile."""
    for name, function in list(_anyop.functions().items()):
        if name not in _known:
            _known.add(name)
            op = Operator(name)
            _builtins_in_graphs[function] = _node.function_of(op)
            getattr(anyop.ops[op.library], op.short_name)  # the parser sees what is there already


class ModuleWrapper:
    """`ModuleWrapper(name, module)` is the module, for scripts that wrap what graphs call."""

    def __new__(cls, name: str, module: Any) -> Any:
        return module


_builtins_in_graphs[ModuleWrapper] = _graph.unwrap
_tensors.start()
register_new()
