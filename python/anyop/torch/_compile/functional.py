# SPDX-License-Identifier: Apache-2.0
"""A traced program without writes: AOTAutograd's functionalization, whose wrapper is not used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import MutationType
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule, Node

from anyop.hosting.sentences import clause
from anyop.torch._nodes.memory import Roots, is_laid_out_from_zero, written_by
from anyop.torch._nodes.sizes import Unconverted, attribute, expression, is_same

_PREFIX = "_bound_"


def keeping_random() -> Any:
    """Within, torch's passes leave random operators whose results nobody reads: they draw numbers,
    so that all later ones are others without them."""
    return torch._inductor.config.patch(fallback_random=True)


def is_functional(module: GraphModule) -> bool:
    return not any(written_by(node) for node in module.graph.nodes)


def _lies_on_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements may be one. Slices of a dense tensor never have such elements."""
    dims = zip(tensor.shape, tensor.stride(), strict=True)
    rows = [(expression(stride), expression(n)) for n, stride in dims if not is_same(n, 1)]
    if any(is_same(stride, 0) for stride, _ in rows):
        return True
    last = 0
    for stride, n in sorted(rows) if all(isinstance(v, int) for row in rows for v in row) else ():
        if stride <= last:
            return True
        last += (n - 1) * stride
    return False


def _refuse_writes_to_overlaps(module: GraphModule) -> None:
    """torch writes through some views of which several elements are one, as masked_fill_ of an
    expanded tensor does. Its functional program of that computes something else."""
    for node in module.graph.nodes:
        for written in written_by(node):
            value = written.meta.get("val")
            if isinstance(value, torch.Tensor) and _lies_on_itself(value):
                raise Unconverted(f"{node.target} writes elements that lie on one another")


def _refuse_strides_beside_writes(module: GraphModule) -> None:
    """as_strided counts from the beginning of memory. What a write makes in a functional program
    has memory of its own, in which nothing lies before it."""
    roots = Roots(module.graph)
    written = {roots[n] for node in module.graph.nodes for n in written_by(node)}
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.as_strided.default and roots[node] in written:
            root = roots[node]
            if "val" in root.meta and not is_laid_out_from_zero(root):
                raise Unconverted("as_strided of a part of memory that is written")


def functionalized(module: GraphModule, fakes: Sequence[Any], mode: Any) -> GraphModule:
    """The same program, in which each write makes a new tensor, and arguments and the module's
    tensors are overwritten at the end. No result may be a view of these.

    Throws Unconverted where it cannot be told so: two of these tensors share memory, or torch's
    pass fails.
    """
    _refuse_writes_to_overlaps(module)
    _refuse_strides_beside_writes(module)
    found: list[GraphModule] = []

    def keep(gm: GraphModule, example_inputs: Any) -> Any:
        context = TracingContext.get()
        metadata = context.fw_metadata
        assert metadata is not None
        if any(i.mutation_type is MutationType.MUTATED_OUT_GRAPH for i in metadata.input_info):
            raise Unconverted("a tensor is written that torch cannot overwrite at the end")
        found.append(gm)

        def unused(args: Any) -> Any:
            raise AssertionError("only the graph is asked for")

        unused._boxed_call = True  # type: ignore[attr-defined]
        return unused

    try:
        # Effect tokens are made within the graph then, and are no arguments of it.
        with (
            torch.no_grad(),
            tracing(TracingContext(mode)),
            torch._functorch.config.patch(unlift_effect_tokens=True),
            keeping_random(),
        ):
            aot_module_simplified(
                module, list(fakes), fw_compiler=keep, bw_compiler=keep, inference_compiler=keep,
                keep_inference_input_mutations=True,
            )  # fmt: skip
    except Unconverted:
        raise
    except Exception as error:  # torch's own code refuses: elements that lie on one another, ...
        raise Unconverted(f"torch makes no functional program of it: {clause(error)}") from error
    (made,) = found
    names = [
        *dict(module.named_parameters(remove_duplicate=False)),
        *dict(module.named_buffers(remove_duplicate=False)),
    ]
    placeholders = [n for n in made.graph.nodes if n.op == "placeholder"]
    # torch passes tensors that share memory, where one of them is written, as one argument.
    if len(placeholders) != len(names) + len(fakes):
        raise Unconverted("tensors that share memory are written")
    for number, (name, node) in enumerate(zip(names, placeholders, strict=False)):
        _bind(made, node, f"{_PREFIX}{number}", attribute(module, name))
    made.recompile()
    return made


def _bind(module: GraphModule, node: Node, name: str, tensor: Any) -> None:
    """A tensor of the module in place of an argument."""
    module.register_buffer(name, tensor, persistent=False)
    with module.graph.inserting_before(node):
        made = module.graph.get_attr(name)
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)
