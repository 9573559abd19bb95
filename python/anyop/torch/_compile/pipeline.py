# SPDX-License-Identifier: Apache-2.0
"""From a traced torch program to a graph of anyop's: the steps, for compiled and captured ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

from anyop import _anyop
from anyop.hosting.sentences import clause
from anyop.torch._compile.effects import without_tokens
from anyop.torch._compile.in_place import lower_mutation
from anyop.torch._lower.defects import log_defect
from anyop.torch._lower.lower import Lowered, lower
from anyop.torch._lower.outputs import Recipes, plan
from anyop.torch._lower.promised import believe
from anyop.torch._lower.source import Source
from anyop.torch._nodes.fold import fold_constants
from anyop.torch._nodes.sizes import Fatal, Unconverted, attribute
from anyop.torch.patterns import aten_patterns


@dataclass(frozen=True)
class Traced:
    """A program of ATen operators whose nodes have fakes; it is not changed.

    functional: makes the program without writes, of a copy whose results are planned already.
    is_writable: whether an argument, or a tensor of the program, may be written where it lies.
    named: gives the nodes of such names.
    bound: tensors that are the same in each call, by the place of their argument.
    is_single: the program returns one tensor.
    args: of a call, where they may be of other types than the nodes' fakes tell.
    """

    module: GraphModule
    name: str
    functional: Callable[[GraphModule], GraphModule]
    is_writable: Callable[[Node], bool]
    named: Callable[[GraphModule], None] = lambda module: None
    bound: Mapping[int, torch.Tensor] = field(default_factory=dict)
    is_frozen: bool = False
    symbols: Mapping[Any, str] | None = None
    is_single: bool = False
    args: Sequence[Any] | None = None


@dataclass(frozen=True)
class Made:
    """A program as a graph. targets: what a call overwrites at the end with the last results of the
    graph: the place of an argument, or a tensor of the program. module: the graph reads tensors
    that it holds."""

    lowered: Lowered
    targets: list[int | torch.Tensor]
    module: GraphModule

    @property
    def is_plain(self) -> bool:
        """Whether the graph returns what the program does, and nothing is left to do."""
        return self.lowered.returned.is_plain

    def finish(self, outs: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        """Makes the writes that are left, then the program's results of the graph's."""
        values = outs[len(outs) - len(self.targets) :]
        for target, value in zip(self.targets, values, strict=True):
            (args[target] if isinstance(target, int) else target.detach()).copy_(value)
        return self.lowered.returned(outs, args)


def is_contiguous(node: Node) -> bool:
    return bool(node.meta["val"].is_contiguous())


def make(program: Traced) -> tuple[Made | None, str]:
    """(the graph, "") or (None, why the program runs through torch). It is tried twice: with all
    that saves work, and with less of it, where that is what fails.

    An exception that is no refusal is a defect of anyop's: it is logged, and the program runs
    through torch. In strict mode both are errors.
    """
    why = ""
    for is_frugal in (True, False):
        try:
            return _made(program, is_frugal), ""
        except (Unconverted, Fatal, _anyop.Error) as error:
            why = why or clause(error, program.name)
        except Exception as error:
            if _anyop.is_strict():
                raise
            why = why or f"{type(error).__name__}: {clause(error)}"
            log_defect(program.name, error)
    if _anyop.is_strict():
        raise _anyop.Unsupported(
            f"{program.name}: it runs through torch: {why}. Try it without anyop.strict()."
        )
    return None, why


def _made(program: Traced, is_frugal: bool) -> Made:
    module = _copy_of(program.module)
    without_tokens(module)
    if program.args is not None:
        believe(module, program.args)
    # Which results share memory is read here: a program without writes no longer tells it.
    recipes = _plan_results(module)
    module = program.functional(module)
    without_tokens(module)  # the tokens that torch's functionalization has added
    left = lower_mutation(module, program.is_writable, is_frugal)
    if is_frugal:
        aten_patterns.fuse(module)
    else:
        fold_constants(module)
    program.named(module)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    bound = {placeholders[i]: tensor for i, tensor in program.bound.items()}
    source = Source(module, bound, program.is_frozen, program.name, program.symbols)
    lowered = lower(source, recipes, program.is_single)
    targets = [
        placeholders.index(n) if n.op == "placeholder" else attribute(module, str(n.target))
        for n in left
    ]
    return Made(lowered, targets, module)


def _copy_of(module: GraphModule) -> GraphModule:
    """A module with a graph of its own, which passes may change, and the same tensors."""
    graph = torch.fx.Graph()
    values: dict[Node, Node] = {}
    returned = graph.graph_copy(module.graph, values)
    for old, new in values.items():
        new.meta = dict(old.meta)
    graph.output(returned)
    first: dict[int, Node] = {}  # one node per tensor: passes know memory by its node
    for node in list(graph.nodes):
        if node.op == "get_attr":
            same = first.setdefault(id(attribute(module, str(node.target))), node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)
    return GraphModule(module, graph)


def _plan_results(module: GraphModule) -> Recipes:
    """How the module's results are made; it returns only what they are made of from now on."""
    recipes = plan(module)
    (output,) = (n for n in module.graph.nodes if n.op == "output")
    output.args = (tuple(recipes.roots),)
    return recipes
