# SPDX-License-Identifier: Apache-2.0
"""What hosts are told of operators, beside what their signatures say."""

from __future__ import annotations

from typing import Any

import anyop
import numpy as np
import pytest
from anyop.hosting.facts import Operator, Parameter, Result, Wiring
from numpy_calls import OPERATORS


def ignore(*arguments: Any) -> Any:
    raise AssertionError(arguments)


def defined(name: str, signature: str, **options: Any) -> Operator:
    """An operator of the library `facts`; its function is never called."""
    params = signature[1 : signature.index(") ->")]
    names = [part.split(":")[0].strip() for part in params.split(",") if ":" in part]
    function = eval(f"lambda {', '.join(names)}: ignore()", {"ignore": ignore})
    anyop.define(name + signature, function, library="facts", **options)
    return Operator(f"facts.{name}")


def test_an_operator_is_data() -> None:
    op = Operator("anyop.rms_norm")
    assert (op.name, op.library, op.display_name) == ("anyop.rms_norm", "anyop", "rms_norm")
    assert op.function is anyop.rms_norm
    assert op.params[0] == Parameter("x", "tensor", False, False, False, None, ())
    assert op.params[1] == Parameter("weight", "tensor", True, False, True, None, ())
    assert (op.params[2].kind, op.params[2].default) == ("float", 1e-6)
    assert op.results == (Result("y", False, None),)
    assert (op.has_out, op.has_lone_result, op.has_in_place) == (True, True, True)
    assert (op.takes_mask, op.needs_tensor, op.written) == (False, True, ())
    assert op.dtype_groups == [[0, 1]]
    assert op.has_flops
    assert Operator("anyop.linear").params[3].words[0] == "none"
    with pytest.raises(KeyError):
        Operator("anyop.no_such")


def test_a_gradient_is_wired_by_numbers() -> None:
    op = Operator("anyop.linear")
    assert op.wiring == Wiring(
        operator="anyop.linear_backward",
        sources=(("result_gradient", 0), ("param", 0), ("param", 1), ("param", 3)),
        targets=(0, 1, 2),
        words={3: ("none",)},
    )
    assert op.wiring.results == {0}
    gradient = Operator("anyop.linear_backward")
    assert gradient.wiring is None
    assert gradient.takes_mask
    assert [r.is_optional for r in gradient.results] == [True] * 3


def test_what_other_operators_may_be() -> None:
    op = defined("f", "(n: int, x: f32[n]?) -> (y: f32[n])")
    assert (op.display_name, op.needs_tensor, op.has_flops) == ("facts.f", False, False)
    op = defined("g", "(a: mut f32[n], b: f32[n]) -> ()")
    assert (op.has_out, op.has_lone_result, op.written) == (False, False, (0,))
    op = defined("h", "(x: T[n], w: T[n]?) -> (dx: T[n]?, dw: T[n]?) where T in f32 | f64")
    assert op.results == (Result("dx", True, None), Result("dw", True, 1))
    assert op.dtype_groups == [[0, 1]]
    assert op.takes_mask
    op = defined("i", "(x: f32[n], w: f32[n]?, y: f32[n], b: f32[n]?) -> (z: f32[n])")
    assert op.left_out_by_keyword == {"w": 1}


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.short_name)
def test_the_facts_are_what_the_forms_say(op: Operator) -> None:
    forms, contract = op.contract["forms"], op.contract
    muts = [i for i, p in enumerate(contract["params"]) if p.get("mut")]
    assert op.written == tuple(muts)
    assert op.has_out == bool(contract["results"])
    assert op.has_lone_result == (len(contract["results"]) == 1 and not muts)
    assert op.has_in_place == (
        op.has_lone_result
        and not op.results[0].is_optional
        and op.params[0].kind == "tensor"
        and all(0 in form["results"][0]["over"] for form in forms)
    )
    plain, out, in_place = anyop.schemas(op.name)
    assert (bool(out), bool(in_place)) == (op.has_out, op.has_in_place)
    assert ("output_mask" in plain) == op.takes_mask
    grouped = {i for group in op.dtype_groups for i in group}
    for i, p in enumerate(forms[0]["params"]):
        if i in grouped:
            assert op.params[i].kind == "tensor" and "var" in p["dtypes"] and i not in muts


def test_the_gradient_of_a_late_absent_argument_is_declined_too() -> None:
    """Of the last of an operator's 56 parameters as of the first."""
    names = [f"p{i}" for i in range(55)]
    arguments = ", ".join(["dy", *names])
    function = eval(f"lambda {arguments}: (dy, dy)")
    params = ", ".join(f"{n}: f32[n]?" for n in names)
    signature = f"late(dy: f32[n], {params}) -> (dp0: f32[n]?, dp54: f32[n]?)"
    late = anyop.define(signature, function, library="facts")
    x = np.ones(2, np.float32)
    assert Operator("facts.late").results[1].declined_without == 55
    results = late(x)
    assert (results.dp0, results.dp54) == (None, None)
    given = late(x, p54=x)
    assert given.dp0 is None
    np.testing.assert_array_equal(given.dp54, x)
