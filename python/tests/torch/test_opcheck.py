# SPDX-License-Identifier: Apache-2.0
"""torch.library.opcheck, and the compilers, on every operator and form."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from generated import (  # noqa: E402
    FORMS,
    IDS,
    contract,
    example,
    listed,
    operators,
    torch_op,
    trained,
)

# The first form of each operator; others differ from it in dtypes alone, as far as torch sees. What
# torch is told of an operator is made from its signature by one road: some operators show it.
SOME = set(operators()[::3])


def each_form(usual: set[str]) -> Any:
    marks = [pytest.mark.exhaustive if form or op not in usual else () for op, form in FORMS]
    cases = [pytest.param(*f, marks=mark) for f, mark in zip(FORMS, marks, strict=True)]
    return pytest.mark.parametrize(("op", "form"), cases, ids=IDS)


@pytest.mark.slow
@each_form(set(operators()))
def test_opcheck(op: str, form: int) -> None:
    torch.library.opcheck(torch_op(op), tuple(trained(op, form).torch_values))


@pytest.mark.slow
@each_form(SOME)
def test_opcheck_of_the_out_and_in_place_variants(op: str, form: int) -> None:
    _, out, in_place = anyop.schemas(op)
    call = example(op, form, dtype="f32")
    if in_place:
        torch.library.opcheck(torch_op(op + "_"), tuple(call.copy().torch_values))
    if not out:
        return
    results = listed(torch_op(op)(*call.copy().torch_values))
    if any(r is None for r in results):
        return
    names = ["out"] if len(results) == 1 else [f"out_{r['name']}" for r in contract(op)["results"]]
    outs = dict(zip(names, map(torch.empty_like, results), strict=True))
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    checks.append("test_aot_dispatch_dynamic")
    if any(r.dtype == torch.float8_e4m3fn for r in results):
        checks.remove("test_schema")  # it multiplies, which torch cannot in 8 bits
    torch.library.opcheck(torch_op(op, "out"), tuple(call.torch_values), outs, test_utils=checks)


@pytest.mark.parametrize("op", operators())
def test_opcheck_of_the_schema(op: str) -> None:
    args: tuple[Any, ...] = tuple(example(op, dtype="f32").torch_values)
    torch.library.opcheck(torch_op(op), args, test_utils=("test_schema", "test_faketensor"))


def test_a_result_without_dimensions_over_sizes_that_nobody_knows() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(torch.ops.anyop.argmax, tracing_mode="symbolic")(torch.randn(4))
    (made,) = [n.meta["val"] for n in traced.graph.nodes if n.op == "call_function"]
    assert tuple(made.shape) == ()
