# SPDX-License-Identifier: Apache-2.0
"""A small call of an operator, made of its signature, that the operator's own checks accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyop
from anyop import _anyop
from anyop.cli.docs_signature import dtypes, forms
from anyop.hosting.facts import Operator

SEEDS = 200  # generated calls, of which the plainest are tried
MOST_ELEMENTS = 1 << 14
LONG = {name: long for name, long, _ in _anyop.dtypes()}
FLOATS = {name for name, _, kind in _anyop.dtypes() if kind == "float"}


@dataclass(frozen=True)
class Tensor:
    """An argument: ones, zeros, or two offsets, which are 0 and `last`."""

    dtype: str
    shape: tuple[int, ...]
    values: str  # "ones", "zeros", "offsets"
    last: int = 0

    def array(self) -> Any:
        import numpy as np

        dtype = _anyop.numpy_dtype(self.dtype)
        if self.values == "offsets":
            return np.array([0, self.last], dtype)
        return (np.ones if self.values == "ones" else np.zeros)(self.shape, dtype)


@dataclass(frozen=True)
class DType:
    name: str


@dataclass(frozen=True)
class Example:
    """An accepted call: its arguments by name, in order; `is_named` are those given by name."""

    operator: str
    arguments: dict[str, Any]
    is_named: frozenset[str]
    results: tuple[str, ...]
    written: tuple[str, ...]
    has_f8: bool  # among arguments or results: MindSpore has no such tensors on the CPU


def example(spec: dict[str, Any]) -> Example | None:
    """None if no call of small sizes is accepted, or if the kernel is a function of Python: that is
    the user's code, which nobody asked to run.
    """
    if any(k["name"] == "cpu_python" for k in spec["kernels"]):
        return None
    optional = [p["name"] for p in spec["params"] if not p["required"] and p["kind"] == "tensor"]
    first = next((p["name"] for p in spec["params"] if not p["required"]), "")
    usual = {name: name == first for name in optional}  # a weight or bias comes first
    for given in (usual, dict.fromkeys(optional, False), dict.fromkeys(optional, True)):
        for arguments in _generated(spec, given):
            found = _tried(spec, arguments)
            if not isinstance(found, Exception):
                return _made(spec, arguments, found)
    return None


def _generated(spec: dict[str, Any], given: dict[str, bool]) -> list[dict[str, Any]]:
    """The arguments of calls that the signature allows, the plainest first; others are left out."""
    choices = dtypes(forms(str(spec["signature"]))[0])
    fixed = {n: "f32" if "f32" in c.split(" | ") else c.split(" | ")[0] for n, c in choices.items()}
    found = []
    for seed in range(SEEDS):
        drawn = _anyop.example_call(spec["name"], seed, 0, fixed, given)
        if drawn is None:
            continue
        arguments = {
            p["name"]: _argument(p, value, rule)
            for p, (value, rule) in zip(spec["params"], drawn, strict=True)
            if p["required"] or given.get(p["name"])
        }
        if (order := _order(arguments)) is not None:
            found.append((order, seed, arguments))
    return [arguments for _, _, arguments in sorted(found, key=lambda row: row[:2])]


def _order(arguments: dict[str, Any]) -> tuple[int, int] | None:
    """Few sizes of 1 and numbers of 0, which show little, then few elements; None for a call that
    has no elements or no plain offsets."""
    values = list(arguments.values())
    tensors = [t for v in values for t in (v if isinstance(v, list) else [v])
               if isinstance(t, Tensor)]  # fmt: skip
    if any(t.values == "offsets" and t.shape != (2,) for t in tensors):
        return None
    elements = [math.prod(t.shape) for t in tensors]
    if None in values or not all(elements) or sum(elements) > MOST_ELEMENTS:
        return None
    plain = sum(t.shape.count(1) for t in tensors if t.values != "offsets")
    plain += sum(type(v) is int and v < 1 for v in values)
    return plain + bool(tensors and len(tensors[0].shape) < 2), sum(elements)


def _tried(spec: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """The results, or the error."""
    try:
        return Operator(spec["name"]).function(**{n: _numpy(a) for n, a in arguments.items()})
    except anyop.Error as error:
        return error


def _made(spec: dict[str, Any], arguments: dict[str, Any], found: Any) -> Example:
    """Arguments are named from the first one on that follows one that is left out."""
    order = [p["name"] for p in spec["params"]]
    named = {n for i, n in enumerate(order) if n in arguments and set(order[:i]) - set(arguments)}
    count = len(found) if isinstance(found, tuple) else int(found is not None)
    names = tuple(r["name"] for r in spec["results"][:count])
    written = tuple(p["name"] for p in spec["params"] if p["mut"] and p["name"] in arguments)
    every = [*(_numpy(a) for a in arguments.values()), *(found if count > 1 else [found])]
    has_f8 = any(str(getattr(a, "dtype", a)).startswith("float8") for a in every)
    return Example(spec["name"], arguments, frozenset(named), names, written, has_f8)


def _numpy(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_numpy(a) for a in argument]
    if isinstance(argument, DType):
        return _anyop.numpy_dtype(argument.name)
    return argument.array() if isinstance(argument, Tensor) else argument


def _argument(p: dict[str, Any], value: Any, rule: tuple[str, int] | None) -> Any:
    """What _anyop.example_call gives for a parameter, with values that are easy to read."""
    if p["kind"] == "tensor":
        return None if value is None else _tensor(value, rule)
    if p["kind"] == "tensors":
        return [_tensor(one, rule) for one in value]
    if p["kind"] == "dtype":
        return DType(value)
    return [*value] if p["kind"] in ("ints", "floats") else value


def _tensor(drawn: tuple[str, Sequence[int]], rule: tuple[str, int] | None) -> Tensor:
    dtype, shape = drawn
    if rule and rule[0] == "offsets":
        return Tensor(dtype, tuple(shape), "offsets", rule[1])
    return Tensor(dtype, tuple(shape), "ones" if dtype in FLOATS else "zeros")
