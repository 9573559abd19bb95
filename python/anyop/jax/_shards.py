# SPDX-License-Identifier: Apache-2.0
"""Programs over several devices: a call is split along the leading dimensions of its signature,
where `anyop.hosting.splitting` says so. All else is gathered, which strict mode refuses.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from anyop import _anyop, symbolic
from anyop.hosting import splitting
from anyop.hosting.splitting import Split
from anyop.jax._calls import Call
from anyop.jax._types import DTYPES

_QUOTED = re.compile(r'"(\\.|[^"\\])*"')


def is_divided(axis_context: Any) -> bool:
    """Whether a program runs on several devices between which XLA divides it; what is inside of
    `shard_map` is divided already.
    """
    if hasattr(axis_context, "manual_axes"):
        mesh = axis_context.mesh
        return bool(mesh.size > 1 and set(axis_context.manual_axes) != set(mesh.axis_names))
    return getattr(axis_context, "num_devices", 1) > 1


def divided(call: Call, one: Any, tensors: Sequence[Any]) -> Any:
    """The call as XLA may divide it. one: the call on one device. tensors: its inputs' types."""
    split = _split(call, tensors)
    function = custom_partitioning(one)
    function.def_partition(
        partition=functools.partial(_partition, call, one, split),
        sharding_rule=_rule(call, split, tensors, jax.eval_shape(one, *tensors)),
    )
    return function


def _split(call: Call, tensors: Sequence[Any]) -> Split:
    types = [symbolic.TensorType(DTYPES.names[t.dtype], tuple(t.shape)) for t in tensors]
    found = splitting.split(call.op, call.arguments(types), call.results)
    return found._replace(results=(False,) * len(call.written) + found.results)


def _rule(call: Call, split: Split, tensors: Sequence[Any], results: Sequence[Any]) -> str:
    """As Shardy has it: "... a0, b0 -> ... r0"; the leading dimensions are one factor each."""

    def side(values: Sequence[Any], has_rows: Sequence[bool], letter: str) -> str:
        rows = [f"rows{d}" for d in range(split.rank)]
        shown = []
        for k, (value, has) in enumerate(zip(values, has_rows, strict=True)):
            own = range(split.rank if has else 0, value.ndim)
            shown.append(" ".join([*(rows if has else ()), *(f"{letter}{k}x{d}" for d in own)]))
        return ", ".join(shown)

    return f"{side(tensors, split.inputs, 'a')} -> {side(results, split.results, 'r')}"


def _partition(
    call: Call, one: Any, split: Split, mesh: Any, inputs: Sequence[Any], results: Sequence[Any]
) -> Any:
    """The call of one device, and how its inputs and results are divided."""
    rows: list[Any] = [None] * split.rank
    axes: list[Any] = []
    for value, has_rows in zip(inputs, split.inputs, strict=True):
        spec = _spec(value)
        for d in range(split.rank if has_rows else 0):
            own = _axes(spec[d])
            # No sharding may name an axis of the mesh twice: the first argument decides.
            if rows[d] is None and not set(own) & set(axes):
                rows[d] = spec[d]
                axes += own
    _refuse_gathered(call, split, rows, inputs)

    def sharding(has_rows: bool) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*rows) if has_rows else PartitionSpec())

    def local(*tensors: Any) -> list[Any]:
        made = one(*tensors)
        return [
            value if has_rows or not axes else jax.lax.psum(value, axes)
            for value, has_rows in zip(made, split.results, strict=True)
        ]

    return (
        mesh,
        local,
        [sharding(has_rows) for has_rows in split.results],
        tuple(sharding(has_rows) for has_rows in split.inputs),
    )


def _axes(row: Any) -> tuple[Any, ...]:
    """The mesh's axes of one dimension."""
    return row if isinstance(row, tuple) else () if row is None else (row,)


def _spec(value: Any) -> tuple[Any, ...]:
    """The mesh's axes of each dimension."""
    spec = tuple(value.sharding.spec)
    return spec + (None,) * (len(value.shape) - len(spec))


def _refuse_gathered(call: Call, split: Split, rows: Sequence[Any], inputs: Sequence[Any]) -> None:
    """In strict mode nothing is gathered for a call in silence."""
    # The scope ends a call's text. Quoted words are left out, as they may hold anything.
    scope = _QUOTED.sub("", call.text).rpartition("->")[2].partition(" in ")[2]
    if "strict" not in scope:
        return
    for value, has_rows, (name, _, _) in zip(inputs, split.inputs, call.bound.inputs, strict=True):
        wanted = tuple(rows) if has_rows else ()
        wanted += (None,) * (len(value.shape) - len(wanted))
        if _spec(value) != wanted and any(_spec(value)):
            can = "can be divided along the dimensions of ... only"
            raise _anyop.Unsupported(
                f"{call.op.display_name}: {name} is divided between devices as "
                f"{value.sharding.spec}, but the call {can if split.rank else 'cannot be divided'},"
                " and strict mode refuses to gather. Try jax.lax.with_sharding_constraint, or "
                "jax.shard_map."
            )
