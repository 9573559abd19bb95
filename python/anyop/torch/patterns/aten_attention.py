# SPDX-License-Identifier: Apache-2.0
"""Attention as models call it: keys repeated for groups of heads, masks that follow a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule, Node

from anyop.torch._nodes.fx import behind, call, number, put, top
from anyop.torch._nodes.memory import Writes
from anyop.torch._nodes.merge import merge
from anyop.torch._nodes.sizes import expression, is_same
from anyop.torch._proof import proof
from anyop.torch._proof.fragment import Fragment
from anyop.torch._proof.trials import Trial
from anyop.torch.patterns import aten_composites as composites
from anyop.torch.patterns.aten_masks import Found, Rule, find, seen_by

_aten = torch.ops.aten
_ATTENTION = _aten._scaled_dot_product_flash_attention_for_cpu.default
_RESHAPED = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)
_MAX_QUERIES = 64  # each is read for itself; torch's masked products are faster beyond
_KINDS = ("normal", "zeros", "small")
_PADDED = (Rule("all", is_padded=True), Rule("last", is_padded=True))


def fuse(module: GraphModule) -> None:
    made: dict[Any, Node] = {}
    writes = Writes(module.graph)
    for node in list(module.graph.nodes):
        if node.target is _ATTENTION:
            _Call(module, node, writes, made).replace()


def merge_masks(graph: Graph) -> None:
    """Each layer makes its own of one mask: those of the same nodes become one."""
    masks = [n.kwargs.get("attn_mask") for n in graph.nodes if n.target is _ATTENTION]
    merge(graph, [mask for mask in masks if isinstance(mask, Node)])


class _Call:
    """One call of torch's attention, and what it is given. made: nodes that several calls share."""

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
        """Replaces the call by the first way that is proven, if possible with keys and values from
        before they were repeated."""
        used = [user for user in self.node.users if user.users]
        if len(used) != 1 or used[0].args[1] != 0:
            return
        if isinstance(self.scale, Node) or self.has_dropout:
            return
        ways = _ways(self)
        for k, v in dict.fromkeys((_not_repeated(self.k, self.v), (self.k, self.v))):
            for way in ways:
                made = way.build() if way.is_proven(used[0], k, v) else None
                if made is not None:
                    self._put(used[0], made[0], (self.q, k, v, *made[1]))
                    return

    def _put(self, result: Node, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        made = put(self.graph, result, function, args, self.writes)
        made.meta["operator"] = self.node.target
        # torch tags its attention as random, so that no pass removes it as dead code.
        for dead in (*self.node.users, self.node):
            self.graph.erase_node(dead)

    def has_few_queries(self) -> bool:
        """Whether there are few queries, or nobody knows how many."""
        s = expression(self.s)
        return not isinstance(s, int) or s <= _MAX_QUERIES

    def shared(
        self, function: Any, args: tuple[Any, ...], before: Node, place: Any = None, **kwargs: Any
    ) -> Node:
        """One node for all attention that needs the same (at the same place, if that is given)."""
        key = (function, args, place)
        if key not in self.made:
            self.made[key] = call(self.graph, function, args, before, **kwargs)
        return self.made[key]


# The function of queries, keys and values, and what else it is given.
_Made = tuple[Callable[..., Any], tuple[Any, ...]]


class _Way(Protocol):
    """A function of ours in place of torch's, of the calls that it is found for."""

    def is_proven(self, result: Node, k: Node, v: Node) -> bool:
        """Whether the function gives what torch's gives, with these keys and values."""

    def build(self) -> _Made | None:
        """Makes the nodes that the function needs; None where a size has no node."""


def _ways(at: _Call) -> list[_Way]:
    """The ways that may be tried, the fastest first."""
    found = _rule_of(at)
    padded = None
    if found is not None and not found.rule.is_padded:
        first: _Way | None = _Ruled(at, found)
    else:
        if found is not None and found.rule in _PADDED:
            padded = found.rule
        kept = _kept(at.mask, at.writes) if padded is not None or at.has_few_queries() else None
        first = _Kept(at, kept, padded) if kept is not None else None
    added = _Added(at) if _has_mask_of_each_head(at) else None
    return [way for way in (first, added) if way is not None]


def _rule_of(at: _Call) -> Found | None:
    """The rule that the mask follows; None where it follows none that we know."""
    if at.mask is None:
        if not at.is_causal:
            return Found(Rule("all"))
        return Found(Rule("last")) if is_same(at.s, at.t) else None
    if at.is_causal or at.writes.at_all(at.mask):
        return None
    found = find(at.module, at.mask, at.s, at.t)
    if found is not None and found.position is not None:
        # The replacement reads the position once, where its first reader stands: a write between
        # the readers would be lost.
        first, last = at.writes.first([*found.readers]), at.writes.last([*found.readers])
        if at.writes.between(found.position, first, last):
            return None
    return found


class _Ruled:
    """The mask is never made: a function of the rule that it follows."""

    def __init__(self, at: _Call, found: Found) -> None:
        self.call, self.found = at, found

    def is_proven(self, result: Node, k: Node, v: Node) -> bool:
        """Tries the rule's function beside torch's with masks that follow the rule."""
        rule = self.found.rule
        masks = [] if self.call.mask is None else [self.call.mask]
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
                    q, keys, values, starts, ends, self.call.scale, is_causal, window
                )
            at = torch.tensor(position if rule.base == "at" else 0)
            blocks = composites.cache_blocks(b, s, t, rule.window)
            lengths = composites.cache_lengths(at, b, s, t, rule.shift, rule.window)
            return composites.attend_cache(
                q, keys, values, blocks, lengths, starts, self.call.scale, window
            )

        return proof.holds(
            result, [self.call.q, k, v, *masks], replacement, f"attend {rule} {self.call.scale}",
            self.call.writes, values=given, kinds=_KINDS,
        )  # fmt: skip

    def build(self) -> _Made | None:
        found, before = self.found, self.call.node
        rule = found.rule
        if found.position is not None:
            before = self.call.writes.first([*found.readers])
        place = top(self.call.graph)
        sizes = [
            number(self.call.graph, n, place) for n in (self.call.batch, self.call.s, self.call.t)
        ]
        if any(n is None for n in sizes):
            return None
        b, s, t = sizes
        starts = self.call.shared(composites.starts, (b, s), top(self.call.graph))
        if rule.base in ("all", "last"):
            k_starts = self.call.shared(composites.starts, (b, t), top(self.call.graph))
            return composites.attend, (
                starts, k_starts, self.call.scale, rule.base == "last", rule.window
            )  # fmt: skip
        at: Any = found.position
        if at is None:
            at = self.call.shared(_aten.scalar_tensor.default, (0,), before, dtype=torch.int64)
        blocks = self.call.shared(
            composites.cache_blocks, (b, s, t, rule.window), top(self.call.graph)
        )
        row = (at, b, s, t, rule.shift, rule.window)
        # Calls before and after a write of the position must not share what is made of it.
        is_written = found.position is not None and self.call.writes.at_all(found.position)
        lengths = self.call.shared(
            composites.cache_lengths, row, before, before if is_written else 0
        )
        return composites.attend_cache, (blocks, lengths, starts, self.call.scale, rule.window)


class _Kept:
    """A mask of all heads that hides keys: which are seen is read from it for each query.

    padded: it hides the same keys for each query, and those behind a query if it is causal.
    """

    def __init__(self, at: _Call, kept: Node, padded: Rule | None) -> None:
        self.call, self.kept, self.padded = at, kept, padded

    def is_proven(self, result: Node, k: Node, v: Node) -> bool:
        """As a function of any mask, those included that hide all keys of a query; or of one that
        hides the same keys for each query of a sequence, and those behind it if it is causal."""
        masks: Any = self.call.mask
        padded = self.padded

        def given(trial: Trial) -> dict[Node, torch.Tensor]:
            like = trial.tensors[3]
            draw = torch.Generator().manual_seed(like.numel())
            seen = torch.rand([like.shape[0], 1, *like.shape[2:]], generator=draw) < 0.5
            seen[..., :1, :] &= like.shape[0] > 1
            if padded is not None:
                seen = seen[..., -1:, :] & seen_by(padded, *like.shape[-2:])
            return {masks: _as_mask(seen.expand(like.shape), like)}

        def replacement(trial: Trial) -> Any:
            q, keys, values, mask = trial.tensors
            b, s, t = q.shape[0], q.shape[2], keys.shape[2]
            kept = mask[:, :1] == 0
            kept = kept if padded is None else composites.last_query(kept)
            starts = None if padded is None else composites.starts(b, s)
            rows = s if padded is None else 1
            blocks = composites.kept_blocks(kept, b, rows, t)
            lengths = composites.kept_lengths(b, rows, t)
            return composites.attend_kept(
                q, keys, values, blocks, lengths, starts, self.call.scale, padded == _PADDED[1]
            )

        name = f"attend kept {padded} {self.call.scale}"
        return proof.holds(
            result, [self.call.q, k, v, masks], replacement, name, self.call.writes,
            values=given, kinds=_KINDS,
        )  # fmt: skip

    def build(self) -> _Made | None:
        kept, padded = self.kept, self.padded
        before, starts = behind(kept), None
        place = top(self.call.graph)
        b, s, t = (
            number(self.call.graph, n, place) for n in (self.call.batch, self.call.s, self.call.t)
        )
        if b is None or s is None or t is None:
            return None
        if padded is not None:
            kept = self.call.shared(composites.last_query, (kept,), before)
            starts, s = self.call.shared(composites.starts, (b, s), top(self.call.graph)), 1
        blocks = self.call.shared(composites.kept_blocks, (kept, b, s, t), before)
        lengths = self.call.shared(composites.kept_lengths, (b, s, t), top(self.call.graph))
        return composites.attend_kept, (
            blocks,
            lengths,
            starts,
            self.call.scale,
            padded == _PADDED[1],
        )


def _has_mask_of_each_head(at: _Call) -> bool:
    """A mask as large as the products. Of others `_Added` would cost memory that torch's attention
    does not need."""
    mask, heads = at.mask, at.q.meta["val"].shape[1]
    if not isinstance(mask, Node):
        return False
    sizes = mask.meta["val"].shape
    return len(sizes) == 4 and not is_same(heads, 1) and is_same(sizes[1], heads)


class _Added:
    """Products of matrices to which a mask is added that each head has its own of."""

    def __init__(self, at: _Call) -> None:
        self.call = at

    def is_proven(self, result: Node, k: Node, v: Node) -> bool:
        mask: Any = self.call.mask
        if not is_same(k.meta["val"].shape[1], self.call.q.meta["val"].shape[1]):
            return False

        def given(trial: Trial) -> dict[Node, torch.Tensor]:
            like = trial.tensors[3]
            draw = torch.Generator().manual_seed(like.numel())
            seen = torch.rand(like.shape, generator=draw) < 0.6
            seen[..., :1, :] &= like.shape[0] > 1
            if like.dtype == torch.bool:
                return {mask: seen}
            made = torch.randn(like.shape, generator=draw).to(like.dtype)
            return {mask: made.masked_fill(~seen, float("-inf"))}

        def replacement(trial: Trial) -> Any:
            q, keys, values, added = trial.tensors
            sizes = (q.shape[0], q.shape[1], q.shape[2])
            bias = composites.added_mask(added, q.dtype, *sizes)
            seen = composites.seen_rows(added, q.dtype, *sizes, values.shape[3])
            return composites.attend_added(q, keys, values, bias, seen, self.call.scale)

        return proof.holds(
            result, [self.call.q, k, v, mask], replacement,
            f"attend added {self.call.scale}", self.call.writes, values=given, kinds=_KINDS,
        )  # fmt: skip

    def build(self) -> _Made | None:
        place, value = top(self.call.graph), self.call.q.meta["val"]
        mask: Any = self.call.mask
        wanted = (*value.shape[:3], self.call.v.meta["val"].shape[3])
        *sizes, d = (number(self.call.graph, n, place) for n in wanted)
        if d is None or any(n is None for n in sizes) or self.call.writes.at_all(mask):
            return None
        before = behind(mask)
        bias = self.call.shared(composites.added_mask, (mask, value.dtype, *sizes), before)
        seen = self.call.shared(composites.seen_rows, (mask, value.dtype, *sizes, d), before)
        return composites.attend_added, (bias, seen, self.call.scale)


def _kept(mask: Any, writes: Writes) -> Node | None:
    """The boolean [1 or b, 1, 1 or s, t] behind a mask of all heads."""
    if not isinstance(mask, Node) or mask.target is not _aten.where.self:
        return None
    kept: Any = mask.args[0]
    value = kept.meta["val"] if isinstance(kept, Node) else None
    if not isinstance(value, torch.Tensor) or value.dtype != torch.bool or writes.at_all(kept):
        return None
    if value.dim() < 2 or (value.dim() > 2 and not is_same(value.shape[-3], 1)):
        return None
    if mask.meta["val"].dim() != 4:
        return None

    def replacement(trial: Trial) -> Any:
        shape = Fragment(mask, [kept]).run(trial).shape
        made = torch.zeros(shape, dtype=mask.meta["val"].dtype)
        return made.masked_fill(~trial.tensors[0], float("-inf"))

    return kept if proof.holds(mask, [kept], replacement, "mask", writes) else None


def _as_mask(seen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The keys that are seen, [s, t], as a mask of the dtype and shape of `like`. Where that has a
    size of 1, the first entry is taken."""
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


def _is_all(node: Node) -> bool:
    """Whether a slice leaves nothing out."""
    if node.target is not _aten.slice.Tensor:
        return False
    source: Any = node.args[0]
    sizes = zip(node.meta["val"].shape, source.meta["val"].shape, strict=True)
    return all(is_same(a, b) for a, b in sizes)


def _repeated(node: Node) -> Node | None:
    """x [b, h, t, d] of x[:, :, None].expand(b, h, g, t, d).reshape(b, h*g, t, d)."""
    at: Any = node
    while at.target in (*_RESHAPED, _aten.clone.default, _aten.expand.default) or _is_all(at):
        at = at.args[0]
    is_new = at.target is _aten.unsqueeze.default and at.meta["val"].dim() == 5
    return at.args[0] if is_new else None
