# SPDX-License-Identifier: Apache-2.0
"""The statements that programs are made of; each makes text for what a scope has."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.scope import Scope

Maker = Callable[[Scope], str]
STATEMENTS: dict[str, tuple[float, Maker]] = {}  # by name: how often, and what makes it


def statement(weight: float) -> Callable[[Maker], Maker]:
    def add(maker: Maker) -> Maker:
        assert maker.__name__ not in STATEMENTS, maker.__name__
        STATEMENTS[maker.__name__] = (weight, maker)
        return maker

    return add
