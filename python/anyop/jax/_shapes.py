# SPDX-License-Identifier: Apache-2.0
"""The types of a call's results, over sizes that are numbers or symbols of jax.export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from anyop import _anyop, symbolic
from anyop.hosting.sentences import refusal
from anyop.jax._calls import Call
from anyop.jax._types import DTYPES, result_dtype

_MAX_RANK = 8  # of anyop's tensors


class _Symbols(symbolic.Host):
    """JAX computes with polynomials. Its == is False both where two sizes differ and where nobody
    knows, its < raises where nobody knows, and it has no quotients of two symbols.
    """

    def compute(self, op: str, a: Any, b: Any) -> Any:
        if op in ("==", "!="):
            equal = self._equal(a, b)
            return equal if equal is symbolic.UNKNOWN or op == "==" else not equal
        if op in ("min", "max"):
            return (jax.core.min_dim if op == "min" else jax.core.max_dim)(a, b)
        try:
            return self.binary[op](a, b)
        except (TypeError, *_INCONCLUSIVE):
            return symbolic.UNKNOWN

    def same(self, a: Any, b: Any) -> bool:
        return bool(a == b)

    def _equal(self, a: Any, b: Any) -> Any:
        if a == b:
            return True
        try:
            return False if a < b or a > b else symbolic.UNKNOWN
        except _INCONCLUSIVE:
            return symbolic.UNKNOWN


_INCONCLUSIVE = (jax.errors.InconclusiveDimensionOperation,)
_HOST = _Symbols()


def result_avals(*tensors: Any, call: Call) -> list[Any]:
    """What a call returns: what it writes, then its results."""
    for t, (name, _, _) in zip(tensors, call.bound.inputs, strict=True):
        if t.ndim > _MAX_RANK:
            words = {"op": call.op.display_name, "name": name, "rank": t.ndim}
            raise _anyop.InvalidArgument(refusal("many_dimensions", **words))
    if all(isinstance(n, int) for t in tensors for n in t.shape):
        types: Sequence[tuple[str, Any]] = call.bound.infer([(None, t.shape) for t in tensors])
    else:
        types = _with_symbols(call, tensors)
    written = [tensors[k] for k in call.written]
    return [*written, *(_aval(tensors[:1], shape, result_dtype(dtype)) for dtype, shape in types)]


def _aval(first: Sequence[Any], shape: Sequence[Any], dtype: Any) -> Any:
    """A result; inside of `shard_map` it differs between devices as the first tensor does."""
    if not first or first[0].sharding.mesh.empty:
        return jax.core.ShapedArray(shape, dtype)
    whole = PartitionSpec(*(None for _ in shape))
    sharding = NamedSharding(first[0].sharding.mesh, whole)
    return jax.core.ShapedArray(shape, dtype, sharding=sharding, manual_axis_type=first[0].mat)


def _with_symbols(call: Call, tensors: Sequence[Any]) -> list[tuple[str, Any]]:
    # First with the sizes that are numbers alone: what is wrong with these the core says.
    known = [tuple(n if isinstance(n, int) else None for n in t.shape) for t in tensors]
    call.bound.infer([(None, shape) for shape in known])
    types = [symbolic.TensorType(DTYPES.names[t.dtype], tuple(t.shape)) for t in tensors]
    inferred = symbolic.infer(call.op.name, call.arguments(types), _HOST)
    for r in call.results:
        if symbolic.UNKNOWN in (inferred.results[r].shape or (symbolic.UNKNOWN,)):
            raise _anyop.Unsupported(
                f"{call.op.display_name}: {call.op.results[r].name} has a size that JAX cannot "
                "compute from the symbols of the arguments. Try numbers for these sizes."
            )
    return [(inferred.results[r].dtype, inferred.results[r].shape) for r in call.results]
