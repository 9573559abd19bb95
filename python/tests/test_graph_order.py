# SPDX-License-Identifier: Apache-2.0
"""The order in which a graph runs its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop
from anyop.bench import models
from checkout import ROOT


@pytest.fixture
def changes() -> Iterator[dict[str, str]]:
    """What each pass changes, by its name."""
    told: dict[str, str] = {}
    last = _anyop.listen_to_passes(told.__setitem__)
    yield told
    _anyop.listen_to_passes(last)


def test_a_decoder_keeps_its_order(changes: dict[str, str]) -> None:
    decoders = models.module_of(ROOT / "examples" / "smollm2" / "decoder_graphs.py")
    decoders.of_inputs(decoders.Shape(2, 576, 9, 3, 64, 1536, 49152))
    assert changes["order"] == ""


def test_long_values_are_not_kept_while_others_are_made(changes: dict[str, str]) -> None:
    ones = [np.full((64, 4096), k, np.float32) for k in range(6)]
    heads = [np.full((4096, 8), k, np.float32) for k in range(6)]

    def step(x: Any) -> Any:
        wide = [anyop.linear(x, w.T.copy()) for w in ones]
        narrow = [anyop.linear(y, w.T.copy()) for y, w in zip(wide, heads, strict=True)]
        total = narrow[0]
        for y in narrow[1:]:
            total = anyop.add(total, y)
        return total

    g = anyop.graph(step, "f32[n, 64]")
    assert changes["order"].startswith("@@")
    x = np.random.default_rng(1).integers(-2, 3, (512, 64)).astype(np.float32)
    assert (g(x) == step(x)).all()
    assert g.memory(n=512).peak_bytes < 2.2 * 512 * 4096 * 4


def test_functions_of_python_keep_their_order(changes: dict[str, str]) -> None:
    calls = []

    @anyop.define("order_first(x: f32[n, m]) -> (y: f32[n, m])")
    def first(x: Any) -> Any:
        calls.append("first")
        return x + 1

    @anyop.define("order_second(x: f32[n, m]) -> (y: f32[1, m])")
    def second(x: Any) -> Any:
        calls.append("second")
        return x[:1]

    def step(x: Any, y: Any, z: Any) -> Any:
        a, b, c = [second(v) for v in [first(v) for v in (x, y, z)]]
        return anyop.add(anyop.add(a, b), c)

    g = anyop.graph(step, *["f32[n, 64]"] * 3)
    calls.clear()
    g(*np.ones((3, 5, 64), np.float32))
    assert calls == ["first"] * 3 + ["second"] * 3
