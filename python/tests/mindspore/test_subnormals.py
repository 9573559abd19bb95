# SPDX-License-Identifier: Apache-2.0
"""Threads that take subnormal numbers for zero: the results of calls are those of NumPy arrays."""

from __future__ import annotations

from typing import Any

import anyop
import mindspore as ms
import pytest
from mindspore import Tensor
from subnormal_calls import CALLS, SCALE, TINY, check, flushing


@pytest.mark.parametrize("name", CALLS)
def test_results_of_tensors_are_those_of_arrays(name: str) -> None:
    with flushing():
        made = CALLS[name](Tensor(TINY), Tensor(SCALE), ms.float64)
    check(name, made, lambda t: t.asnumpy())


def program(x: Any) -> Any:
    return anyop.add(x, x), anyop.argmax(x), anyop.relu2(x)


def test_so_are_those_of_graphs() -> None:
    """MindSpore's threads have the mode of the thread that starts them."""
    with flushing():
        made = [t.asnumpy() for t in ms.jit(program)(Tensor(TINY))]
    for name, one in zip(("add", "argmax", "relu2"), made, strict=True):
        check(name, one)
