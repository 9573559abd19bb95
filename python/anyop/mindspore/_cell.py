# SPDX-License-Identifier: Apache-2.0
"""A compiled graph of anyop's as one node of MindSpore's graphs."""

from __future__ import annotations

import re
from typing import Any

import mindspore
from mindspore import Parameter, nn

import anyop
from anyop.hosting import bound_graph
from anyop.mindspore import _graph, _node, _tensors

_TENSOR = re.compile(r"input \w+: \w+\[")
_HELD = re.compile(r"(state|frozen|constant) \w+: ")


class GraphCell(nn.Cell):  # type: ignore[misc]
    """A Cell that runs a compiled graph: a call in PyNative, one node where MindSpore compiles.

        cell = anyop.mindspore.GraphCell(anyop.graph(step, "i64[t]"))
        logits = mindspore.jit(cell.construct)(ids)

    MindSpore's runtime takes some microseconds for each node, whatever it computes: a decoder's
    step of hundreds of calls is faster as one node.

    graph    what `anyop.graph` made. The arrays that it holds become Parameters of the Cell over
             the same memory, by their names, so that both see what either writes
    numbers  its inputs that are no tensors, by name

    Called with its other inputs, in their order. Returns its outputs, several as a tuple. There is
    no gradient.

    Errors: WrongType for what is no compiled graph; InvalidArgument for numbers that it does not
    take; where it is called, what the graph itself raises.
    """

    def __init__(self, graph: anyop.Graph, **numbers: float) -> None:
        super().__init__()
        if not isinstance(graph, anyop.Graph):
            raise anyop.WrongType(
                f"GraphCell: graph is {type(graph).__name__}, but must be what anyop.graph made."
            )
        self._graph = anyop.Graph.parse(_with_inputs_only(graph.text), {}, graph.name)
        call = bound_graph(self._graph, **numbers)  # which refuses here what it does not take
        self._numbers = numbers
        order = [name for name, _, _ in call.inputs if name in graph.state]
        self._own = [name for name, _, _ in call.inputs if name not in graph.state]
        self.held = mindspore.ParameterTuple(
            [_parameter(graph.state[name], f"{graph.name}.{name}") for name in order]
        )
        plan = _node.plan_of_graph(self._graph, numbers, len(order))
        self._run = _graph.graph_caller(graph.name, plan)

    def __call__(self, *inputs: Any) -> Any:
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            return super().__call__(*inputs)
        _node.check_count(self._graph, len(inputs), self._own)
        return self._graph(*inputs, *self.held, **self._numbers)

    def construct(self, *inputs: Any) -> Any:
        return self._run(inputs, self.held)


def _with_inputs_only(text: str) -> str:
    """A graph whose arrays are inputs, as a node has no memory: they come behind its own tensors,
    and numbers last.
    """
    lines = text.splitlines(keepends=True)
    tensors = [line for line in lines if _TENSOR.match(line)]
    held = ["input " + line.split(" ", 1)[1] for line in lines if _HELD.match(line)]
    rest = [line for line in lines if not _TENSOR.match(line) and not _HELD.match(line)]
    return "".join([*tensors, *held, *rest])


def _parameter(array: Any, name: str) -> Any:
    """Over the array's memory: a Parameter that is made from a tensor is a copy at first."""
    tensor = _tensors.of_array(array)
    made = Parameter(tensor, name=name, requires_grad=False)
    made.set_data(tensor)
    return made
