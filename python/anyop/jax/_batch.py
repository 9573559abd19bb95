# SPDX-License-Identifier: Apache-2.0
"""vmap: one call where the batch can be one of the leading dimensions, else a call per example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.core import Primitive
from jax.interpreters import batching

from anyop.hosting.batching import batch
from anyop.jax._calls import Call
from anyop.jax._types import DTYPES
from anyop.symbolic import TensorType

_MAX_RANK = 8  # of anyop's tensors


def install(primitive: Primitive) -> None:
    batching.primitive_batchers[primitive] = _batched


def _batched(
    tensors: Sequence[Any], dims: Sequence[int | None], *, call: Call
) -> tuple[list[Any], list[int]]:
    is_batched = [d is not None for d in dims]
    moved = [t if d is None else jnp.moveaxis(t, d, 0) for t, d in zip(tensors, dims, strict=True)]
    size = next(t.shape[0] for t, b in zip(moved, is_batched, strict=True) if b)
    made = _in_one_call(call, moved, is_batched, size)
    if made is None:
        made = _example_by_example(call, moved, is_batched)
    return made, [0] * len(made)


def _in_one_call(
    call: Call, tensors: Sequence[Any], is_batched: Sequence[bool], size: int
) -> list[Any] | None:
    """The results of a call with one dimension more; None where it cannot be one call."""
    example = [
        TensorType(DTYPES.names[t.dtype], tuple(t.shape[1:] if b else t.shape))
        for t, b in zip(tensors, is_batched, strict=True)
    ]
    batched = {i for (i, _), b in zip(call.inputs, is_batched, strict=True) if b}
    joined = batch(call.op, call.arguments(example), batched, call.results)
    if joined.why:
        return None
    whole = [
        jnp.broadcast_to(t, (size, *t.shape)) if i in joined.expand else t
        for t, (i, _) in zip(tensors, call.inputs, strict=True)
    ]
    return call.bind(*whole) if all(t.ndim <= _MAX_RANK for t in whole) else None


def _example_by_example(
    call: Call, tensors: Sequence[Any], is_batched: Sequence[bool]
) -> list[Any]:
    def one(_: None, examples: list[Any]) -> tuple[None, list[Any]]:
        own = iter(examples)
        return None, call.bind(
            *(next(own) if b else t for t, b in zip(tensors, is_batched, strict=True))
        )

    mapped = [t for t, b in zip(tensors, is_batched, strict=True) if b]
    made: list[Any] = jax.lax.scan(one, None, mapped)[1]
    return made
