# SPDX-License-Identifier: Apache-2.0
"""Every operator in every mode of MindSpore: the bits of NumPy.

A graph costs as much to compile as several calls in it, so that calls share one. Left to ./check
--all are compiled programs of the operators that are not in the sample, and what another test says
too: f16 under jit (a name beside f32 and bf16, and the bits are
those of PyNative), graph mode with known sizes (the nodes are those of jit) and with unknown ones
(what is inferred of them is compared for every operator without MindSpore; here the rank).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyop
import mindspore as ms
import pytest
import samples
from anyop.hosting.facts import Operator
from calls import FORMS, IDS, Case, Net, Together, has_only_known_dtypes

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


# Compiled programs take seconds: by default the first form of the operators of the sample.
FIRST_FORM = pytest.mark.parametrize(
    ("op", "form"),
    [
        pytest.param(
            op, form,
            marks=pytest.mark.exhaustive if form or op.short_name not in samples.sample() else (),
        )
        for op, form in FORMS
    ],
    ids=IDS,
)  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_pynative(op: Operator, form: int, dtype: str) -> None:
    found = case(op, form, dtype)
    arguments = found.arguments()
    like = {} if op.needs_tensor else {"like": ms}
    made = op.function(*arguments, **like)
    found.compare(arguments, made)
    assert len(made if isinstance(made, tuple) else [made] if op.results else []) == len(op.results)


def known(op: Operator, form: int, dtypes: tuple[str, ...]) -> list[Case]:
    """Calls with each dtype, those that differ."""
    found: list[Case] = []
    for one in (Case(op, form, dtype) for dtype in dtypes):
        is_known = has_only_known_dtypes(one.values + one.results)
        if is_known and not any(one.is_like(other) for other in found):
            found.append(one)
    if not found:
        pytest.skip("MindSpore has no tensors of 8-bit floats on the CPU")
    return found


def is_no_tensor(found: Case) -> bool:
    results = [r for r in found.results if r is not None]
    return any(r.ndim == 0 and r.dtype.name == "bfloat16" for r in results)


@pytest.mark.parametrize("dtypes", [
    ("f32", "bf16"), pytest.param(("f16",), marks=pytest.mark.exhaustive),
], ids="-".join)  # fmt: skip
@FIRST_FORM
def test_jit(op: Operator, form: int, dtypes: tuple[str, ...]) -> None:
    cases = known(op, form, dtypes)
    nets = Together([Net(one) for one in cases if not is_no_tensor(one)])
    nets.compare(ms.jit(nets.construct)(*nets.tensors))
    for refused in filter(is_no_tensor, cases):
        net = Net(refused)
        with pytest.raises(anyop.Unsupported, match="a result without dimensions is bf16, but"):
            ms.jit(net.construct)(*net.tensors)


def unknown(tensor: Any, what: str) -> Any:
    shape = None if what == "rank" else [None] * len(tensor.shape)
    return tensor if what == "static" else ms.Tensor(shape=shape, dtype=tensor.dtype)


@pytest.mark.parametrize("kinds", [
    ("rank",), pytest.param(("static", "sizes"), marks=pytest.mark.exhaustive),
], ids="-".join)  # fmt: skip
@FIRST_FORM
def test_graph(op: Operator, form: int, kinds: tuple[str, ...], graph_mode: None) -> None:
    found = case(op, form, "f32")
    nets = Together([Net(found) for _ in kinds])
    told = [
        unknown(t, what) for what, net in zip(kinds, nets.nets, strict=True) for t in net.tensors
    ]
    if told:
        nets.set_inputs(*told)
    nets.compare(nets(*nets.tensors))
