# SPDX-License-Identifier: Apache-2.0
"""Which masks of attention follow a rule: a query sees the keys before it, perhaps only the last.

A rule is guessed from what a mask is for a few sizes and numbers of the call; then every entry of
it is compared with the rule's for all of the sizes that are tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.sizes import is_same
from anyop.torch._proof.fragment import Fragment
from anyop.torch._proof.trials import Trial, choices, symbols_in, value_of

_WHOLE = (torch.int32, torch.int64)
_MAX_ELEMENTS = 1 << 25  # of a mask that is compared
_MAX_RULES = 64


@dataclass(frozen=True)
class Rule:
    """Query i sees keys j <= i + P and, if window >= 0, j >= i + P - window, P = base + shift.

    base: "all", every key; "last", keys less queries; "first", 0; "at", one number of the call.
    is_padded: of these only the keys that the last query sees.
    """

    base: str
    shift: int = 0
    window: int = -1
    is_padded: bool = False


@dataclass(frozen=True)
class Found:
    """position: the number of the call; readers: what reads it to make the mask."""

    rule: Rule
    position: Node | None = None
    readers: tuple[Node, ...] = ()


@dataclass
class _Seen:
    """The mask of one trial, [.., queries, keys], and the position that it was made for."""

    mask: torch.Tensor
    position: int


def seen_by(rule: Rule, s: int, t: int, position: int = 0) -> torch.Tensor:
    """[s, t]: which keys each query sees by the rule."""
    i, j = torch.arange(s)[:, None], torch.arange(t)[None]
    if rule.base == "all":
        return torch.ones(s, t, dtype=torch.bool)
    p = {"last": t - s, "first": 0, "at": position}[rule.base] + rule.shift
    return (j <= i + p) & (j >= i + p - rule.window) if rule.window >= 0 else j <= i + p


_known: dict[str, Rule | None] = {}


def find(module: GraphModule, mask: Node, s: Any, t: Any) -> Found | None:
    """The rule that a mask [.., s, t] follows, boolean or added to scores."""
    leaves = _leaves(module, mask)
    if leaves is None:
        return None
    position, others = leaves
    inputs = [*others] if position is None else [position, *others]
    fragment = Fragment(mask, inputs)
    if fragment.why:
        return None
    trials = _Trials(fragment, s, t, position)
    text = f"{fragment.text()}\n{trials.text}"
    if text not in _known:
        _known[text] = trials.rule()
    rule = _known[text]
    if rule is None:
        return None
    readers = [n for n in fragment.nodes if position in n.all_input_nodes]
    is_read = rule.base == "at"
    return Found(rule, position if is_read else None, tuple(readers) if is_read else ())


def _leaves(module: GraphModule, mask: Node) -> tuple[Node | None, list[Node]] | None:
    """(the one number, the other tensors) of the call that a mask is made of."""
    positions: dict[Node, None] = {}
    others: dict[Node, None] = {}
    done: set[Node] = set()
    waiting = [mask]
    while waiting:
        node = waiting.pop()
        value = node.meta.get("val")
        if node in done or folded(module, node) is not None or not _is_tensor(value):
            continue
        done.add(node)
        if _is_number(value) and _has_data(module, node):
            positions[node] = None
        elif node.op != "call_function":
            others[node] = None
        waiting += node.all_input_nodes if node not in positions and node not in others else []
    return None if len(positions) > 1 else (next(iter(positions), None), list(others))


def _is_number(value: Any) -> bool:
    is_whole = isinstance(value, torch.Tensor) and value.dtype in _WHOLE
    return is_whole and all(is_same(n, 1) for n in value.shape)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, tuple, list))


def _has_data(module: GraphModule, node: Node) -> bool:
    """Whether a node depends on more than sizes."""
    if folded(module, node) is not None or not _is_tensor(node.meta.get("val")):
        return False
    return node.op != "call_function" or any(_has_data(module, n) for n in node.all_input_nodes)


class _Trials:
    """Computes a mask for the sizes, numbers and tensors that are tried, and guesses its rule."""

    def __init__(self, fragment: Fragment, s: Any, t: Any, position: Node | None) -> None:
        self.fragment, self.position = fragment, position
        self.s, self.t = s, t
        symbols, environment = symbols_in([*fragment.tensors, s, t])
        self.constants = fragment.whole_numbers()
        self.choices = choices(symbols, environment, self.constants if symbols else ())
        self.is_padded = len(fragment.inputs) > (position is not None)
        sizes = [[value_of(n, c) for n in (s, t)] for c in self.choices]
        self.text = f"{sizes} {[list(c.values()) for c in self.choices]}"

    def rule(self) -> Rule | None:
        seen: list[_Seen] = []
        for sizes in self.choices:
            s, t = (value_of(n, sizes) for n in (self.s, self.t))
            if s * t > _MAX_ELEMENTS:
                return None  # a size that matters cannot be tried
            for at in self.positions(s, t)[: max(8, _MAX_ELEMENTS // max(s * t, 1))]:
                for is_wide in {False, self.is_padded}:
                    try:
                        seen.append(self.mask(sizes, s, t, at, len(seen), is_wide))
                    except _NoRuleError:
                        return None
                    except Exception:
                        if is_wide:
                            return None
        rules = itertools.islice(self.guesses(seen), _MAX_RULES)
        return next((r for r in rules if seen and all(_follows(one, r) for one in seen)), None)

    def positions(self, s: int, t: int) -> list[int]:
        if self.position is None:
            return [0, 0] if self.is_padded else [0]
        near = {n + d for n in (0, t - s, t, 2 * t) for d in (-2, -1, 0, 1, 2)} | set(range(10))
        near |= {n + d for n in self.constants if n > 8 for d in (-1, 0, 1)}
        # The list may be cut, so that the likely positions, near to the last keys, come first.
        return sorted(near | {-t - s, 3 * t + s, 1 << 20}, key=lambda n: (abs(n - t + s), n))

    def mask(self, sizes: Any, s: int, t: int, at: int, seed: int, is_wide: bool) -> _Seen:
        """is_wide: of whole numbers next to all constants."""
        draw = torch.Generator().manual_seed(seed)
        near = {n + d for n in (0, *self.constants) for d in (-1, 0, 1)} if is_wide else {0, 1}
        numbers = torch.tensor(sorted(near))
        tensors = []
        for node in self.fragment.inputs:
            value: Any = node.meta["val"]
            shape = [value_of(n, sizes) for n in value.shape]
            if node is self.position:
                tensors.append(torch.full(shape, at, dtype=value.dtype))
            else:
                picked = torch.randint(0, len(numbers), shape, generator=draw)
                tensors.append(numbers[picked].to(value.dtype))
        made = self.fragment.run(Trial(tensors, sizes))
        if made.is_floating_point():
            low = torch.finfo(made.dtype).min
            if not ((made == 0) | (made <= low)).all():
                raise _NoRuleError
            visible = (made == 0).expand(*made.shape[:-2], s, t)
            # Where no key is seen, -inf gives zeros, as the rule does; a finite number does not.
            if not (made == float("-inf")).any() and not visible.any(-1).all():
                raise _NoRuleError
            return _Seen(visible, at)
        if made.dtype != torch.bool:
            raise _NoRuleError
        return _Seen(made.expand(*made.shape[:-2], s, t), at)

    def guesses(self, seen: list[_Seen]) -> Iterator[Rule]:
        """Rules that the masks suggest, the likely ones first."""
        yield Rule("all", is_padded=self.is_padded)
        shifts: dict[tuple[str, int], None] = {("last", 0): None}
        windows: dict[int, None] = {-1: None}
        for one in sorted(seen, key=lambda o: -o.mask.shape[-1])[:16]:
            for base, shift, window in self.read(one):
                shifts[base, shift] = None
                windows[window] = None
        windows.update({n + d: None for n in self.constants if n > 1 for d in (-1, 0, -2)})
        for (base, shift), window in itertools.product(shifts, windows):
            if window < 0 or not self.is_padded:
                yield Rule(base, shift, window, self.is_padded)

    def read(self, one: _Seen) -> Iterator[tuple[str, int, int]]:
        """(base, shift, window) of rows that begin or end within the keys."""
        s, t = one.mask.shape[-2:]
        many = one.mask.reshape(-1, s, t)
        rows = many.any(0) if self.is_padded else many[0]
        for i in {0, s // 2, s - 1} if s and t else ():
            keys = rows[i].nonzero().flatten()
            if not len(keys) or int(keys[-1]) == t - 1:
                continue
            place, first = int(keys[-1]) - i, int(keys[0])
            window = int(keys[-1]) - first if first else -1
            if self.position is not None:
                yield "at", place - one.position, window
            else:
                yield "first", place, window


class _NoRuleError(Exception):
    """A mask with other values than those of a boolean one."""


def _follows(one: _Seen, rule: Rule) -> bool:
    s, t = one.mask.shape[-2:]
    wanted = seen_by(rule, s, t, one.position)
    if rule.is_padded:
        return bool((one.mask == (wanted & one.mask[..., -1:, :])).all())
    return bool((one.mask == wanted).all())
