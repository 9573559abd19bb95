# SPDX-License-Identifier: Apache-2.0
"""The engine's place in torchair (torchair.core._backend): graphs are loaded, compiled and run by
these functions there, and the engine's own classes, which are C++, are never reached.
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import anyop
from anyop.torch.graph_engine import arithmetic, calls, gradients, layers, layout
from anyop.torch.graph_engine.node import TYPES, Limits, Node, Refused, Run, parsed

_ROOMS = (arithmetic, calls, gradients, layers, layout)
OPERATORS: dict[str, Run] = {name: run for room in _ROOMS for name, run in room.OPERATORS.items()}
_LIMITS: Limits = {**arithmetic.LIMITS, **layers.LIMITS, **layout.LIMITS}
_INPUTS, _CONSTANTS, _END = ("Data", "RefData"), ("Const", "Constant"), "NetOutput"
_WRITING = ("Assign", calls.TYPE)
AROUND = (*_INPUTS, *_CONSTANTS, _END)  # no operators, but the graph's own ends
_INSTEAD = 'Try torch.compile(backend="aot_eager"), which runs any graph.'


class Graph:
    """A graph of torchair's, in the place of its TorchNpuGraph."""

    def __init__(self, name: str = "") -> None:
        self.name = str(name)

    def load(self, ge_graph: Any, options: Any = None) -> None:
        """Raises NotImplementedError for a graph with an operator that is not here."""
        nodes = [_parsed(op, self.name) for op in ge_graph.op]
        missing = sorted({n.type for n in nodes} - {*OPERATORS, *AROUND})
        if missing:
            raise anyop.Unsupported(
                f"torchair: the graph {self.name} has the operator{'s' * (len(missing) > 1)} "
                f"{', '.join(missing)} of the engine, which the virtual NPU does not have. "
                f"{_INSTEAD}"
            )
        for node in nodes:
            if form := _other_form(node):
                raise anyop.Unsupported(
                    f"torchair: the graph {self.name} has the operator {node.type} of the engine "
                    f"({node.name}) with {form} alone. {_INSTEAD}"
                )
        self._steps = _needed(nodes)
        self._inputs = {n.outputs[0]: n.attribute("index", 0) for n in nodes if n.type in _INPUTS}
        held = [n for n in nodes if n.type in _CONSTANTS]
        self._constants = {n.outputs[0]: n.attribute("value") for n in held}
        ends = [source for n in nodes if n.type == _END for _, source in n.operands]
        self._outputs = list(zip(ends, ge_graph.attr["_output_dtypes"].list.i, strict=True))
        self._on_device: dict[str, Tensor] = {}

    def compile(self) -> None:
        """Does nothing: the nodes run one by one, with torch's operators."""

    def auto_tune(self, example_inputs: Sequence[Tensor] = (), stream: Any = None) -> None:
        """There is nothing that could be tuned."""

    def run(
        self, inputs: Sequence[Tensor], assigned_outputs: Sequence[Tensor | None] = (),
        stream: Any = None,
    ) -> list[Tensor]:  # fmt: skip
        """Puts the graph on the current stream, as torch's operators are put there."""
        with torch.no_grad():
            values = {name: inputs[index] for name, index in self._inputs.items()}
            values.update(self._constants)
            for node in self._steps:
                self._run(node, values)
            return self._ends(inputs, assigned_outputs, values)

    def _run(self, node: Node, values: dict[str, Tensor]) -> None:
        given = [values[source] if source else None for _, source in node.operands]
        # One tensor on a device makes it a call there; the others then must be there too.
        devices = {v.device for v in given if v is not None and v.device.type != "cpu"}
        if devices:
            given = self._moved(node, given, devices.pop())
        results = OPERATORS[node.type](replace(node, values=given))
        made = results if isinstance(results, tuple) else (results,)
        values.update(zip(node.outputs, made, strict=False))

    def _moved(
        self, node: Node, given: list[Tensor | None], device: torch.device
    ) -> list[Tensor | None]:
        """Arrays that the graph holds are on the host until somebody computes with them. Numbers
        and what shapes are made of stay there.
        """
        moved = []
        for (name, source), value in zip(node.operands, given, strict=True):
            is_array = value is not None and value.device.type == "cpu" and value.dim() > 0
            if not is_array or name in _OF_SHAPES:
                moved.append(value)
                continue
            assert value is not None
            if source not in self._constants:
                moved.append(value.to(device))
                continue
            if source not in self._on_device:
                self._on_device[source] = value.to(device)
            moved.append(self._on_device[source])
        return moved

    def _ends(
        self,
        inputs: Sequence[Tensor],
        assigned: Sequence[Tensor | None],
        values: dict[str, Tensor],
    ) -> list[Tensor]:
        """Results lie in memory of their own, or where the caller says."""
        made: list[Tensor] = []
        device = torch.accelerator.current_accelerator(check_available=False) or torch.device("npu")
        for i, (source, dtype) in enumerate(self._outputs):
            value = values[source].to(device, TYPES[dtype])
            into = assigned[i] if i < len(assigned) else None
            if into is not None:
                made.append(into if value is into else into.copy_(value))
                continue
            # The caller may write a result: it must not be an input, another result or a constant.
            others = (*inputs, *made, *self._on_device.values())
            is_shared = any(_shares(value, other) for other in others)
            made.append(value.clone() if is_shared else value.contiguous())
        return made


# Inputs whose values an operator reads on the host.
_OF_SHAPES = {
    "axes", "axis", "begin", "concat_dim", "dims", "end", "k", "multiples", "normalized_shape",
    "offsets", "paddings", "perm", "shape", "size", "size_splits", "split_dim", "strides",
}  # fmt: skip


def is_here(op: Any) -> bool:
    """Whether the protocol's node can be run."""
    try:
        return op.type in AROUND or (op.type in OPERATORS and not _other_form(parsed(op)))
    except Refused:
        return False


def _needed(nodes: list[Node]) -> list[Node]:
    """In order: what the graph's ends are made of, and what writes. Calls that took the place of
    other nodes leave behind what only those used.
    """
    needed: set[str] = set()
    kept = []
    for node in reversed(nodes):
        if node.type == _END or node.type in _WRITING or needed & set(node.outputs):
            needed.update(source for _, source in node.operands)
            kept.append(node)
    return [node for node in reversed(kept) if node.type in OPERATORS]


def _other_form(node: Node) -> str:
    """The attribute with a value that is not there, and those that are."""
    for name, allowed in _LIMITS.get(node.type, {}).items():
        value = node.attribute(name, allowed[0])
        if value not in allowed:
            known = ", ".join(map(repr, allowed))
            return f"{name} {value!r}, but the virtual NPU has it with {known}"
    return ""


def _shares(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0


def _parsed(op: Any, graph: str) -> Node:
    try:
        return parsed(op)
    except Refused as why:
        raise anyop.Unsupported(
            f"torchair: the graph {graph} cannot be run, because of {op.name} ({op.type}): {why}. "
            f"{_INSTEAD}"
        ) from None


def replace_backend(module: Any) -> None:
    """Replaces all of torchair.core._backend that reaches the engine."""
    # torchair has registered the engine's own function for the end of the process.
    atexit.unregister(module.finalize_graph_engine)
    module.TorchNpuGraph = Graph
    module.initialize_graph_engine = lambda options=None: None
    module.init_device_stdout_channel = lambda: None
    module.finalize_graph_engine = lambda: torch._dynamo.reset()
    # Which operators the engine knows: those of the table, of whose form nothing is told.
    module._torchair.check_cann_compat = lambda *wanted: ""
    module._torchair.get_registered_ir_def = lambda name: (
        "SUCCESS" if name == calls.TYPE else "unknown", [], [], [],
    )  # fmt: skip
