# SPDX-License-Identifier: Apache-2.0
"""Attention as models call it: keys repeated for groups of heads, masks that follow a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop.torch import _proof
from anyop.torch._fx import call, number, put
from anyop.torch._memory import Writes
from anyop.torch._sizes import is_same
from anyop.torch._trials import Trial
from anyop.torch.names import aten_composites as composites
from anyop.torch.names.aten_masks import Found, Rule, find, seen_by

_aten = torch.ops.aten
_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)
_KINDS = ("normal", "zeros", "small")


def fuse(module: GraphModule) -> None:
    made: dict[Any, Node] = {}
    writes = Writes(module.graph)
    for node in list(module.graph.nodes):
        if node.target is _ATTENTION:
            _Attention(module, node, writes, made).replace()


class _Attention:
    """One call. made: nodes that several calls share."""

    def __init__(
        self, module: GraphModule, node: Node, writes: Writes, made: dict[Any, Node]
    ) -> None:
        self.module, self.graph, self.node = module, module.graph, node
        self.writes, self.made = writes, made
        names = ("query", "key", "value", "dropout_p", "is_causal")
        given: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        self.q, self.k, self.v = given["query"], given["key"], given["value"]
        self.mask, self.scale = given.get("attn_mask"), given.get("scale")
        self.is_causal, self.has_dropout = bool(given.get("is_causal")), given.get("dropout_p")
        self.batch, _, self.s, _ = self.q.meta["val"].shape
        self.t = self.k.meta["val"].shape[2]

    def replace(self) -> None:
        used = [user for user in self.node.users if user.users]
        if len(used) != 1 or used[0].args[1] != 0:
            return
        if isinstance(self.scale, Node) or self.has_dropout:
            return
        found = self.rule()
        if found is None:
            return
        pairs = dict.fromkeys((_not_repeated(self.k, self.v), (self.k, self.v)))
        for k, v in pairs:
            if self.is_proven(used[0], k, v, found.rule):
                arguments = self.arguments(found)
                if arguments is not None:
                    function, row = arguments
                    made = put(self.graph, used[0], function, (self.q, k, v, *row), self.writes)
                    made.meta["operator"] = self.node.target
                    # torch says that it may be random: nobody else removes it.
                    for dead in (*self.node.users, self.node):
                        self.graph.erase_node(dead)
                return

    def rule(self) -> Found | None:
        if self.mask is None:
            if not self.is_causal:
                return Found(Rule("all"))
            return Found(Rule("last")) if is_same(self.s, self.t) else None
        if self.is_causal or self.writes.at_all(self.mask):
            return None
        found = find(self.module, self.mask, self.s, self.t)
        if found is None or found.rule.is_padded:
            return None
        if found.position is not None:
            # It is read where the first reader stands.
            first, last = self.writes.first([*found.readers]), self.writes.last([*found.readers])
            if self.writes.between(found.position, first, last):
                return None
        return found

    def is_proven(self, result: Node, k: Node, v: Node, rule: Rule) -> bool:
        """As a function of any mask that follows the rule."""
        masks = [] if self.mask is None else [self.mask]
        position = 1

        def given(trial: Trial) -> dict[Node, torch.Tensor]:
            q, keys = trial.tensors[0], trial.tensors[1]
            seen = seen_by(rule, q.shape[2], keys.shape[2], position)
            return {m: _as_mask(seen, t) for m, t in zip(masks, trial.tensors[3:], strict=True)}

        def replacement(trial: Trial) -> Any:
            q, keys, values = trial.tensors[:3]
            b, s, t = q.shape[0], q.shape[2], keys.shape[2]
            starts = composites.starts(b, s)
            is_causal, window = rule.base == "last", rule.window
            if rule.base in ("all", "last"):
                ends = composites.starts(b, t)
                return composites.attend(
                    q, keys, values, starts, ends, self.scale, is_causal, window
                )
            at = torch.tensor(position if rule.base == "at" else 0)
            blocks = composites.cache_blocks(b, s, t, rule.window)
            lengths = composites.cache_lengths(at, b, s, t, rule.shift, rule.window)
            return composites.attend_cache(
                q, keys, values, blocks, lengths, starts, self.scale, window
            )

        return _proof.holds(
            result, [self.q, k, v, *masks], replacement, f"attend {rule} {self.scale}",
            self.writes, values=given, kinds=_KINDS,
        )  # fmt: skip

    def arguments(self, found: Found) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """The function of queries, keys and values, and what else it is given."""
        rule, before = found.rule, self.node
        if found.position is not None:
            before = self.writes.first([*found.readers])
        sizes = [number(self.graph, n, before) for n in (self.batch, self.s, self.t)]
        if any(n is None for n in sizes):
            return None
        b, s, t = sizes
        starts = self.shared(composites.starts, (b, s), before)
        if rule.base in ("all", "last"):
            k_starts = self.shared(composites.starts, (b, t), before)
            return composites.attend, (
                starts, k_starts, self.scale, rule.base == "last", rule.window
            )  # fmt: skip
        at: Any = found.position
        if at is None:
            at = self.shared(_aten.scalar_tensor.default, (0,), before, dtype=torch.int64)
        blocks = self.shared(composites.cache_blocks, (b, s, t, rule.window), before)
        row = (at, b, s, t, rule.shift, rule.window)
        is_written = found.position is not None and self.writes.at_all(found.position)
        place = before if is_written else None
        lengths = self.shared(composites.cache_lengths, row, before, place)
        return composites.attend_cache, (blocks, lengths, starts, self.scale, rule.window)

    def shared(
        self, function: Any, args: tuple[Any, ...], before: Node, place: Any = None, **kwargs: Any
    ) -> Node:
        """One node for all attention that needs the same (at the same place, if that is given)."""
        key = (function, args, place)
        if key not in self.made:
            self.made[key] = call(self.graph, function, args, before, **kwargs)
        return self.made[key]


def _as_mask(seen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """What is seen [s, t] as a mask of a type and shape whose sizes may be 1."""
    for d in (1, 2):
        if like.dim() < d or like.shape[-d] == 1:
            seen = seen.narrow(-d, 0, min(1, seen.shape[-d]))
    seen = seen.reshape(seen.shape[2 - min(like.dim(), 2) :]).expand(like.shape)
    if like.dtype == torch.bool:
        return seen.clone()
    return torch.zeros(like.shape, dtype=like.dtype).masked_fill(~seen, float("-inf"))


def _not_repeated(k: Node, v: Node) -> tuple[Node, Node]:
    """Keys and values [b, h, t, d] from before each head was repeated."""
    keys, values = _repeated(k), _repeated(v)
    if keys is None or values is None:
        return k, v
    is_alike = is_same(keys.meta["val"].shape[1], values.meta["val"].shape[1])
    return (keys, values) if is_alike else (k, v)


def _repeated(node: Node) -> Node | None:
    """x [b, h, t, d] of x[:, :, None].expand(b, h, g, t, d).reshape(b, h*g, t, d)."""
    at: Any = node
    while at.target in (*_RESHAPED, _aten.clone.default, _aten.expand.default):
        at = at.args[0]
    is_new = at.target is _aten.unsqueeze.default and at.meta["val"].dim() == 5
    return at.args[0] if is_new else None
