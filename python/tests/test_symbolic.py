# SPDX-License-Identifier: Apache-2.0
"""Inference over a host's own integers: what only symbolic and unknown sizes show.

signatures_test (C++) compares all kinds of numbers on random calls of every operator.
"""

from __future__ import annotations

from typing import Any

import anyop
import pytest
from anyop.symbolic import UNKNOWN, Host, TensorType, infer


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


def run(
    signature: str, *shapes: Any, dtype: str = "f32", rank_is_known: bool = True
) -> tuple[list[str], list[str]]:
    args = [None if s is None and rank_is_known else TensorType(dtype, s) for s in shapes]
    got = infer(signature, args, SymbolHost())
    shape = got.results[0].shape
    return (
        ["..."] if shape is None else [text(s) for s in shape],
        [text(a.holds) for a in got.assertions],
    )


def test_results_are_expressions_and_conditions_are_asserted() -> None:
    silu = "f(x: T[..., 2*d]) -> (y: T[..., d])"
    s = Symbol("s")
    assert run(silu, (4, s)) == (["4", "(s // 2)"], ["((s % 2) == 0)", "((s // 2) >= 0)"])
    assert run(silu, (s, 8)) == (["s", "4"], [])


def test_equal_sizes_are_asserted_unless_they_are_the_same() -> None:
    add = "f(a: T[d], b: T[d]) -> (y: T[d])"
    a, b = Symbol("a"), Symbol("b")
    assert run(add, (a,), (a,)) == (["a"], [])
    assert run(add, (a,), (b,)) == (["a"], ["(b == a)"])
    assert run(add, (a,), (3,)) == (["a"], ["(3 == a)"])
    rows = "f(a: T[..., d], b: T[..., d]) -> (y: T[..., d])"
    assert run(rows, (a, 3), (b, 3)) == (["a", "3"], ["(b == a)"])


def test_the_text_of_an_assertion_names_the_argument_or_the_condition() -> None:
    add = "f(a: T[d], b: T[d]) -> (y: T[d]) where d  >= 8"
    got = infer(add, [TensorType("f32", (Symbol(s),)) for s in "ab"], SymbolHost())
    assert [a.text for a in got.assertions] == ["f: b must be T[d].", "f: d >= 8 must hold."]


def test_unknown_sizes_bind_nothing() -> None:
    add = "f(a: T[d], b: T[d]) -> (y: T[d])"
    assert run(add, (UNKNOWN,), (3,)) == (["3"], [])
    assert run(add, (UNKNOWN,), (UNKNOWN,)) == (["?"], [])
    rows = "f(a: T[..., d], b: T[..., d]) -> (y: T[..., d])"
    assert run(rows, (UNKNOWN, 3), (5, 3)) == (["5", "3"], [])
    s = Symbol("s")
    assert run(rows, (UNKNOWN, 3), (s, UNKNOWN)) == (["s", "3"], [])


def test_unknown_rank_gives_unknown_rank() -> None:
    assert run("f(a: T[..., d]) -> (y: T[..., d])", None, rank_is_known=False) == (["..."], [])


def test_zero_times_unknown_is_zero() -> None:
    c = "f(a: T[d], b: T[n]) -> (y: T[n*0, 0*d, n+1])"
    assert run(c, (UNKNOWN,), (UNKNOWN,))[0] == ["0", "0", "?"]


def test_waits_until_one_variable_is_left() -> None:
    c = "f(a: T[d*n], b: T[n]) -> (y: T[d])"
    assert run(c, (12,), (4,)) == (["3"], [])
    s = Symbol("s")
    assert run(c, (s,), (4,))[0] == ["(s // 4)"]
    with pytest.raises(ValueError, match="f: a must be"):
        run(c, (13,), (4,))
    twice = "f(x: T[m], y: T[m], a: T[d*n], b: T[n]) -> (z: T[d])"
    assert run(twice, (s,), (Symbol("t"),), (12,), (4,)) == (["3"], ["(t == s)"])


def test_a_registered_operator_gives_its_torch_schemas() -> None:
    plain, out, in_place = anyop.schemas("rms_norm")
    parameters = "Tensor? weight=None, float eps=1e-6, float weight_offset=0.0"
    assert plain == f"rms_norm(Tensor x, {parameters}) -> Tensor"
    assert out == f"rms_norm.out(Tensor x, {parameters}, *, Tensor(a!) out) -> Tensor(a!)"
    assert in_place.startswith("rms_norm_(Tensor(a!) x, ")


def test_conditions_are_three_valued() -> None:
    s = Symbol("s")

    def required(condition: str) -> list[str]:
        return run(f"f(a: T[d], b: T[n]?) -> (y: T[d]) where {condition}", (s,), None)[1]

    assert required("n > 4 or 2 > 1") == []
    assert required("n > 4 or d > 4") == []
    assert required("2 > 1 and d > 4") == ["(s > 4)"]
    assert required("not d > 4") == ["not (s > 4)"]
    assert required("d > 4 or d == 2") == ["((s > 4) or (s == 2))"]
    with pytest.raises(ValueError, match="must hold"):
        required("n > 4 and 1 > 2")


def test_wrong_dtypes_ranks_and_divisions_are_refused() -> None:
    c = "f(a: T[d]) -> (y: T[d]) where T in f32, 4 % d > -1"
    assert run(c, (3,)) == (["3"], [])
    for wrong, text in (
        ({"dtype": "i8"}, "f: T in f32 must hold."),
        ({"shape": (3, 3)}, "f: no form takes these words and ranks."),
        ({"shape": (0,)}, "f: division by zero."),
    ):
        with pytest.raises(ValueError) as error:
            run(c, wrong.get("shape", (3,)), dtype=str(wrong.get("dtype", "f32")))
        assert str(error.value) == text


def test_the_elements_of_a_list_of_tensors_agree() -> None:
    def concat(*types: TensorType) -> Any:
        return infer("f(parts: T[n, d]*) -> (y: T[size(parts)/d, d])", [list(types)], SymbolHost())

    n, d = Symbol("n"), Symbol("d")
    got = concat(TensorType("f32", (n, 4)), TensorType("f32", (n, 4)))
    assert [text(x) for x in got.results[0].shape or ()][1] == "4"
    got = concat(TensorType("f32", (3, d)), TensorType("f32", (3, 4)))
    assert [text(a.holds) for a in got.assertions] == ["(4 == d)"]
    with pytest.raises(ValueError, match="f: parts must be T"):
        concat(TensorType("f32", (3, 4)), TensorType("bf16", (3, 4)))


def test_measures_are_of_parameters_and_results() -> None:
    c = "f(a: T[d, n]) -> (y: T[size(a), rank(a), rows(a), bytes(a), bytes(T)])"
    assert run(c, (3, 5))[0] == ["15", "2", "3", "60", "4"]
    with pytest.raises(ValueError, match="must hold"):
        run("f(a: T[d]) -> (y: T[d]) where size(y) == 7", (6,))


def test_numbers_and_lists_may_be_symbols() -> None:
    s, f = Symbol("s"), Symbol("f")
    signature = (
        "f(a: T[d], n: int, p: int[2], x: float, b: bool) -> (y: T[d+n, p[0]*2, d*b]) "
        "where n >= 0, p >= 1, x > 0, p[1] / x > 1"
    )
    got = infer(signature, [TensorType("f32", (8,)), s, [3, s], f, True], SymbolHost())
    assert [text(x) for x in got.results[0].shape or ()] == ["(8 + s)", "6", "8"]
    asserted = ["(s >= 0)", "(s >= 1)", "(f > 0)", "((s / f) > 1)"]
    assert [text(a.holds) for a in got.assertions] == asserted
    unknown = infer(signature, [TensorType("f32", (8,)), *[UNKNOWN] * 4], SymbolHost())
    assert unknown.results[0].shape == (UNKNOWN, UNKNOWN, UNKNOWN)
    beyond = [TensorType("f32", (8,)), 2**63, [1, 3], 1.0, False]  # Python's own, but no int64
    got = infer(signature, beyond, Host())
    assert got.results[0].shape == (2**63 + 8, 2, 0)


def test_an_unknown_word_leaves_what_all_forms_agree_on() -> None:
    forms = "f(x: T[a, b], w: 'n' = 'n') -> (y: T[a, b])\nf(x: T[a, b], w: 't') -> (y: T[b, a])"
    x = TensorType("f32", (3, 3))
    assert infer(forms, [x, UNKNOWN]).results[0].shape == (3, 3)
    x = TensorType("f32", (3, 4))
    assert infer(forms, [x, UNKNOWN]).results[0].shape == (UNKNOWN, UNKNOWN)
    assert infer(forms, [x, "t"]).form == 1


def test_what_a_host_raises_reaches_the_caller() -> None:
    class Broken(Host):
        def compute(self, op: str, a: Any, b: Any) -> Any:
            raise KeyError(op)

    with pytest.raises(KeyError, match=r"\*"):
        infer("f(a: T[d]) -> (y: T[2*d])", [TensorType("f32", (Symbol("s"),))], Broken())
    with pytest.raises(TypeError, match="f: every parameter needs an entry"):
        infer("f(a: T[d]) -> (y: T[2*d])", [])


class Inconclusive(Exception):
    pass


class Dimension:
    """factor*name + offset with name >= 1. As in JAX, == is False where nobody knows; < raises."""

    def __init__(self, factor: int, name: str, offset: int):
        self.factor, self.name, self.offset = factor, name, offset

    def key(self) -> tuple[int, str, int]:
        return self.factor, self.name, self.offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimension) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, int) and self.factor + self.offset >= other:
            return False
        raise Inconclusive

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, int) and self.factor + self.offset > other:
            return True
        raise Inconclusive

    def __mul__(self, other: int) -> Dimension:
        return Dimension(self.factor * other, self.name, self.offset * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Any:
        if self.factor % other:
            return Dimension(1, f"floordiv({self.key()}, {other})", 0)
        return Dimension(self.factor // other, self.name, self.offset // other)

    def __mod__(self, other: int) -> Any:
        if self.factor % other:
            return Dimension(1, f"mod({self.key()}, {other})", -1)
        return self.offset % other


class DimensionHost(Host):
    """Nothing can be asserted: what is not known to hold or to fail is unknown."""

    def compute(self, op: str, a: Any, b: Any) -> Any:
        try:
            if op == "!=":
                return not self.equal(a, b)
            if op == "==":
                return self.equal(a, b)
            if op == ">=":
                return not super().compute("<", a, b)
            return super().compute(op, a, b)
        except Inconclusive:
            return UNKNOWN

    def equal(self, a: Any, b: Any) -> bool:
        """a == b is False for what is not known: a difference must be proven."""
        if a == b:
            return True
        if a < b or a > b:
            return False
        raise Inconclusive


def test_a_comparison_may_be_unknown() -> None:
    n = Dimension(1, "n", 0)

    def shape(signature: str, *shapes: Any) -> Any:
        got = infer(signature, [TensorType("f32", s) for s in shapes], DimensionHost())
        assert got.assertions == []
        return got.results[0].shape

    head = "f(a: T[..., d]) -> (y: T[..., d])"
    assert shape(head + " where d == 64", (n,)) == (n,)
    assert shape(head + " where d % 2 == 0, not d % 2 == 1", (n,)) == (n,)
    assert shape(head + " where d >= 1", (n,)) == (n,)
    assert shape("f(a: T[2*d]) -> (y: T[d])", (2 * n,)) == (n,)
    assert shape("f(a: T[d], b: T[d]) -> (y: T[d])", (n,), (8,)) == (n,)
    with pytest.raises(ValueError, match="f: d == 0 must hold"):
        shape(head + " where d == 0", (n,))
    with pytest.raises(ValueError, match="f: a must be T"):
        shape("f(a: T[2*d]) -> (y: T[d])", (Dimension(2, "n", 1),))


def test_a_registered_operator_infers_over_symbols() -> None:
    rows, width = Symbol("rows"), Symbol("width")
    args = [TensorType("bf16", (rows, width)), None, 1e-6, 0.0]
    for op in ("rms_norm", "anyop.rms_norm", anyop.rms_norm):
        got = infer(op, args, SymbolHost())
        assert [(r.dtype, r.shape) for r in got.results] == [("bf16", (rows, width))]
        assert [text(a.holds) for a in got.assertions] == ["(width >= 1)"]


def test_the_deepest_expression_leaves_room_on_the_stack() -> None:
    """As deep as the parser lets through: chains of 100 operators, 64 parentheses."""
    total = " + ".join(["d"] * 99)
    chain = " or ".join(["d == 0"] * 98 + ["d == 5"])
    nested = "(d == 0 or " * 60 + "d == 5" + ")" * 60
    signature = f"f(a: T[d]) -> (y: T[{total}]) where {chain}, {nested}"

    def behind(frames: int) -> Any:
        if frames:
            return behind(frames - 1)
        return infer(signature, [TensorType("f32", (5,))])

    assert behind(500).results == [TensorType("f32", (99 * 5,))]
