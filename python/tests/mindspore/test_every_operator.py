# SPDX-License-Identifier: Apache-2.0
"""Every operator in every mode of MindSpore: the bits of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyop
import mindspore as ms
import pytest
from anyop.hosting.facts import Operator
from calls import FORMS, IDS, Case, Net, has_only_known_dtypes

FLOATS = ["f32", "f16", "bf16"]


def case(op: Operator, form: int, dtype: str) -> Case:
    found = Case(op, form, dtype)
    if not has_only_known_dtypes(found.values + found.results):
        pytest.skip("MindSpore has no tensors of 8-bit floats on the CPU")
    return found


@pytest.fixture
def graph_mode() -> Iterator[None]:
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_pynative(op: Operator, form: int, dtype: str) -> None:
    found = case(op, form, dtype)
    arguments = found.arguments()
    like = {} if op.needs_tensor else {"like": ms}
    made = op.function(*arguments, **like)
    found.compare(arguments, made)
    assert len(made if isinstance(made, tuple) else [made] if op.results else []) == len(op.results)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_jit(op: Operator, form: int, dtype: str) -> None:
    found = case(op, form, dtype)
    net = Net(op, found.arguments())
    if any(r is not None and r.ndim == 0 and r.dtype.name == "bfloat16" for r in found.results):
        with pytest.raises(anyop.Unsupported, match="a result without dimensions is bf16, but"):
            ms.jit(net.construct)(*net.tensors)
        return
    compared(found, net, ms.jit(net.construct)(*net.tensors))


UNKNOWN = {"static": False, "sizes": [], "rank": None}


@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_graph(op: Operator, form: int, unknown: str, graph_mode: None) -> None:
    found = case(op, form, "f32")
    net = Net(op, found.arguments())
    if unknown != "static" and net.tensors:
        net.set_inputs(*(
            ms.Tensor(
                shape=None if unknown == "rank" else [None] * len(t.shape), dtype=t.dtype
            )
            for t in net.tensors
        ))  # fmt: skip
    compared(found, net, net(*net.tensors))


def compared(found: Case, net: Any, made: Any) -> None:
    """What a graph made and wrote."""
    arguments: list[Any] = []
    for place, value in zip(net.places, net.template, strict=True):
        if place[0] == 0:
            arguments.append(net.tensors[place[1]])
        else:
            arguments.append(net.tensors[place[1] : place[2]] if place[0] == 1 else value)
    found.compare(arguments, made if found.op.results else ())
