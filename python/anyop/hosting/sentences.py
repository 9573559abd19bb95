# SPDX-License-Identifier: Apache-2.0
"""Sentences that are made of sentences."""

from __future__ import annotations


def clause(said: BaseException | str, name: str = "") -> str:
    """What an error says, as a part of another sentence: its first line without the full stop, and
    without `name` at its beginning, which the other sentence has already."""
    first = str(said).partition("\n")[0].strip()
    first = first.removeprefix(f"{name}: ") if name else first
    return first.removesuffix(".") or type(said).__name__
