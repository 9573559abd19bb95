# SPDX-License-Identifier: Apache-2.0
"""Calls of every operator, generated from the registry, on torch tensors and on NumPy arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import anyop
import numpy as np
import torch
from anyop import _anyop
from anyop.torch._dispatch.operators import DTYPES, TORCH_DTYPES

VIEWS = {
    torch.bfloat16: torch.int16,
    **{dtype: torch.int8 for dtype in DTYPES if str(dtype).startswith("torch.float8")},
}


def operators(library: str = "anyop") -> list[str]:
    return sorted(n for n in _anyop.functions() if n.startswith(f"{library}."))


@functools.cache
def contract(op: str) -> dict[str, Any]:
    return anyop.contract(op)


@dataclass
class Example:
    """A call that the operator accepts. values: one per parameter."""

    op: str
    form: int
    seed: int
    values: list[Any]

    def copy(self) -> Example:
        return Example(self.op, self.form, self.seed, [_copy(v) for v in self.values])

    @property
    def torch_values(self) -> list[Any]:
        """As torch.ops takes them: dtypes as torch.dtype."""
        kinds = [p["kind"] for p in contract(self.op)["params"]]
        return [
            TORCH_DTYPES[v] if kind == "dtype" and v is not None else v
            for kind, v in zip(kinds, self.values, strict=True)
        ]

    @property
    def floats(self) -> list[int]:
        """The parameters that are float tensors and only read."""
        return [
            i
            for i, (p, v) in enumerate(zip(contract(self.op)["params"], self.values, strict=True))
            if isinstance(v, torch.Tensor) and v.is_floating_point() and not p.get("mut")
        ]


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return [_copy(v) for v in value] if isinstance(value, list) else value


def example(op: str, form: int = -1, dtype: str = "", present: bool = True) -> Example:
    """One call, found by trying seeds. dtype: of the dtype variables; present: of optionals."""
    own = contract(op)
    dtypes = dict.fromkeys(variables_of(op, dtype), dtype)
    for seed in range(400):
        # What an operator's own check asks for may need an argument more or less.
        given = {p["name"]: True for p in own["params"] if p.get("optional")}
        if not present or seed > 20:
            given = {} if present else dict.fromkeys(given, False)
        fixed = dtypes if seed < 200 else {}
        drawn = _anyop.example_call(op, seed, form, fixed, given)
        if drawn is None:
            continue
        torch.manual_seed(seed)
        values = [fill(value, rule) for value, rule in drawn]
        found = Example(op, form, seed, values)
        if any(0 in t.shape for v in values for t in _tensors(v)):
            continue
        try:
            on_numpy(found)
        except (ValueError, NotImplementedError):
            continue
        return found
    raise LookupError(f"{op}: no generated call is accepted")


def differentiable(op: str) -> bool:
    return bool(anyop.info(op)["gradient"])


def trained(op: str, form: int = -1) -> Example:
    """A call in f32 that the gradient takes too; what it is a gradient of requires grad."""
    call = example(op, form, dtype="f32")
    wiring = anyop.info(op)["gradient"]
    if not wiring:
        return call
    words = {p["name"]: p.get("words") for p in contract(wiring["op"])["params"]}
    for i, p in enumerate(contract(op)["params"]):
        known = words.get(p["name"])
        if known and call.values[i] not in known:
            call.values[i] = known[0]
    for i in call.floats:
        if contract(op)["params"][i]["name"] in wiring["targets"]:
            call.values[i] = call.values[i].requires_grad_()
    return call


def variables_of(op: str, dtype: str) -> list[str]:
    """The dtype variables and parameters that may be this dtype."""
    found = [p["name"] for p in contract(op)["params"] if p["kind"] == "dtype" and dtype]
    for form in contract(op)["forms"]:
        for condition in form["conditions"]:
            name, _, dtypes = condition.partition(" in ")
            if dtype in dtypes.split(" | "):
                found.append(name)
    return found


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, list) else []


def fill(value: Any, rule: tuple[str, int] | None) -> Any:
    if isinstance(value, tuple):
        return _fill_tensor(*value, rule)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [_fill_tensor(*v, rule) for v in value]
    return value


def _fill_tensor(dtype: str, shape: list[int], rule: tuple[str, int] | None) -> torch.Tensor:
    kind = TORCH_DTYPES[dtype]
    if kind.is_floating_point:
        return (torch.rand(shape) * 2 - 0.75).to(kind)
    if rule and rule[0] == "below":
        return torch.randint(0, max(rule[1], 1), shape).to(kind)
    if rule:
        cuts = torch.randint(0, rule[1] + 1, shape).sort().values
        cuts[0], cuts[-1] = 0, rule[1]
        return cuts.to(kind)
    return torch.randint(0, 2 if kind == torch.bool else 8, shape).to(kind)


def to_numpy(value: Any) -> Any:
    """A NumPy array that shares the tensor's memory."""
    if isinstance(value, list):
        return [to_numpy(v) for v in value]
    if isinstance(value, torch.dtype):
        return DTYPES[value]
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    view = VIEWS.get(value.dtype)
    if view is None:
        return value.numpy()
    return value.view(view).numpy().view(_anyop.numpy_dtype(DTYPES[value.dtype]))


def on_numpy(call: Example) -> tuple[list[Any], list[Any]]:
    """(results, arguments after the call) of the NumPy host."""
    call = call.copy()
    arguments = [to_numpy(v) for v in call.values]
    like = {} if any(_tensors(v) for v in call.values) else {"like": np}
    made = _anyop.functions()[call.op](*arguments, **like)
    results = [] if made is None else list(made) if isinstance(made, tuple) else [made]
    return results, arguments


def batched(call: Example, only: str) -> tuple[list[Any], list[Any]]:
    """The call with a batch of 2 in one argument ("first") or in every float tensor ("all")."""
    values, dims = list(call.torch_values), [None] * len(call.values)
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor) and (only == "all" or not any(d == 1 for d in dims)):
            dims[i] = min(1, value.dim())
            values[i] = torch.stack([value, value], dims[i])
    return values, dims


def torch_op(op: str, overload: str = "default") -> Any:
    library, _, name = op.rpartition(".")
    return getattr(getattr(getattr(torch.ops, library), name), overload)


def listed(results: Any) -> list[Any]:
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def assert_equal(ours: Any, numpy: Any) -> None:
    if numpy is None:
        assert ours is None
        return
    np.testing.assert_array_equal(
        np.asarray(to_numpy(ours)).astype(np.float64), np.asarray(numpy).astype(np.float64)
    )


FORMS = [(op, form) for op in operators() for form in range(len(contract(op)["forms"]))]
IDS = [f"{op.split('.')[1]}-{form}" for op, form in FORMS]
# Those that write to no argument.
READERS = [
    op
    for op in operators()
    if contract(op)["results"] and not any(p.get("mut") for p in contract(op)["params"])
]
