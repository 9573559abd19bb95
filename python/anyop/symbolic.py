# SPDX-License-Identifier: Apache-2.0
"""Result types of an operator over a host's own integers: ints, symbolic ones, unknown ones.

A contract comes from the core as data (`ContractJson`, symbolic.h); nothing here knows an operator.
Concrete mistakes are refused by the core, with its texts; this is for sizes that it cannot hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Expression = Any  # a number, or a list as ContractJson documents it


class _Unknown:
    """The value of what nobody knows yet. Everything computed from it is unknown."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()

_DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2}


@dataclass
class TensorType:
    """dtype: "bf16". shape: sizes of any integer type, UNKNOWN among them; None: unknown rank."""

    dtype: str
    shape: tuple[Any, ...] | None


@dataclass
class Assertion:
    """A condition that the host must assert: neither true nor false for all sizes."""

    holds: Any
    text: str


@dataclass
class Inference:
    """What a call returns, and what must hold for it. form: the number of the form taken."""

    form: int
    results: list[TensorType]
    assertions: list[Assertion] = field(default_factory=list)


class Host:
    """How a host computes with its integers. Subclass where Python's operators do not do.

    An operation may return UNKNOWN where the host cannot tell.
    """

    binary: dict[str, Callable[[Any, Any], Any]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "/": operator.truediv,
        "%": operator.mod,
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "and": operator.and_,
        "or": operator.or_,
        "min": min,
        "max": max,
        "ceil_div": lambda a, b: -(-a // b),
    }

    def compute(self, op: str, a: Any, b: Any) -> Any:
        return self.binary[op](a, b)

    def negate(self, a: Any) -> Any:
        """not a, of a symbolic truth value."""
        return ~a

    def same(self, a: Any, b: Any) -> bool:
        """Whether a size needs no assertion to equal another one."""
        return a is b


class _Call:
    def __init__(self, contract: dict[str, Any], form: dict[str, Any], args: list[Any], host: Host):
        self.contract, self.form, self.args, self.host = contract, form, args, host
        self.vars: dict[int, Any] = {}
        self.dtypes: dict[int, str] = {}
        self.lead: list[Any] | None = None
        self.assertions: list[Assertion] = []

    # ---- values
    def binary(self, op: str, a: Any, b: Any) -> Any:
        if op == "*" and any(isinstance(x, int) and x == 0 for x in (a, b)):
            return 0
        if a is UNKNOWN or b is UNKNOWN:
            return UNKNOWN
        if op in ("/", "//", "%", "ceil_div") and isinstance(b, int | float) and b == 0:
            raise ValueError(f"{self.contract['name']}: division by zero.")
        return self.host.compute(op, a, b)

    def conjunction(self, a: Any, b: Any) -> Any:
        return self.logic("and", a, lambda: b)

    def logic(self, op: str, a: Any, b: Callable[[], Any]) -> Any:
        decides = op == "or"
        if isinstance(a, bool) and a is decides:
            return a
        other = b()
        if isinstance(other, bool):
            return other if other is decides else a
        if isinstance(a, bool):
            return other
        return UNKNOWN if a is UNKNOWN or other is UNKNOWN else self.host.compute(op, a, other)

    def value(self, e: Expression) -> Any:
        if not isinstance(e, list):
            return e
        op = e[0]
        if op == "var":
            return self.vars.get(e[1], UNKNOWN)
        if op in ("word", "dtype"):
            return e[1]
        if op == "dtype_var":
            return self.dtypes.get(e[1], UNKNOWN)
        if op in ("param", "list", "element", "len", "sum", "given"):
            return self.argument(e)
        if op in ("size", "rank", "rows", "bytes"):
            return self.measure(op, e[1])
        if op == "dtype_bytes":
            dtype = self.dtype_of(e[1])
            return UNKNOWN if dtype is UNKNOWN else _DTYPE_BYTES.get(dtype, 1)
        if op == "in":
            dtype = self.value(e[1])
            return UNKNOWN if dtype is UNKNOWN else dtype in e[2]
        if op in ("and", "or"):
            return self.logic(op, self.value(e[1]), lambda: self.value(e[2]))
        if op == "not":
            a = self.value(e[1])
            if a is UNKNOWN:
                return UNKNOWN
            return not a if isinstance(a, bool) else self.host.negate(a)
        if op == "neg":
            a = self.value(e[1])
            return UNKNOWN if a is UNKNOWN else -a
        a, b = self.value(e[1]), self.value(e[2])
        if isinstance(a, _Elements) or isinstance(b, _Elements):
            return self.compare_list(op, a, b)
        return self.binary(op, a, b)

    def argument(self, e: Expression) -> Any:
        op, arg = e[0], self.args[e[1]]
        if op == "given":
            return arg is not None
        if arg is None or arg is UNKNOWN:
            return UNKNOWN
        if op == "element":
            return arg[e[2]] if e[2] < len(arg) else UNKNOWN
        if op == "len":
            return len(arg)
        if op == "sum":
            total: Any = 0
            for x in arg:
                total = self.binary("+", total, x)
            return total
        if op == "list":
            return _Elements(arg)
        return arg

    def compare_list(self, op: str, a: Any, b: Any) -> Any:
        result: Any = True
        for x in a if isinstance(a, _Elements) else b:
            one = self.binary(op, x, b) if isinstance(a, _Elements) else self.binary(op, a, x)
            result = self.conjunction(result, one)
        return result

    def measure(self, op: str, index: int) -> Any:
        params = len(self.contract["params"])
        if index >= params:
            result = self.result(self.form["results"][index - params])
            return self.measure_one(op, result)
        arg = self.args[index]
        if arg is None:
            return UNKNOWN
        if isinstance(arg, TensorType):
            return self.measure_one(op, arg)
        total: Any = 0
        for x in arg:
            total = self.binary("+", total, self.measure_one(op, x))
        return total

    def measure_one(self, op: str, t: TensorType) -> Any:
        if t.shape is None:
            return UNKNOWN
        if op == "rank":
            return len(t.shape)
        n: Any = 1
        for size in t.shape[: -1 if op == "rows" else None]:
            n = self.binary("*", n, size)
        return self.binary("*", n, _DTYPE_BYTES.get(t.dtype, 1)) if op == "bytes" else n

    def dtype_of(self, d: dict[str, Any]) -> Any:
        if "set" in d:
            return d["set"][0]
        if "param" in d:
            return self.args[d["param"]]
        return self.dtypes.get(d["var"], UNKNOWN)

    # ---- requirements
    def require(self, holds: Any, text: str) -> None:
        if holds is UNKNOWN or holds is True:
            return
        if holds is False:
            raise ValueError(f"{self.contract['name']}: {text}")
        self.assertions.append(Assertion(holds, f"{self.contract['name']}: {text}"))

    def require_equal(self, a: Any, b: Any, text: str) -> None:
        if a is UNKNOWN or b is UNKNOWN or self.host.same(a, b):
            return
        self.require(self.host.compute("==", a, b), text)

    # ---- binding
    def unbound(self, e: Expression) -> list[int]:
        if not isinstance(e, list):
            return []
        if e[0] == "var":
            return [] if e[1] in self.vars else [e[1]]
        return [v for sub in e[1:] if isinstance(sub, list) for v in self.unbound(sub)]

    def bind(self, e: Expression, size: Any, text: str) -> bool:
        """Makes e equal to size. False where several variables are still unbound."""
        if size is UNKNOWN:
            return True
        if isinstance(e, list) and e[0] == "var" and e[1] not in self.vars:
            self.vars[e[1]] = size
            return True
        open_vars = self.unbound(e)
        if not open_vars:
            self.require_equal(size, self.value(e), text)
            return True
        if len(open_vars) > 1:
            return False
        return self.solve(e, size, text)

    def solve(self, e: Expression, size: Any, text: str) -> bool:
        """Turns sums and products around until the one unbound variable stands alone."""
        if e[0] == "var":
            self.require(self.host.compute(">=", size, 0), text)
            self.vars[e[1]] = size
            return True
        if e[0] == "neg":
            return self.solve(e[1], -size, text)
        if e[0] not in ("+", "-", "*"):
            return False
        left = bool(self.unbound(e[1]))
        inner, other = (e[1], self.value(e[2])) if left else (e[2], self.value(e[1]))
        if other is UNKNOWN or (e[0] == "*" and isinstance(other, int) and other == 0):
            return False
        if e[0] == "+":
            return self.solve(inner, size - other, text)
        if e[0] == "-":
            return self.solve(inner, size + other if left else other - size, text)
        self.require_equal(self.host.compute("%", size, other), 0, text)
        return self.solve(inner, self.host.compute("//", size, other), text)

    def bind_tensor(self, param: dict[str, Any], t: TensorType, name: str) -> bool:
        d, types = param["dtypes"], f"{name} must be {param['text']}."
        if "var" in d:
            self.require(self.dtypes.setdefault(d["var"], t.dtype) == t.dtype, types)
        elif "set" in d:
            self.require(t.dtype in d["set"], types)
        elif self.args[d["param"]] is not UNKNOWN:
            self.require(t.dtype == self.args[d["param"]], types)
        if t.shape is None:
            return True
        dims = param["dims"]
        split = len(t.shape) - len(dims)
        if param["dots"]:
            self.bind_lead(t.shape[:split], types)
        return all(self.bind(e, t.shape[split + i], types) for i, e in enumerate(dims))

    def bind_lead(self, sizes: Sequence[Any], text: str) -> None:
        if self.lead is None:
            self.lead = list(sizes)
            return
        for i, size in enumerate(sizes):
            if self.lead[i] is UNKNOWN:
                self.lead[i] = size
            self.require_equal(size, self.lead[i], text)

    def bind_all(self) -> bool:
        done = True
        for param, form, arg in zip(
            self.contract["params"], self.form["params"], self.args, strict=True
        ):
            if arg is None or arg is UNKNOWN:
                continue
            if param["kind"] == "tensor":
                done &= self.bind_tensor(form, arg, param["name"])
            elif param["kind"] == "tensors":
                done &= all(self.bind_tensor(form, t, param["name"]) for t in arg)
            elif "size" in form:
                text = f"{param['name']} has {len(arg)} elements, which does not fit."
                done &= self.bind(form["size"], len(arg), text)
        return done

    def result(self, r: dict[str, Any]) -> TensorType:
        dtype = self.dtype_of(r["dtypes"])
        if dtype is UNKNOWN:
            raise ValueError(f"{self.contract['name']}: the dtype of a result is not known.")
        if r["dots"] and self.lead is None:
            return TensorType(dtype, None)
        lead = self.lead if r["dots"] and self.lead else []
        return TensorType(dtype, (*lead, *(self.value(e) for e in r["dims"])))

    def run(self, number: int) -> Inference:
        bound = -1
        while not self.bind_all() and len(self.vars) != bound:
            bound = len(self.vars)
            self.assertions.clear()  # the next pass finds them again
        for c in self.form["conditions"]:
            self.require(self.value(c["expr"]), f"{c['text']} must hold.")
        return Inference(number, [self.result(r) for r in self.form["results"]], self.assertions)


class _Elements(tuple[Any, ...]):
    """A list parameter in a comparison: it stands for each of its elements."""


def _fits(contract: dict[str, Any], form: dict[str, Any], args: list[Any]) -> bool:
    """Whether words and ranks fit. Sizes never choose; what is unknown fits."""
    lead: int | None = None
    for param, own, arg in zip(contract["params"], form["params"], args, strict=True):
        if arg is None or arg is UNKNOWN:
            continue
        if param["kind"] == "word" and arg not in own["words"]:
            return False
        for t in [arg] if param["kind"] == "tensor" else arg if param["kind"] == "tensors" else []:
            if t.shape is None:
                continue
            rest = len(t.shape) - len(own["dims"])
            if not own["dots"]:
                if rest != 0:
                    return False
            elif rest < 0 or (lead is not None and rest != lead):
                return False
            else:
                lead = rest
    return True


def infer(contract: dict[str, Any], args: Sequence[Any], host: Host | None = None) -> Inference:
    """The results of a call, as types over the host's integers, and what the host must assert.

    contract: json.loads of ContractJson. args: one per parameter: a TensorType (a list of them for
    a tensor list), a number, a bool, a word, the name of a dtype, a list, None for an absent
    argument, UNKNOWN for a value that is not known. Raises ValueError for what is surely wrong.
    """
    args = list(args)
    form = choose_form(contract, args)
    number = contract["forms"].index(form)
    return _Call(contract, form, args, host or Host()).run(number)


def choose_form(contract: dict[str, Any], args: Sequence[Any]) -> dict[str, Any]:
    """The first form that takes these words and ranks. Raises ValueError where none does."""
    for form in contract["forms"]:
        if _fits(contract, form, list(args)):
            chosen: dict[str, Any] = form
            return chosen
    raise ValueError(f"{contract['name']}: no form takes these words and ranks.")
