# SPDX-License-Identifier: Apache-2.0
"""A framework of one page, and its anyop host: tensors over DLPack capsules, with a tape.

x = toy.from_numpy(numpy.ones((2, 64), "f4"), needs_gradient=True)
y = anyop.softmax(x)  # a toy.Tensor
y.backward(toy.zeros_like(y))
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any

import anyop
import numpy as np
from anyop import hosting
from anyop.hosting import build
from anyop.hosting.facts import Operator
from anyop.hosting.gradient import Gradient, Wording, gradient_of, no_gradient, refuse_missing

WORDING = Wording("needs a gradient", lambda name: f"{name}.detach()", "detached tensors")


class Tensor:
    """A tensor over the memory that a DLPack capsule describes."""

    def __init__(self, capsule: Any, needs_gradient: bool = False) -> None:
        self.capsule, self.needs_gradient = capsule, needs_gradient
        self.gradient: Tensor | None = None
        self.node: _Node | None = None  # the call that computed it, where a gradient may come back

    def __dlpack__(self, **_: Any) -> Any:
        return _adapter.export(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def detach(self) -> Tensor:
        return Tensor(self.__dlpack__())

    def backward(self, gradient: Tensor) -> None:
        """Adds to `.gradient` of this tensor and of all that it was computed from."""
        self.gradient = anyop.add(self.gradient, gradient) if self.gradient else gradient
        if self.node:
            self.node.backward(self, gradient)


class _Node:
    """A call on the tape."""

    def __init__(self, gradient: Gradient, args: tuple[Any, ...], values: list[Any]) -> None:
        self.gradient, self.args, self.values = gradient, args, values
        self.results: list[Tensor] = []

    def backward(self, result: Tensor, gradient: Tensor) -> None:
        kept = self.gradient.keep(self.values, [r.detach() for r in self.results])
        gradients = [gradient if r is result else None for r in self.results]
        arguments = self.gradient.arguments(kept, gradients, lambda r: zeros_like(self.results[r]))
        made = Operator(self.gradient.operator).function(*arguments)
        for i, of in self.gradient.by_parameter(_listed(made)).items():
            if of is not None and getattr(self.args[i], "needs_gradient", False):
                self.args[i].backward(of)


def from_numpy(array: np.ndarray[Any, Any], needs_gradient: bool = False) -> Tensor:
    return Tensor(array.__dlpack__(), needs_gradient)


def zeros_like(tensor: Tensor) -> Tensor:
    return from_numpy(np.zeros_like(np.from_dlpack(tensor)))


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple) else [made]


def _with_gradient(op: Operator, args: tuple[Any, ...], out: Any) -> Any:
    """A call that anyop hands back, because one of its tensors needs a gradient."""
    gradient = gradient_of(op)
    if gradient is None or out is not None:
        raise anyop.Unsupported(no_gradient(op, WORDING))
    needed = [i for i, a in enumerate(args) if getattr(a, "needs_gradient", False)]
    refuse_missing(op, args, needed, WORDING)
    values = [a.detach() if isinstance(a, Tensor) else a for a in args]
    made = op.function(*values)
    node = _Node(gradient, args, values)
    for result in _listed(made):
        result.node, result.needs_gradient = node, True
        node.results.append(result)
    return made


def _load_adapter() -> Any:
    """Compiles host.cc at first, into anyop's cache folder."""
    adapter = build.Product(
        name="toy_host", version="1", what="its adapter for toy", lasts="a few seconds",
        sources=[Path(__file__).parent / "host.cc"], includes=[build.carried("include")],
        flags=["-isystem", sysconfig.get_path("include")],
    )  # fmt: skip
    spec = importlib.util.spec_from_file_location("toy_host", build.build(adapter, ""))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_adapter = _load_adapter()
sys.modules.setdefault("toy", sys.modules[__name__])  # the name that calls know the framework by
hosting.register(_adapter.record(Tensor), _with_gradient)
