# SPDX-License-Identifier: Apache-2.0
"""Batching as data: how one more batch dimension joins a call, or why it cannot.

`...` in a signature stands for any leading dimensions, so that a batch can be one of them: the call
is made once. Where a batched argument has no `...`, the call is made for each example.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anyop import symbolic
from anyop.hosting.facts import Operator

_MEASURES = ("size", "rank", "rows", "bytes")


@dataclass(frozen=True)
class Batch:
    """why: "" where the batch joins the call as the first dimension of what is batched, else why it
    cannot. expand: the other arguments that must have it too, repeated for each example.
    """

    why: str
    expand: tuple[int, ...] = ()


def batch(op: Operator, example: Sequence[Any], batched: Collection[int]) -> Batch:
    """How a batch of calls becomes one call.

    example: the arguments of one of the calls, with a TensorType for each tensor. batched: the
    parameters whose tensors differ between the calls.
    """
    form = symbolic.choose_form(op.contract, example)
    why = _obstacle(op, form, batched)
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
    if symbolic.choose_form(op.contract, joined) is not form:
        return Batch("with one more dimension it is another form of the operator")
    return Batch("", expand)


def _longer(value: Any) -> Any:
    """A tensor, or each of a list, with the batch in front."""
    if isinstance(value, list | tuple):
        return [_longer(v) for v in value]
    shape = None if value.shape is None else (symbolic.UNKNOWN, *value.shape)
    return symbolic.TensorType(value.dtype, shape)


def _obstacle(op: Operator, form: dict[str, Any], batched: Collection[int]) -> str:
    if op.written:
        return f"{op.params[op.written[0]].name} is written"
    for i in sorted(batched):
        if op.params[i].kind != "tensor":
            return f"{op.params[i].name} is a list"
        if not form["params"][i]["dots"]:
            return f"{op.params[i].name} has no leading dimensions"
    named = [*zip(op.params, form["params"], strict=True)]
    named += [*zip(op.results, form["results"], strict=True)]
    for result, own in named[len(op.params) :]:
        if not own["dots"]:
            return f"{result.name} has no leading dimensions"
    for measure, index in _measures(form):
        measured, own = named[index]
        if own.get("dots"):
            return f"the signature says {measure}({measured.name}), which the batch would change"
    return ""


def _measures(form: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """("rows", tensor) for each expression of a form that asks how large a whole tensor is."""
    yield from _in_expression([c["expr"] for c in form["conditions"]])
    for own in (*form["params"], *form["results"]):
        yield from _in_expression([own.get(key) for key in ("dims", "size", "below", "offsets")])


def _in_expression(e: Any) -> Iterator[tuple[str, int]]:
    if not isinstance(e, list) or not e:
        return
    if isinstance(e[0], str) and e[0] in _MEASURES:
        yield e[0], e[1]
    for sub in e:
        yield from _in_expression(sub)
