# SPDX-License-Identifier: Apache-2.0
"""What Inductor must know of our operators beyond their schemas.

When it may call `op.out` instead of `op`, so that it plans our results' memory: Inductor 2.13
lowers a functional operator to its overload `out` on its own, but then loses symbolic sizes, lists,
and the order of arguments where a tensor comes after something else; and it has no C++ for such
calls (AOTInductor). Those stay with `op`.

What an operator was when a graph was compiled: the caches on disk know its name only, and would
give a graph of another version of its library, or of its gradient, back.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import anyop
from anyop import _anyop
from anyop.hosting import when_imported


def start() -> None:
    """Takes effect when Inductor is imported."""
    when_imported("torch._inductor.ir", _guard)
    when_imported("torch._inductor.codecache", _key_by_contract)


def _name_of(kernel: Any) -> str:
    """The full name of our operator; "" of everything else."""
    name = ""
    if isinstance(kernel, torch._ops.OpOverload):
        name = kernel._schema.name
    elif isinstance(kernel, torch._ops.OpOverloadPacket):
        name = kernel._qualified_op_name
    name = name.replace("::", ".")
    for known in (name, name.removesuffix("_")):  # in-place variants
        if known in _anyop.functions():
            return known
    return ""


def is_ours(kernel: Any) -> bool:
    return bool(_name_of(kernel))


def _key_by_contract() -> None:
    """Adds the operators' contracts to the keys of FxGraphCache and AOTAutogradCache."""
    # A key is the hash of all attributes of this object. AOTAutograd derives its class from it.
    details = sys.modules["torch._inductor.codecache"].FxGraphHashDetails
    plain = details.__init__

    def init(self: Any, gm: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, gm, *args, **kwargs)
        if found := contracts(gm):
            self.anyop_contracts = found

    details.__init__ = init


def contracts(gm: torch.fx.GraphModule | None) -> list[str]:
    """Schemas and hashes of our operators in a graph, and of their gradients."""
    names: set[str] = set()
    for module in gm.modules() if gm is not None else ():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            names.update(_name_of(x) for x in (node.target, *pytree.tree_leaves(node.args)))
    found: set[str] = set()
    for name in names - {""}:
        info = anyop.info(name)
        gradient = [info["gradient"]["op"]] if info["gradient"] else []
        for known in (name, *gradient):
            found.add(f"{known} {anyop.info(known)['hash']} {_anyop.schemas(known)}")
    return sorted(found)


def _guard() -> None:
    ir = sys.modules["torch._inductor.ir"]
    plain = ir.FallbackKernel.create.__func__

    def create(cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours(kernel) or _may_use_out(kernel, args, kwargs):
            return plain(cls, kernel, *args, **kwargs)
        with _without_out():
            return plain(cls, kernel, *args, **kwargs)

    ir.FallbackKernel.create = classmethod(create)


def _may_use_out(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    if sys.modules["torch._inductor.virtualized"].V.graph.cpp_wrapper:
        return False
    if any(_is_symbolic(leaf) for leaf in pytree.tree_leaves((args, kwargs))):
        return False
    if len(kernel._schema.returns) != 1:  # Inductor never takes `op.out` of such an operator
        return True
    # Inductor passes `op.out` all tensors first, then everything else one by one. So the call must
    # have its arguments in this order, by position and without lists.
    is_tensor = [hasattr(a, "get_size") for a in args]
    has_list = any(isinstance(a, (list, tuple)) for a in args)
    return not kwargs and not has_list and is_tensor == sorted(is_tensor, reverse=True)


def _is_symbolic(value: Any) -> bool:
    sizes = value.get_size() if hasattr(value, "get_size") else [value]
    if any(isinstance(s, (torch.SymInt, torch.SymFloat, torch.SymBool)) for s in sizes):
        return True
    return any(getattr(s, "free_symbols", None) for s in sizes)


@contextlib.contextmanager
def _without_out() -> Iterator[None]:
    """Inductor finds no `op.out` within. Compilation holds a lock, so no other thread lowers."""
    module = sys.modules["torch._library._out_variant"]
    find = module.to_out_variant
    module.to_out_variant = lambda kernel: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.to_out_variant = find  # type: ignore[attr-defined]
