# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call: which value each parameter has, what is written, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anyop import _anyop
from anyop.hosting.facts import Operator
from anyop.hosting.sentences import refusal


class Arguments(NamedTuple):
    """A call as `anyop.op(...)` takes it: a value per parameter, and the host's keywords."""

    values: list[Any]
    out: Any = None
    policy: Any = None
    like: Any = None


def bind(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Sorts positional and keyword arguments. What is left out has its default.

    Raises WrongType with the core's own texts: too many, unknown, given twice, missing.
    """
    given: dict[str, Any] = _anyop.bind(op.name, *args, **kwargs)
    host = {name: given.pop(name, None) for name in ("out", "policy", "like")}
    return Arguments([given.get(p.name, p.default) for p in op.params], **host)


def take(op: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The value of each parameter, for a framework that has checked the call by a schema of its
    own: defaults may be missing at the end, and keywords may be other things as well.
    """
    params = op.params
    values = list(args[: len(params)])
    for p in params[len(values) :]:
        values.append(kwargs.get(p.name, p.default))
    return values


def declined(op: Operator, values: Sequence[Any], mask: Sequence[bool] | None = None) -> list[bool]:
    """Which results are not computed: those that a caller's mask leaves out, and the gradients of
    absent arguments.
    """
    if mask is not None and len(mask) != len(op.results):
        counts = {"given": len(mask), "results": len(op.results)}
        raise _anyop.InvalidArgument(refusal("mask_length", op=op.display_name, **counts))
    flags = []
    for i, r in enumerate(op.results):
        is_masked = mask is not None and not mask[i]
        is_absent = r.declined_without is not None and values[r.declined_without] is None
        flags.append(is_masked or is_absent)
    return flags


def tensors(op: Operator, values: Sequence[Any], tensor: type) -> Iterator[tuple[int, str, Any]]:
    """(parameter, name in messages, tensor) of every argument that is one, in lists too."""
    for i, (p, value) in enumerate(zip(op.params, values, strict=True)):
        if isinstance(value, tensor):
            yield i, p.name, value
        elif p.kind == "tensors" and value is not None:
            for k, element in enumerate(value):
                yield i, f"{p.name}[{k}]", element
