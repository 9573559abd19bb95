# SPDX-License-Identifier: Apache-2.0
"""Sentences that are made of sentences, and those that every host says."""

from __future__ import annotations

from typing import Any

from anyop import _anyop

_TEXTS = _anyop.texts()


def clause(said: BaseException | str, name: str = "") -> str:
    """What an error says, as a part of another sentence: its first line without the full stop, and
    without `name` at its beginning, which the other sentence has already."""
    first = str(said).partition("\n")[0].strip()
    first = first.removeprefix(f"{name}: ") if name else first
    return first.removesuffix(".") or type(said).__name__


def refusal(text: str, **words: Any) -> str:
    """One of the texts of src/signature/texts.h, filled in."""
    return _TEXTS[text].format(**words)
