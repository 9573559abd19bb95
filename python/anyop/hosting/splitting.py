# SPDX-License-Identifier: Apache-2.0
"""Division between devices as data: which dimensions of a call may be split.

`...` stands for dimensions whose elements are computed apart, so that each device may compute its
own. Of a gradient, what belongs to an argument without `...` is a sum over them: each device has
its part, and these are added. A size with a name is never split.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from anyop import _anyop, symbolic
from anyop.hosting import binding
from anyop.hosting.facts import Operator

_operator = functools.cache(Operator)


class Split(NamedTuple):
    """How many leading dimensions may be split, the same of every tensor that has them; 0 where a
    call is one for all its rows. inputs: for each tensor of the arguments, whether it begins with
    them. results: the same for each result that is computed; one without them is a sum over the
    rows, of which each device has its part.
    """

    rank: int
    inputs: tuple[bool, ...]
    results: tuple[bool, ...]


def split(op: Operator, example: Sequence[Any], results: Sequence[int]) -> Split:
    """example: the arguments of the call, with a TensorType for each tensor. results: the numbers
    of those that it computes.
    """
    tensors = [(i, t) for i, _, t in binding.tensors(op, example, symbolic.TensorType)]
    form = op.contract["forms"][symbolic.choose_form(op.name, list(example))]
    inputs = tuple(bool(form["params"][i]["dots"]) for i, _ in tensors)
    made = tuple(bool(form["results"][r]["dots"]) for r in results)
    ranks = {
        len(t.shape) - len(form["params"][i]["dims"])
        for (i, t), has_dots in zip(tensors, inputs, strict=True)
        if has_dots
    }
    is_list = any(p.kind == "tensors" and v for p, v in zip(op.params, example, strict=True))
    is_apart = all(made) or _sums_rows(op.name)
    if op.written or is_list or form["measures"] or len(ranks) != 1 or not is_apart:
        return Split(0, (False,) * len(inputs), (False,) * len(made))
    return Split(ranks.pop(), inputs, made)


@functools.cache
def _sums_rows(name: str) -> bool:
    """Whether the operator is the gradient of one that computes its rows apart, in every form: a
    result of it without rows is a sum over them.
    """
    for forward in map(_operator, _anyop.functions()):
        if forward.wiring is None or forward.wiring.operator != name:
            continue
        return not forward.written and all(
            not form["measures"] and all(r["dots"] for r in form["results"])
            for form in forward.contract["forms"]
        )
    return False
