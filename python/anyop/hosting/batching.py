# SPDX-License-Identifier: Apache-2.0
"""Batching as data: how one more batch dimension joins a call, or why it cannot.

`...` in a signature stands for any leading dimensions, so that a batch can be one of them: the call
is made once. Where a batched argument has no `...`, the call is made for each example.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from anyop import symbolic
from anyop.hosting.facts import Operator


@dataclass(frozen=True)
class Batch:
    """why: "" where the batch joins the call as the first dimension of what is batched, else why it
    cannot. expand: the other arguments that must have it too, repeated for each example.
    """

    why: str
    expand: tuple[int, ...] = ()


def batch(
    op: Operator,
    example: Sequence[Any],
    batched: Collection[int],
    results: Collection[int] | None = None,
) -> Batch:
    """How a batch of calls becomes one call.

    example: the arguments of one of the calls, with a TensorType for each tensor. batched: the
    parameters whose tensors differ between the calls. results: those that are computed; None: all.
    """
    number = _form(op, example)
    form = op.contract["forms"][number]
    why = _obstacle(op, form, batched, range(len(op.results)) if results is None else results)
    if why:
        return Batch(why)
    own = form["params"]
    expand = tuple(
        i
        for i, p in enumerate(op.params)
        if p.is_tensor and own[i]["dots"] and i not in batched and example[i] is not None
    )
    joined = [
        _longer(value) if i in batched or i in expand else value for i, value in enumerate(example)
    ]
    if _form(op, joined) != number:
        return Batch("with one more dimension it is another form of the operator")
    return Batch("", expand)


def _form(op: Operator, args: Sequence[Any]) -> int:
    """The form that a call takes. Ranks, dtypes and words choose it; numbers need not be known."""
    known = (
        value if value is None or p.is_tensor or p.kind == "word" else symbolic.UNKNOWN
        for p, value in zip(op.params, args, strict=True)
    )
    return symbolic.choose_form(op.name, list(known))


def _longer(value: Any) -> Any:
    """A tensor, or each of a list, with the batch in front."""
    if isinstance(value, list | tuple):
        return [_longer(v) for v in value]
    shape = None if value.shape is None else (symbolic.UNKNOWN, *value.shape)
    return symbolic.TensorType(value.dtype, shape)


def _obstacle(
    op: Operator, form: dict[str, Any], batched: Collection[int], results: Collection[int]
) -> str:
    if op.written:
        return f"{op.params[op.written[0]].name} is written"
    for i in sorted(batched):
        if op.params[i].kind != "tensor":
            return f"{op.params[i].name} is a list"
        if not form["params"][i]["dots"]:
            return f"{op.params[i].name} has no leading dimensions"
    for r in results:
        if not form["results"][r]["dots"]:
            return f"{op.results[r].name} has no leading dimensions"
    names = [*(p.name for p in op.params), *(r.name for r in op.results)]
    for measure, i in form["measures"]:
        return f"the signature says {measure}({names[i]}), which the batch would change"
    return ""
