# SPDX-License-Identifier: Apache-2.0
"""Attention as models call it: keys repeated for groups of heads, masks that say "the past"."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop.torch._fx import call
from anyop.torch._memory import Writes
from anyop.torch._sizes import is_same
from anyop.torch.names.aten_composites import attend
from anyop.torch.names.aten_masks import Causal, causal

_aten = torch.ops.aten
_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)


def fuse(module: GraphModule) -> None:
    writes = Writes(module.graph)
    for node in list(module.graph.nodes):
        if node.target is _ATTENTION:
            _attention(module, node, writes)


def _attention(module: GraphModule, node: Node, writes: Writes) -> None:
    names = ("query", "key", "value", "dropout_p", "is_causal")
    given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    q, k, v = given["query"], given["key"], given["value"]
    mask, is_causal = given.get("attn_mask"), bool(given.get("is_causal"))
    used = [user for user in node.users if user.users]
    if given.get("dropout_p") or any(user.args[1] != 0 for user in used) or len(used) != 1:
        return
    form = _form(module, q, k, mask, is_causal)
    if form is None:
        return
    offset = _as_read(module, form, node, writes)
    if offset is None and form.offset is not None:
        return
    k, v = _not_repeated(k, v, node, writes)
    args = (q, k, v, offset, form.shift, form.window, given.get("scale"))
    made = call(module.graph, attend, args, node)
    made.meta.update(val=used[0].meta["val"], operator=node.target)
    used[0].replace_all_uses_with(made)
    for dead in (*node.users, node):  # torch says that it may be random: nobody else removes it
        module.graph.erase_node(dead)


def _form(module: GraphModule, q: Node, k: Node, mask: Any, is_causal: bool) -> Causal | None:
    s, t = (n.meta["val"].shape[2] for n in (q, k))
    if is_causal:
        return Causal("last") if mask is None and is_same(s, t) else None
    if mask is None:
        return Causal(None)
    return causal(module, mask, s, t)


def _as_read(module: GraphModule, form: Causal, node: Node, writes: Writes) -> Any:
    """A mask's number as it was when the mask was made; None where it was two."""
    if not isinstance(form.offset, Node):
        return form.offset
    readers = list(form.readers)
    first = writes.first(readers)
    if not writes.between(form.offset, first, node):
        return form.offset
    if writes.between(form.offset, first, writes.last(readers)):
        return None
    return call(module.graph, _aten.clone.default, (form.offset,), first)


def _not_repeated(k: Node, v: Node, node: Node, writes: Writes) -> tuple[Node, Node]:
    """Keys and values [b, h, t, d] from before each head was repeated."""
    keys, values = _repeated(k), _repeated(v)
    if keys is None or values is None:
        return k, v
    is_alike = is_same(keys.meta["val"].shape[1], values.meta["val"].shape[1])
    is_written = writes.between(keys, k, node) or writes.between(values, v, node)
    return (keys, values) if is_alike and not is_written else (k, v)


def _repeated(node: Node) -> Node | None:
    """x [b, h, t, d] of x[:, :, None].expand(b, h, g, t, d).reshape(b, h*g, t, d)."""
    value, at = node.meta["val"], node
    while at.target in (*_RESHAPED, _aten.clone.default) and at.meta["val"].dim() == 4:
        at = at.args[0]  # type: ignore[assignment]
    while at.target is _aten.clone.default:
        at = at.args[0]  # type: ignore[assignment]
    if at.target is not _aten.expand.default or at.meta["val"].dim() != 5:
        return None
    row: Any = at.args[0]
    wide, shape = at.meta["val"].shape, row.meta["val"].shape
    is_group = is_same(shape[2], 1) and all(is_same(shape[i], wide[i]) for i in (0, 1, 3, 4))
    is_same_row = is_same(wide[1] * wide[2], value.shape[1]) and is_same(wide[3], value.shape[2])
    if row.target is not _aten.unsqueeze.default or int(row.args[1]) % 5 != 2:
        return None
    return row.args[0] if is_group and is_same_row else None
