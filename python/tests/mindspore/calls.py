# SPDX-License-Identifier: Apache-2.0
"""Calls of every operator on MindSpore's tensors, generated from the registry."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from anyop import _anyop
from anyop.hosting.facts import Operator
from anyop.mindspore._tensors import OBJECTS_BY_NAME
from mindspore import nn
from mindspore.common import np_dtype
from numpy_calls import OPERATORS, call, example

FORMS = [(op, form) for op in OPERATORS for form in range(len(op.contract["forms"]))]
IDS = [f"{op.display_name}-{form}" for op, form in FORMS]


def to_tensor(value: Any) -> Any:
    """A tensor with the elements of an array."""
    if isinstance(value, list):
        return [to_tensor(v) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.name == "bfloat16":
        value = value.view(np.uint16).view(np_dtype.bfloat16)
    return ms.Tensor.from_numpy(np.array(value))


def to_array(value: Any) -> Any:
    """The opposite, of dtypes that anyop knows."""
    if isinstance(value, list | tuple):
        return [to_array(v) for v in value]
    if not isinstance(value, ms.Tensor):
        return value
    array = value.asnumpy()
    if value.dtype == ms.bfloat16:
        return array.view(np.uint16).view(_anyop.numpy_dtype("bf16"))
    return array


def has_only_known_dtypes(values: list[Any]) -> bool:
    flat = [a for v in values for a in (v if isinstance(v, list) else [v])]
    return not any("float8" in a.dtype.name for a in flat if isinstance(a, np.ndarray))


class Case:
    """A call: what it is given, and what NumPy makes of it."""

    def __init__(self, op: Operator, form: int, dtype: str) -> None:
        self.op = op
        self.values = example(op, form, dtype)
        after = [copied(v) for v in self.values]
        self.results = call(op, after)
        self.after = after

    def arguments(self) -> list[Any]:
        """For MindSpore: tensors of their own, and dtypes as it has them."""
        return [
            OBJECTS_BY_NAME[v] if p.kind == "dtype" and v is not None else to_tensor(copied(v))
            for p, v in zip(self.op.params, self.values, strict=True)
        ]

    def is_like(self, other: Case) -> bool:
        """Whether the calls are the same, where an operator has no choice of dtypes."""
        return all(map(_are_equal, self.values, other.values))

    def compare(self, arguments: list[Any], made: Any) -> None:
        """Results and what was written have the bits that NumPy has."""
        made = list(made) if isinstance(made, tuple) else [made]
        wanted = [r for r in self.results if r is not None]
        for ours, theirs in zip([m for m in made if m is not None], wanted, strict=False):
            assert_bits(to_array(ours), theirs)
        for i in self.op.written:
            for ours, theirs in zip(_listed(arguments[i]), _listed(self.after[i]), strict=True):
                if theirs is not None:
                    assert_bits(to_array(ours), theirs)


def _are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_are_equal, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(a == b)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def copied(value: Any) -> Any:
    if isinstance(value, list):
        return [copied(v) for v in value]
    return np.copy(value) if isinstance(value, np.ndarray) else value


def assert_bits(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    assert ours.tobytes() == np.ascontiguousarray(theirs).tobytes()


class Wrapped(nn.Cell):
    """A function of one tensor as a Cell."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        self.program = program

    def construct(self, x: Any) -> Any:
        return self.program(x)


class Net(nn.Cell):
    """A call as a Cell whose inputs are the tensors among its arguments."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        arguments = case.arguments()
        self.case, self.op, self.n = case, case.op.function, len(arguments)
        self.tensors: list[Any] = []
        template: list[Any] = []
        places: list[Any] = []
        for value in arguments:
            is_tensor = isinstance(value, ms.Tensor)
            is_list = isinstance(value, list) and any(isinstance(v, ms.Tensor) for v in value)
            n = len(self.tensors)
            self.tensors += [value] if is_tensor else value if is_list else []
            places.append((0, n) if is_tensor else (1, n, len(self.tensors)) if is_list else (2,))
            template.append(None if is_tensor or is_list else value)
        self.template, self.places = tuple(template), tuple(places)

    def construct(self, *tensors: Any) -> Any:
        args: list[Any] = []
        for i in range(self.n):
            if self.places[i][0] == 0:
                args = args + [tensors[self.places[i][1]]]
            elif self.places[i][0] == 1:
                args = args + [list(tensors[self.places[i][1] : self.places[i][2]])]
            else:
                args = args + [self.template[i]]
        return self.op(*args)

    def compare(self, made: Any) -> None:
        """What the call made and wrote."""
        found: list[Any] = []
        for place, value in zip(self.places, self.template, strict=True):
            if place[0] == 0:
                found.append(self.tensors[place[1]])
            else:
                found.append(self.tensors[place[1] : place[2]] if place[0] == 1 else value)
        self.case.compare(found, made if self.case.op.results else ())


class Together(nn.Cell):
    """Calls that share a graph, which costs as much to compile as two calls."""

    def __init__(self, nets: list[Net]) -> None:
        super().__init__()
        self.nets, self.n = nn.CellList(nets), len(nets)
        self.tensors = [t for net in nets for t in net.tensors]
        ends = [sum(len(n.tensors) for n in nets[: i + 1]) for i in range(self.n)]
        self.starts, self.ends = (0, *ends[:-1]), tuple(ends)

    def construct(self, *tensors: Any) -> Any:
        made: Any = ()
        for i in range(self.n):
            made = made + (self.nets[i](*tensors[self.starts[i] : self.ends[i]]),)
        return made

    def compare(self, made: Any) -> None:
        for net, one in zip(self.nets, made, strict=True):
            net.compare(one)
