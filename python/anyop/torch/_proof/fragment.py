# SPDX-License-Identifier: Apache-2.0
"""The nodes of an FX graph between some inputs and one output, as a function that can be tried."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from anyop.torch._nodes.fold import folded
from anyop.torch._nodes.memory import draws
from anyop.torch._proof.trials import (
    Shrunk,
    Trial,
    Values,
    choices,
    dense,
    elements,
    filled,
    symbols_in,
    value_of,
)

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LARGE = 1 << 24  # elements, beyond which nothing is tried
_MAX_NODES = 400
_FAR = 1 << 24  # no size is so large: torch writes 2**63 - 1 for "to the end"
_NEAR = 32  # the largest constant that sizes are tried next to


class Fragment:
    """why: what keeps it from being tried. Inputs must be all that it reads, but for numbers that
    depend on sizes and for tensors that were computed when the graph was made."""

    def __init__(self, output: Node, inputs: Sequence[Node]) -> None:
        self.output, self.inputs = output, list(inputs)
        self.constants: dict[Node, torch.Tensor] = {}
        self.numbers: dict[Node, Any] = {}
        self.nodes: list[Node] = []
        self.why = self._gather()
        read = [n.meta.get("val") for n in (*self.inputs, *self.nodes)]
        self.tensors = [v for value in read for v in pytree.tree_leaves(value)
                        if isinstance(v, torch.Tensor)]  # fmt: skip
        self.symbols, self.environment = symbols_in([*self.tensors, *self.numbers.values()])

    def _gather(self) -> str:
        """Fills in the nodes, each behind what it reads."""
        done: set[Node] = set(self.inputs)
        waiting = [(self.output, False)]
        while waiting:
            node, is_ready = waiting.pop()
            if node in done:
                continue
            if is_ready:
                done.add(node)
                self.nodes.append(node)
                continue
            value = node.meta.get("val")
            if isinstance(value, (*_SYMBOLIC, int, float, bool)):
                if isinstance(value, _SYMBOLIC) and free_unbacked_symbols(value):
                    return f"{node.name} depends on data"
                self.numbers[node] = value
                done.add(node)
                continue
            known = folded(node.graph.owning_module, node)
            if known is not None:
                self.constants[node] = known
                done.add(node)
                continue
            if node.op != "call_function" or draws(node) or len(self.nodes) > _MAX_NODES:
                return f"it reads {node.name} too"
            waiting.append((node, True))
            waiting += [(n, False) for n in node.all_input_nodes]
        return ""

    def text(self) -> str:
        """The calls of the nodes, with names of their own: equal for equal fragments, which each
        layer of a model may have, so that they are tried once."""
        names: dict[Any, str] = {}

        def shown(value: Any) -> Any:
            if isinstance(value, Node):
                return names.get(value) or f"{_canonical(self.numbers[value], self.symbols)}"
            return _canonical(value, self.symbols)

        lines = []
        for i, node in enumerate(self.inputs):
            names[node] = f"x{i}"
            lines.append(f"x{i}: {_type(node.meta.get('val'), self.symbols)}")
        for i, (node, tensor) in enumerate(self.constants.items()):
            names[node] = f"c{i}"
            lines.append(f"c{i}: {tuple(tensor.shape)} {tensor.dtype} {_digest(tensor)}")
        for i, node in enumerate(self.nodes):
            names[node] = f"n{i}"
            row = pytree.tree_map(shown, (node.args, node.kwargs))
            value = node.meta.get("val")
            types = [_type(v, self.symbols) for v in pytree.tree_leaves(value)]
            lines.append(f"n{i}: {node.target}{row} {types}")
        lines += [str([*c.values()]) for c in self.choices()]
        return "\n".join(lines)

    def whole_numbers(self) -> set[int]:
        """The constants of the nodes: at sizes next to them the nodes may do something else."""
        found = {n for node in self.nodes for n in pytree.tree_leaves((node.args, node.kwargs))
                 if type(n) is int}  # fmt: skip
        for constant in self.constants.values():
            found |= set(constant.shape)
            if constant.numel() == 1 and not constant.dtype.is_floating_point:
                found.add(int(constant))
        return {n for n in found if n <= _FAR}

    def choices(self) -> list[Values]:
        near = {n for n in self.whole_numbers() if n <= _NEAR}
        return choices(self.symbols, self.environment, near)

    def trials(
        self, kinds: Sequence[str], values: Callable[[Trial], dict[Node, torch.Tensor]] | None
    ) -> Iterator[Trial]:
        """values: of some inputs, whatever the kind; they are given a trial of all of them."""
        has_floats = any(t.dtype.is_floating_point for t in self.tensors)
        for seed, sizes in enumerate(self.choices()):
            shrunk = self.shrunk(sizes)
            if shrunk is None:
                continue
            is_large = not shrunk.smaller and self.numel(sizes) > Shrunk.LIMIT << 4
            for kind in kinds if has_floats and not is_large else kinds[:1]:
                made = {n: self.input(n, sizes, shrunk, kind, 16 * seed + i)
                        for i, n in enumerate(self.inputs)}  # fmt: skip
                tensors = [made[n] for n in self.inputs]
                shown = ", ".join(f"{s} = {n}" for s, n in sizes.items())
                trial = _Sized(tensors, sizes, ", ".join(filter(None, (shown, kind))), shrunk)
                if values is not None:
                    given = values(trial)
                    trial.tensors = [given.get(n, made[n]) for n in self.inputs]
                yield trial

    def shrunk(self, sizes: Values) -> Shrunk | None:
        """Smaller sizes with which it works as with its own; None where there are only large."""
        fixed = {n for constant in self.constants.values() for n in constant.shape}
        made = Shrunk(self.tensors, sizes, fixed)
        if made.smaller and self.runs(sizes, made):
            return made
        own = Shrunk([], sizes)
        return own if self.numel(sizes) <= _LARGE else None

    def numel(self, sizes: Values) -> int:
        """Elements of the largest tensor."""
        shapes = ([value_of(n, sizes) for n in t.shape] for t in self.tensors)
        return max(map(elements, shapes), default=0)

    def runs(self, sizes: Values, shrunk: Shrunk) -> bool:
        tensors = [self.input(n, sizes, shrunk, "normal", i) for i, n in enumerate(self.inputs)]
        try:
            self.run(_Sized(tensors, sizes, "", shrunk))
        except Exception:
            return False
        return True

    def input(self, node: Node, sizes: Values, shrunk: Shrunk, kind: str, seed: int) -> Any:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return value_of(value, sizes)
        shape = [value_of(n, sizes) for n in value.shape]
        stride = [value_of(n, sizes) for n in value.stride()]
        if shrunk.smaller:
            shape = [shrunk(n) for n in shape]
            stride = dense(shape, stride)
        return filled(shape, stride, value.dtype, kind, seed)

    def run(self, trial: Trial, targets: Mapping[Node, Any] | None = None) -> Any:
        """targets: what is called for some nodes instead."""
        return self._run(trial, False, targets or {})

    def exact(self, trial: Trial) -> Any:
        """The result of `run`, computed in f64."""
        return self._run(trial, True, {})

    def _run(self, trial: Trial, is_wide: bool, targets: Mapping[Node, Any]) -> Any:
        shrunk = trial.shrunk if isinstance(trial, _Sized) else Shrunk([], {})
        known: dict[Node, Any] = {}
        for node, tensor in zip(self.inputs, trial.tensors, strict=True):
            known[node] = _wide(tensor) if is_wide else tensor
        for node, constant in self.constants.items():
            # The nodes may write it, and the program keeps the constant.
            known[node] = _wide(constant) if is_wide else constant.clone()
        for node, number in self.numbers.items():
            known[node] = value_of(number, trial.sizes)

        def argument(value: Any) -> Any:
            if isinstance(value, Node):
                return known[value]
            if is_wide and isinstance(value, torch.dtype) and value.is_floating_point:
                return torch.float64
            return value_of(shrunk(value), trial.sizes)

        for node in self.nodes:
            function: Any = targets.get(node, node.target)
            args, kwargs = pytree.tree_map(argument, (node.args, node.kwargs))
            made = known[node] = function(*args, **kwargs)
            if shrunk.smaller and not _is_expected(made, node.meta.get("val"), trial, shrunk):
                raise ValueError(f"{node.name} has another shape")
        return known[self.output]


class _Sized(Trial):
    def __init__(self, tensors: list[Any], sizes: Values, name: str, shrunk: Shrunk) -> None:
        super().__init__(tensors, sizes, name)
        self.shrunk = shrunk

    def size(self, number: Any) -> int:
        return int(self.shrunk(super().size(number)))


def _is_expected(made: Any, value: Any, trial: Trial, shrunk: Shrunk) -> bool:
    """Whether results have the shapes that they have in the graph, made smaller."""
    for want, got in zip(pytree.tree_leaves(value), pytree.tree_leaves(made), strict=False):
        if isinstance(want, torch.Tensor) and isinstance(got, torch.Tensor):
            shape = [shrunk(value_of(n, trial.sizes)) for n in want.shape]
            if list(got.shape) != shape:
                return False
    return True


def _wide(value: Any) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.dtype.is_floating_point
    return value.double() if is_float else value


def _canonical(value: Any, symbols: list[Any]) -> str:
    if not isinstance(value, _SYMBOLIC):
        return repr(value)
    expr = value.node.expr
    return str(expr.xreplace({s: type(s)(f"_{i}") for i, s in enumerate(symbols)}))


def _type(value: Any, symbols: list[Any]) -> str:
    if not isinstance(value, torch.Tensor):
        return _canonical(value, symbols)
    shape = [_canonical(n, symbols) for n in value.shape]
    stride = [_canonical(n, symbols) for n in value.stride()]
    return f"{value.dtype}[{', '.join(shape)}] by [{', '.join(stride)}]"


def _digest(tensor: torch.Tensor) -> str:
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()
