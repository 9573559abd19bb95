# SPDX-License-Identifier: Apache-2.0
"""A float or bool of each call."""

from __future__ import annotations

from typing import Any

from anyop._graph.traced import SYMBOLS, Traced


def _arithmetic(name: str) -> Any:
    def refuse(self: Number, *_: Any) -> Any:
        self._refuse(f"computes with {self._text()} ({SYMBOLS[name]})")

    return refuse


class Number(Traced):
    """Given to operators as an argument; nothing else is possible."""

    __slots__ = ()

    def _text(self) -> str:
        name, kind, _, _ = self._tracer.describe(self._id)
        return f"{name}, a {kind}"

    def __repr__(self) -> str:
        return self._text()

    __hash__ = object.__hash__


for _name in SYMBOLS:
    for _prefix in ("", "r", "i"):
        setattr(Number, f"__{_prefix}{_name}__", _arithmetic(_name))
