# SPDX-License-Identifier: Apache-2.0
"""In which order the nodes of a program become part of a graph, so that the host is called rarely.

A call of the host runs a batch of nodes through torch. Its results are there for our operators in
the next round, so that a program needs as many batches as its longest chain of nodes passes from
the host to us and back. Pure nodes may change places, writes of memory keep theirs. Light nodes,
which read each element once, run on the host too where they stand between two nodes of it: that
joins their batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, Node

from anyop.torch._nodes.memory import Roots, written_by

_aten = torch.ops.aten
_LIGHT = (torch.ops.prims.convert_element_type.default, _aten._to_copy.default,
          _aten.clone.default, _aten.embedding.default)  # fmt: skip


@dataclass
class Schedule:
    """rounds: nodes of each round, in order; a batch of the host ends it. host: all that run there.
    joined: those of them that have an operator of ours."""

    rounds: list[list[Node]] = field(default_factory=list)
    host: set[Node] = field(default_factory=set)
    joined: set[Node] = field(default_factory=set)


def scheduled(
    graph: Graph, host: Iterable[Node], ours: Iterable[Node], has_effect: Callable[[Node], bool]
) -> Schedule:
    """host: nodes that have no operator of ours; ours: those that have one; others are views and
    sizes, which are made where they are read. has_effect: of those that keep their order."""
    return _Scheduler(graph, set(host), set(ours), has_effect).run()


class _Scheduler:
    """batch: the first batch of the host that may read a node. round: the first round in which our
    operators may."""

    def __init__(
        self, graph: Graph, host: set[Node], ours: set[Node], has_effect: Callable[[Node], bool]
    ) -> None:
        self.nodes = [n for n in graph.nodes if n.op == "call_function"]
        self.host, self.ours = host, ours
        self.sources = _dependences(graph, self.nodes, host | ours, has_effect)
        self.users: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for node, sources in self.sources.items():
            for source in sources:
                self.users[source].append(node)
        self.batch: dict[Node, int] = {}
        self.round: dict[Node, int] = {}

    def run(self) -> Schedule:
        joined = self.kept(self.place(set(), is_open=True))
        self.place(joined, is_open=False)
        on_host = self.host | joined
        self.delay(on_host)
        n = 1 + max([*self.batch.values(), *self.round.values()], default=0)
        made = Schedule([[] for _ in range(n)], on_host, joined)
        for node in self.nodes:
            is_ours = node in self.ours and node not in joined
            made.rounds[(self.round if is_ours else self.batch)[node]].append(node)
        return made

    def place(self, joined: set[Node], is_open: bool) -> set[Node]:
        """Numbers all nodes. is_open: light nodes that read the host run there; which."""
        found = set(joined)
        for node in self.nodes:
            batch = max((self.batch[s] for s in self.sources[node]), default=0)
            round_ = max((self.round[s] for s in self.sources[node]), default=0)
            if is_open and node in self.ours and batch < round_ and _is_light(node):
                found.add(node)
            if node in self.host or node in found:
                round_ = batch + 1
            elif node in self.ours:
                batch = round_
            self.batch[node], self.round[node] = batch, round_
        return found

    def kept(self, joined: set[Node]) -> set[Node]:
        """Those light nodes that stand between two nodes of one batch: others join nothing."""
        reaches: dict[Node, bool] = {}
        for node in reversed(self.nodes):
            mine = self.batch[node]
            reaches[node] = any(
                self.batch[user] == mine and (user in self.host or reaches[user])
                for user in self.users[node]
                if user not in self.ours or user in joined
            )
        return {n for n in joined if reaches[n]}

    def delay(self, host: set[Node]) -> None:
        """Puts nodes of the host that read arguments alone into the last batch before their use."""
        is_given: dict[Node, bool] = {}  # views of arguments, and what the host makes of such
        for node in self.nodes:
            is_given[node] = all(is_given[s] and s not in host for s in self.sources[node])
            is_given[node] &= node in host or node not in self.ours
        last: dict[Node, int] = {}  # the last batch that may make it
        for node in reversed(self.nodes):
            uses = [last[user] for user in self.users[node]]
            if node in host:
                if is_given[node] and uses:
                    self.batch[node] = max(self.batch[node], min(uses))
                last[node] = self.batch[node]
            elif node in self.ours:
                last[node] = self.round[node] - 1
            else:
                last[node] = min(uses, default=self.batch[node])


def _dependences(
    graph: Graph, nodes: list[Node], real: set[Node], has_effect: Callable[[Node], bool]
) -> dict[Node, set[Node]]:
    """The nodes that each must follow. real: those that read memory; others only point to it."""
    roots = Roots(graph)
    writer: dict[Node, Node] = {}  # by root, the last one
    readers: dict[Node, list[Node]] = {}  # by root, since then
    effects: list[Node] = []
    found: dict[Node, set[Node]] = {}
    for node in nodes:
        sources = {n for n in node.all_input_nodes if n.op == "call_function"}
        if node in real:
            read = {roots[n] for n in node.all_input_nodes}
            written = {roots[n] for n in written_by(node)}
            sources |= set(_memory_sources(read, written, writer, readers))
            if has_effect(node):
                sources |= set(effects)
                effects = [node]
            for root in read:
                readers.setdefault(root, []).append(node)
            for root in written:
                writer[root], readers[root] = node, []
        found[node] = sources - {node}
    return found


def _memory_sources(
    read: set[Node], written: set[Node], writer: dict[Node, Node], readers: dict[Node, list[Node]]
) -> Iterator[Node]:
    for root in read | written:
        if root in writer:
            yield writer[root]
    for root in written:
        yield from readers.get(root, ())


def _is_light(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or written_by(node):
        return False
    return target in _LIGHT or torch.Tag.pointwise in target.tags
