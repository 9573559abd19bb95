# SPDX-License-Identifier: Apache-2.0
"""Threads that take subnormal numbers for zero: results are those of any other thread."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "hosting"))
from subnormal_calls import CALLS, SCALE, TINY, check, flushing

X = np.float32([1e-40, 2e-40])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_results_of_arrays_hang_on_no_mode(name: str, threads: int) -> None:
    with flushing(), anyop.threads(threads):
        made = CALLS[name](TINY, SCALE, np.float64)
    check(name, made)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_nor_do_those_of_graphs(name: str, threads: int) -> None:
    graph = anyop.graph(lambda x, s: CALLS[name](x, s, np.float64), "f32[n, m]", "f32[1]")
    with flushing(), anyop.threads(threads):
        made = graph(TINY, SCALE)
    check(name, made)


@pytest.mark.parametrize("name", CALLS)
def test_nor_those_of_tensors(name: str) -> None:
    torch = pytest.importorskip("torch")
    x, scale = torch.from_numpy(TINY), torch.from_numpy(SCALE)
    ops = torch.ops.anyop
    torch.set_flush_denormal(True)
    try:
        made = CALLS[name](x, scale, torch.float64)
        taped = ops.add(x.requires_grad_(), x) if name == "add" else made
        compiled = torch.compile(CALLS[name], backend="anyop")(x.detach(), scale, torch.float64)
        assert torch.tensor(1e-40) * 2 == 0  # torch's own are as it was told
    finally:
        torch.set_flush_denormal(False)
    for each in (made, taped, compiled):
        check(name, each, lambda t: t.detach().numpy())


def test_functions_of_python_have_the_mode_of_their_caller() -> None:
    @anyop.define("twice_tiny(x: f32[n]) -> (y: f32[n])", library="float_mode")
    def twice_tiny(x: Any) -> Any:
        return x * np.float32(2)

    graph = anyop.graph(
        lambda x: (anyop.add(x, x), anyop.host(lambda v: v * np.float32(2), x, result=x)),
        "f32[n]",
    )
    with flushing():
        own, (ours, hosts) = twice_tiny(X), graph(X)
    for flushed in (own, hosts):
        np.testing.assert_array_equal(flushed, np.zeros(2))
    np.testing.assert_array_equal(ours, X + X)
    np.testing.assert_array_equal(twice_tiny(X), X + X)


def test_a_mode_that_a_function_sets_stays() -> None:
    torch = pytest.importorskip("torch")

    def set_it(x: Any) -> Any:
        torch.set_flush_denormal(flush)
        return x

    graph = anyop.graph(
        lambda x: anyop.add(anyop.host(set_it, anyop.add(x, x), result=x), x), "f32[n]"
    )
    three = X + X + X
    for flush in (True, False):
        np.testing.assert_array_equal(graph(X), three)
        is_flushing = float(np.float32(1e-40) * np.float32(2)) == 0
        torch.set_flush_denormal(False)
        assert is_flushing == flush
