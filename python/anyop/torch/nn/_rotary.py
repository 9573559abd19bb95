# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from anyop import _anyop
from anyop.torch.nn._operators import operators
from anyop.torch.nn._script import Unscripted
from anyop.torch.nn._tables import Tables
from anyop.torch.patterns.nn import ROPE_KEYS, ROPE_KINDS

_ops = operators("RotaryEmbedding")
_tables = Tables()


class RotaryEmbedding(Unscripted):
    """Rotates query and key heads by their positions.

    rotary_dim               elements of a head that are rotated, its first ones
    max_position_embeddings  rows of the table
    is_neox_style            pairs are (j, j + rotary_dim/2); otherwise neighbours
    dtype                    of the table, which keeps it when the module is cast; float32 if None
    table                    further arguments of the operator that makes it: kind, factor, ...

    Modules of equal tables on one device share the memory of cos_sin_cache. A module that is moved
    takes the table of the other device and leaves the others as they are.
    """

    cos_sin_cache: torch.Tensor

    def __init__(
        self,
        head_size: int,
        rotary_dim: int,
        max_position_embeddings: int,
        base: float = 10000.0,
        is_neox_style: bool = True,
        dtype: torch.dtype | None = None,
        *,
        device: Any = None,
        **table: Any,
    ) -> None:
        super().__init__()
        self.head_size, self.rotary_dim = head_size, rotary_dim
        self.max_position_embeddings = max_position_embeddings
        self.is_neox_style, self.dtype = is_neox_style, dtype or torch.float32
        self.table = {"base": float(base), **table}
        self.register_buffer("cos_sin_cache", self._table_on(device), persistent=False)

    def _table_on(self, device: Any) -> torch.Tensor:
        """The table on a device, None for the default one: one that is in use, or a new one."""
        place = torch.get_default_device() if device is None else torch.device(device)

        def make() -> torch.Tensor:
            rows, dim = self.max_position_embeddings, self.rotary_dim
            made: torch.Tensor = _ops.table(rows, dim, **self.table, to=self.dtype, like=torch)
            return made.to(place)

        table = (_hashable(item) for item in self.table.items())
        key = self.max_position_embeddings, self.rotary_dim, self.dtype, frozenset(table)
        return _tables.get(key, place, make)

    def _apply(self, *args: Any, **kwargs: Any) -> RotaryEmbedding:
        before = self.cos_sin_cache
        applied: RotaryEmbedding = super()._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        now = self.cos_sin_cache
        if now is not before:
            self.cos_sin_cache = self._moved(before, now)
        return applied

    def _moved(self, before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
        """The table for the device that torch moved it to. One that somebody wrote keeps what was
        written; any other is made anew, since to_empty moves no elements."""
        is_plain = type(before) is torch.Tensor and type(now) is torch.Tensor and not now.is_meta
        if is_plain and (before.is_meta or _is_same(before, self._table_on(before.device))):
            return self._table_on(now.device)
        return now if now.dtype == self.dtype else before.to(now.device)

    def forward(
        self,
        positions: torch.Tensor,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        inplace: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Both rotated: [..., heads, head_size] or [..., heads * head_size] for positions [...].

        A token at position -1 stays as it is. inplace: writes query and key, which need be views
        by heads and no gradient, and returns them.
        """
        where, style = positions.reshape(-1), "neox" if self.is_neox_style else "gptj"
        shape = (where.shape[0], -1, self.head_size)
        if inplace:
            heads = key if key is None else key.view(shape)
            _ops.rotate_in_place(where, query.view(shape), heads, self.cos_sin_cache, 0, style)
            return query, key

        def rotated(x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = _ops.rotate(x.reshape(shape), where, self.cos_sin_cache, 0, style)
            return y.view(x.shape)

        return rotated(query), None if key is None else rotated(key)

    def extra_repr(self) -> str:
        table = ", ".join(f"{n}={v!r}" for n, v in self.table.items())
        return (
            f"head_size={self.head_size}, rotary_dim={self.rotary_dim}, "
            f"max_position_embeddings={self.max_position_embeddings}, "
            f"is_neox_style={self.is_neox_style}, {table}"
        )


def _hashable(value: Any) -> Any:
    """An argument of the table, which may be a list, or a number of torch or NumPy."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _is_same(table: torch.Tensor, made: torch.Tensor) -> bool:
    is_alike = table.shape == made.shape and table.dtype == made.dtype
    return table is made or (is_alike and torch.equal(table, made))


def get_rope(
    head_size: int,
    max_position: int,
    is_neox_style: bool = True,
    rope_parameters: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: Any = None,
) -> RotaryEmbedding:
    """The rotary embedding of a model's configuration, a module of its own in each call. Those of
    the same arguments share their table (RotaryEmbedding).

    rope_parameters  as in the configuration: rope_type, rope_theta, factor, partial_rotary_factor,
                     and what else its type needs (`rope_scaling` of older ones works too)

    InvalidArgument names a rope_type, or a key, that is not known.
    """
    length, rotary_dim, table = _table(head_size, max_position, dict(rope_parameters or {}))
    return RotaryEmbedding(
        head_size, rotary_dim, length, is_neox_style=is_neox_style, dtype=dtype, device=device,
        **table,
    )  # fmt: skip


def _table(
    head_size: int, max_position: int, given: dict[str, Any]
) -> tuple[int, int, dict[str, Any]]:
    """Rows of the table, elements to rotate, and the arguments that make it."""
    rest = dict(given)
    legacy = rest.pop("type", "default")
    name = rest.pop("rope_type", legacy)
    if name not in ROPE_KINDS:
        hint = _anyop.did_you_mean(str(name), list(ROPE_KINDS))
        raise _anyop.InvalidArgument(
            f"get_rope: rope_type is {name!r}, but must be one of {', '.join(ROPE_KINDS)}.{hint}"
        )
    kind = ROPE_KINDS[name]
    part = float(rest.pop("partial_rotary_factor", 1.0))
    if not 0 < part <= 1:
        raise _anyop.InvalidArgument(
            f"get_rope: partial_rotary_factor is {part}, but must be above 0 and at most 1."
        )
    rotary_dim, table = int(head_size * part), {"kind": kind}
    factors = rest.pop("short_factor", None), rest.pop("long_factor", None)
    for key, value in rest.items():
        if key not in ROPE_KEYS:
            hint = _anyop.did_you_mean(key, list(ROPE_KEYS))
            raise _anyop.InvalidArgument(
                f"get_rope: rope_parameters holds {key!r}, which no table takes.{hint}"
            )
        if value is not None:
            table[ROPE_KEYS[key]] = value
    return _finish(head_size, max_position, rotary_dim, table, factors)


def _finish(
    head_size: int,
    max_position: int,
    rotary_dim: int,
    table: dict[str, Any],
    factors: tuple[Any, Any],
) -> tuple[int, int, dict[str, Any]]:
    """Rows of the table and elements to rotate, by kind; writes further arguments into `table`."""
    kind, factor = table["kind"], float(table.get("factor", 1.0))
    original = int(table.get("original_max_position", max_position))
    length = max_position
    if kind == "dynamic_factor" and "alpha" in table:
        table["kind"] = "dynamic_alpha"
    elif kind == "dynamic_factor":
        length = int(max_position * factor)
        table.update(max_position=length, original_max_position=max_position)
    elif kind == "linear":
        length = int(max_position * factor)
    elif kind in ("yarn", "deepseek_yarn"):
        length = int(original * factor)
        table["original_max_position"] = original
    elif kind == "llama3":
        table["original_max_position"] = original
    elif kind == "longrope":
        is_long = max_position > original
        table["rescale"] = factors[is_long]
        table.update(max_position=max_position, original_max_position=original)
    elif kind == "proportional":
        table["rotated"], rotary_dim = rotary_dim, head_size
    return length, rotary_dim, table
