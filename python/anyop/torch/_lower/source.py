# SPDX-License-Identifier: Apache-2.0
"""A torch program that becomes a graph. The steps of a lowering read it; none changes it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node

from anyop.torch._nodes.memory import Roots, written_by
from anyop.torch._nodes.sizes import attribute, symbols_of
from anyop.torch._nodes.view_chain import chain


class Source:
    """bound: tensors that stay what they are, by placeholder; the other placeholders are inputs of
    the graph. is_frozen: the graph may count on it that nobody writes tensors that the program only
    reads. symbol_names: what the graph calls torch's symbols, where that is not their own name."""

    def __init__(
        self, module: GraphModule, bound: Mapping[Node, torch.Tensor], is_frozen: bool, name: str,
        symbol_names: Mapping[Any, str] | None = None,
    ) -> None:  # fmt: skip
        self.module, self.bound, self.name = module, bound, name
        self.symbol_names: Mapping[Any, str] = symbol_names or {}
        self.roots = Roots(module.graph)
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self._is_frozen = is_frozen
        self._written = {self.roots[n] for node in module.graph.nodes for n in written_by(node)}

    def symbols(self) -> set[Any]:
        """The symbols in the sizes of all arguments."""
        found: set[Any] = set()
        for node in self.placeholders:
            value = node.meta.get("val")
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            found |= symbols_of(n for n in sizes if isinstance(n, torch.SymInt))
        return found

    def is_written(self, node: Node) -> bool:
        """Whether some node writes the memory that this one lies in."""
        return self.roots[node] in self._written

    def may_freeze(self, node: Node, tensor: torch.Tensor) -> bool:
        """Whether a tensor keeps its elements, or tells by its version that it does not.

        Inference tensors have no version.
        """
        return self._is_frozen and not self.is_written(node) and not tensor.is_inference()

    def attribute(self, node: Node) -> Any:
        """What a node of the kind get_attr stands for."""
        return attribute(self.module, str(node.target))

    def value_in_graph(self, node: Node) -> Any:
        """A node's fake value with the strides that it has in the graph, where memory that is not
        a view is contiguous."""
        root = self.roots[node]
        value = root.meta["val"]
        with detect_fake_mode(value) or contextlib.nullcontext():
            value = torch.empty(value.shape, dtype=value.dtype, device=value.device)
            for step in chain(node, root, lambda n: n.meta["val"]):
                value = step(value, lambda argument: argument)
        return value
