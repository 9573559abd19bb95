# SPDX-License-Identifier: Apache-2.0
"""Calls of every operator on NumPy arrays, generated from the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from anyop import _anyop
from anyop.hosting.facts import Operator

OPERATORS = [Operator(name) for name in sorted(_anyop.functions()) if name.startswith("anyop.")]
DIFFERENTIABLE = [op for op in OPERATORS if op.wiring]


def variables(op: Operator, dtype: str) -> dict[str, str]:
    """The dtype variables and parameters that may be this dtype, as example_call fixes them."""
    found = {p.name: dtype for p in op.params if p.kind == "dtype"}
    for form in op.contract["forms"]:
        for condition in form["conditions"]:
            name, _, dtypes = condition.partition(" in ")
            if dtype in dtypes.split(" | "):
                found[name] = dtype
            elif dtypes:  # of a parameter that names a dtype, but not this one
                found.pop(name, None)
    return found


def _fill(dtype: str, shape: list[int], rule: Any, random: np.random.Generator) -> np.ndarray:
    kind = np.dtype(_anyop.numpy_dtype(dtype))
    if dtype[0] in "fb" and dtype != "bool":
        return np.asarray(random.random(shape) * 2 - 0.75, kind)
    if rule and rule[0] == "offsets":
        cuts = np.sort(random.integers(0, rule[1] + 1, shape))
        cuts[0], cuts[-1] = 0, rule[1]
        return cuts.astype(kind)
    return np.asarray(random.integers(0, max(rule[1], 1) if rule else 2, shape), kind)


def fill(value: Any, rule: Any, random: np.random.Generator) -> Any:
    """An argument of example_call, with arrays in place of their types."""
    if isinstance(value, tuple):
        return _fill(*value, rule, random)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [_fill(*v, rule, random) for v in value]
    return value


def call(op: Operator, values: list[Any], **keywords: Any) -> list[Any]:
    """The results of a call on NumPy arrays."""
    like = {} if op.needs_tensor or "out" in keywords else {"like": np}
    made = op.function(*values, **like, **keywords)
    return [] if made is None else list(made) if isinstance(made, tuple) else [made]


def example(
    op: Operator, form: int = -1, dtype: str = "f64", words: bool = False,
    absent: Sequence[str] = (),
) -> list[Any]:
    """A value per parameter that the operator takes; words: such that its gradient takes too;
    absent: what is None.
    """
    fixed = variables(op, dtype)
    for seed in range(400):
        given = {p.name: True for p in op.params if p.is_optional} if seed < 20 else {}
        given |= dict.fromkeys(absent, False)
        drawn = _anyop.example_call(op.name, seed, form, fixed if seed < 200 else {}, given)
        if drawn is None:
            continue
        random = np.random.default_rng(seed)
        values = [fill(value, rule, random) for value, rule in drawn]
        if words and op.wiring:
            for i, known in op.wiring.words.items():
                values[i] = values[i] if values[i] in known else known[0]
        arrays = [v for v in values if isinstance(v, np.ndarray)]
        if any(a.size == 0 for a in arrays):
            continue
        if words and seed < 200 and any(a.shape[-1:] == (1,) for a in arrays):
            continue  # the norm of one number is a step, of which differences tell no slope
        try:
            call(op, [np.copy(v) if isinstance(v, np.ndarray) else v for v in values])
        except (ValueError, NotImplementedError):
            continue
        return values
    raise LookupError(f"{op.name}: no generated call is accepted")


LEAVES_OUT = [op for op in OPERATORS if op.left_out_by_keyword and op.needs_tensor]


def left_out(op: Operator) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keywords of a call with None for what may be absent and stands before what may not, and
    of one that leaves it out. Both with arrays of their own."""
    early = list(op.left_out_by_keyword)
    values = zip((p.name for p in op.params), example(op, dtype="f32", absent=early), strict=True)
    given = {name: value for name, value in values if name not in early}
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in given.items()}
    return {**dict.fromkeys(early), **given}, copies
