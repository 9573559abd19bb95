# SPDX-License-Identifier: Apache-2.0
"""Gradients as data: what a call keeps for its gradient, how that is called, and what is refused.

A host that differentiates calls `refuse_missing` before the forward call, `Gradient.keep` after it,
and in its backward pass `arguments`, the operator `Gradient.operator` with them (and, where
`takes_mask`, which results are wanted), and `by_parameter` with what that returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anyop import _anyop
from anyop.hosting.facts import Operator
from anyop.hosting.sentences import refusal


@dataclass(frozen=True)
class Gradient:
    """How the gradient of one operator is called. Plain data, so that a tracer may read it.

    operator: its full name. sources: per parameter of it, where the value comes from, and whether
    it may be absent; see `Wiring`. targets: per result of it, the parameter of the operator.
    """

    operator: str
    sources: tuple[tuple[str, int, bool], ...]
    targets: tuple[int, ...]
    takes_mask: bool

    def keep(self, values: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """What must live until the backward pass, per parameter of the gradient: arguments and
        results of the call. None where the gradient of a result will be.
        """
        places = {"param": values, "result": results, "result_gradient": None}
        kept = []
        for kind, index, _ in self.sources:
            place = places[kind]
            kept.append(None if place is None else place[index])
        return kept

    def arguments(
        self,
        kept: Sequence[Any],
        gradients: Sequence[Any],
        zeros: Callable[[int], Any],
    ) -> list[Any]:
        """The gradient's arguments. gradients: per result of the operator, None for one that
        nothing used; zeros(r) stands for that where the gradient needs it.
        """
        arguments = []
        for (kind, index, is_optional), value in zip(self.sources, kept, strict=True):
            if kind == "result_gradient":
                value = gradients[index]
                if value is None and not is_optional:
                    value = zeros(index)
            arguments.append(value)
        return arguments

    def wanted(self, needed: Collection[int]) -> list[bool]:
        """Which of the gradient's results are computed, as its mask says it. needed: parameters."""
        return [target in needed for target in self.targets]

    def by_parameter(self, made: Sequence[Any]) -> dict[int, Any]:
        """What the gradient returned, by the parameter that it is the gradient of."""
        return dict(zip(self.targets, made, strict=True))


def gradient_of(op: Operator) -> Gradient | None:
    """None for an operator without a gradient."""
    wiring = op.wiring
    if wiring is None:
        return None
    gradient = Operator(wiring.operator)
    optional = (p.is_optional for p in gradient.params)
    sources = ((*source, may) for source, may in zip(wiring.sources, optional, strict=True))
    return Gradient(wiring.operator, tuple(sources), wiring.targets, gradient.takes_mask)


@dataclass(frozen=True)
class Wording:
    """How a framework speaks of gradients in messages.

    asks: what an argument does whose gradient is needed. stop(name): what ends that for one
    argument. around: what ends it for a call.
    """

    asks: str
    stop: Callable[[str], str]
    around: str


def refuse_missing(
    op: Operator, values: Sequence[Any], needed: Iterable[int], wording: Wording
) -> None:
    """Raises Unsupported for what would go wrong silently, or in the backward pass alone: a needed
    parameter for which the gradient has no result, or a word that it does not take. An operator
    without a gradient is refused later, where the gradient is asked for: `no_gradient`.
    """
    wiring = op.wiring
    if wiring is None:
        return
    for i in needed:
        if i not in wiring.targets:
            name = op.params[i].name
            words = {"name": name, "asks": wording.asks, "stop": wording.stop(name)}
            raise _anyop.Unsupported(refusal("no_gradient_for", op=op.display_name, **words))
    for i, taken in wiring.words.items():
        if values[i] is not None and values[i] not in taken:  # what may be absent may be so there
            words = {
                "name": op.params[i].name,
                "word": values[i],
                "words": " or ".join(f"'{word}'" for word in taken),
                "gradient": Operator(wiring.operator).display_name,
                "around": wording.around,
            }
            raise _anyop.Unsupported(refusal("fewer_words", op=op.display_name, **words))


def no_gradient(op: Operator, wording: Wording) -> str:
    """What is said where an operator without a gradient is differentiated."""
    return refusal("no_gradient", op=op.display_name, around=wording.around)
