# SPDX-License-Identifier: Apache-2.0
"""The evaluator of contracts over a host's own integers.

signatures_test (C++) compares it with the checker on random calls of every operator; here are the
rules that only symbolic and unknown sizes show.
"""

from __future__ import annotations

from typing import Any

import pytest
from anyop.symbolic import UNKNOWN, Host, TensorType, infer

D, N = ["var", 0], ["var", 1]


def tensor(dims: list[Any], dots: bool = False) -> dict[str, Any]:
    return {"dtypes": {"var": 0}, "dots": dots, "dims": dims, "text": "T[...]", "dense": False}


def contract(params: list[Any], result: list[Any], conditions: Any = (), dots: bool = False) -> Any:
    """One form of tensor parameters, each given by its dimensions; one result."""
    return {
        "name": "f",
        "hash": "",
        "params": [{"name": f"p{i}", "kind": "tensor"} for i in range(len(params))],
        "results": [{"name": "y"}],
        "forms": [
            {
                "vars": ["d", "n"],
                "dtype_vars": ["T"],
                "params": [tensor(p, dots) for p in params],
                "results": [tensor(result, dots)],
                "conditions": [{"expr": c, "text": str(c)} for c in conditions],
            }
        ],
    }


class Symbol:
    """An integer that is only written down."""

    def __init__(self, text: str):
        self.text = text

    def __bool__(self) -> bool:
        raise TypeError("a symbol was looked at")

    def __neg__(self) -> Symbol:
        return Symbol(f"-{self.text}")


def text(x: Any) -> str:
    return x.text if isinstance(x, Symbol) else str(x)


class SymbolHost(Host):
    def compute(self, op: str, a: Any, b: Any) -> Any:
        if isinstance(a, Symbol) or isinstance(b, Symbol):
            return Symbol(f"({text(a)} {op} {text(b)})")
        return super().compute(op, a, b)

    def negate(self, a: Any) -> Any:
        return Symbol(f"not {text(a)}")


def run(c: Any, *shapes: Any, dtype: str = "f32") -> tuple[list[str], list[str]]:
    args = [None if s is None else TensorType(dtype, s) for s in shapes]
    got = infer(c, args, SymbolHost())
    shape = got.results[0].shape
    return (
        ["..."] if shape is None else [text(s) for s in shape],
        [text(a.holds) for a in got.assertions],
    )


def test_results_are_expressions_and_conditions_are_asserted() -> None:
    silu = contract([[["*", 2, D]]], [D], dots=True)
    s = Symbol("s")
    assert run(silu, (4, s)) == (["4", "(s // 2)"], ["((s % 2) == 0)", "((s // 2) >= 0)"])
    assert run(silu, (s, 8)) == (["s", "4"], [])


def test_equal_sizes_are_asserted_unless_they_are_the_same() -> None:
    add = contract([[D], [D]], [D])
    a, b = Symbol("a"), Symbol("b")
    assert run(add, (a,), (a,)) == (["a"], [])
    assert run(add, (a,), (b,)) == (["a"], ["(b == a)"])
    assert run(add, (a,), (3,)) == (["a"], ["(3 == a)"])


def test_unknown_sizes_bind_nothing() -> None:
    add = contract([[D], [D]], [D])
    assert run(add, (UNKNOWN,), (3,)) == (["3"], [])
    assert run(add, (UNKNOWN,), (UNKNOWN,)) == (["?"], [])
    rows = contract([[D], [D]], [D], dots=True)
    assert run(rows, (UNKNOWN, 3), (5, 3)) == (["5", "3"], [])


def test_unknown_rank_gives_unknown_rank() -> None:
    got = infer(contract([[D]], [D], dots=True), [TensorType("f32", None)])
    assert got.results[0].shape is None


def test_zero_times_unknown_is_zero() -> None:
    c = contract([[D]], [["*", N, 0], ["*", 0, D], ["+", N, 1]])
    assert run(c, (UNKNOWN,))[0] == ["0", "0", "?"]


def test_waits_until_one_variable_is_left() -> None:
    c = contract([[["*", D, N]], [N]], [D])
    assert run(c, (12,), (4,)) == (["3"], [])
    s = Symbol("s")
    assert run(c, (s,), (4,))[0] == ["(s // 4)"]
    with pytest.raises(ValueError, match="f: p0 must be"):
        run(c, (13,), (4,))


def test_conditions_are_three_valued() -> None:
    s = Symbol("s")
    big, unknown = [">", D, 4], [">", N, 4]
    assert run(contract([[D]], [D], [["or", unknown, [">", 2, 1]]]), (s,))[1] == []
    assert run(contract([[D]], [D], [["or", unknown, big]]), (s,))[1] == []
    assert run(contract([[D]], [D], [["and", [">", 2, 1], big]]), (s,))[1] == ["(s > 4)"]
    assert run(contract([[D]], [D], [["not", big]]), (s,))[1] == ["not (s > 4)"]
    with pytest.raises(ValueError, match="must hold"):
        run(contract([[D]], [D], [["and", unknown, [">", 1, 2]]]), (s,))


def test_wrong_dtypes_ranks_and_divisions_are_refused() -> None:
    c = contract([[D]], [D], [["in", ["dtype_var", 0], ["f32"]], [">", ["%", 4, D], -1]])
    assert run(c, (3,)) == (["3"], [])
    with pytest.raises(ValueError, match="must hold"):
        run(c, (3,), dtype="i8")
    with pytest.raises(ValueError, match="no form"):
        run(c, (3, 3))
    with pytest.raises(ValueError, match="division by zero"):
        run(c, (0,))


def test_measures_are_of_parameters_and_results() -> None:
    sizes = [["size", 0], ["rank", 0], ["rows", 0], ["bytes", 0], ["dtype_bytes", {"var": 0}]]
    c = contract([[D, N]], sizes)
    assert run(c, (3, 5))[0] == ["15", "2", "3", "60", "4"]
    c = contract([[D]], [D], [["==", ["size", 1], 7]])
    with pytest.raises(ValueError, match="must hold"):
        run(c, (6,))


def test_a_registered_operator_gives_its_contract_to_a_symbolic_host() -> None:
    anyop = pytest.importorskip("anyop")
    rows, width = Symbol("rows"), Symbol("width")
    args = [TensorType("bf16", (rows, width)), None, 1e-6, 0.0]
    got = infer(anyop.contract("rms_norm"), args, SymbolHost())
    assert [(r.dtype, r.shape) for r in got.results] == [("bf16", (rows, width))]
    assert [text(a.holds) for a in got.assertions] == ["(width >= 1)"]


def test_a_registered_operator_gives_its_torch_schemas() -> None:
    anyop = pytest.importorskip("anyop")
    plain, out, in_place = anyop.schemas("rms_norm")
    parameters = "Tensor? weight=None, float eps=1e-6, float weight_offset=0.0"
    assert plain == f"rms_norm(Tensor x, {parameters}) -> Tensor"
    assert out == f"rms_norm.out(Tensor x, {parameters}, *, Tensor(a!) out) -> Tensor(a!)"
    assert in_place.startswith("rms_norm_(Tensor(a!) x, ")


def test_the_deepest_expression_leaves_room_on_the_stack() -> None:
    """As deep as the parser lets through: chains of 100 operators, 64 parentheses."""
    total, chain, nested = D, ["==", D, 0], ["==", D, 5]
    for _ in range(98):
        total, chain = ["+", total, D], ["or", chain, ["==", D, 5]]
    for _ in range(64):
        nested = ["or", ["==", D, 0], nested]

    def behind(frames: int) -> Any:
        if frames:
            return behind(frames - 1)
        return infer(contract([[D]], [total], [chain, nested]), [TensorType("f32", (5,))])

    assert behind(500).results == [TensorType("f32", (99 * 5,))]
