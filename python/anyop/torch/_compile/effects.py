# SPDX-License-Identifier: Apache-2.0
"""Programs without torch's effect tokens: a graph keeps the order of what has an effect itself.

AOTAutograd passes an empty tensor from operator to operator of those that have one, as the check of
`torch.linalg.inv`, so that nothing changes their order. A call has None in its place.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects
from torch.fx import GraphModule, Node

from anyop.torch._nodes.sizes import Unconverted


def without_tokens(module: GraphModule) -> None:
    graph = module.graph
    for node in list(graph.nodes):
        if node.target is torch.ops.prims._sink_tokens.default:
            graph.erase_node(node)
        elif node.target is with_effects:
            _replace(node)
    for node in list(graph.nodes):
        if node.target is torch.ops.prims._make_token.default and not node.users:
            graph.erase_node(node)


def _replace(node: Node) -> None:
    graph, (token, op, *args) = node.graph, node.args
    if not isinstance(op, torch._ops.OpOverload):
        raise Unconverted(f"{op} has an effect")
    assert isinstance(token, Node)
    if token.op == "placeholder":
        token.meta["val"] = None
    with graph.inserting_before(node):
        call = graph.call_function(op, tuple(args), node.kwargs)
    _, *values = node.meta["val"]
    n = len(op._schema.returns)
    call.meta = {**node.meta, "val": None if n == 0 else values[0] if n == 1 else tuple(values)}
    for user in list(node.users):
        at: Any = user.args[1]
        if at and n > 1:
            user.args = (call, at - 1)
            continue
        user.replace_all_uses_with(call if at else token)
        graph.erase_node(user)
    graph.erase_node(node)
