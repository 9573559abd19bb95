# SPDX-License-Identifier: Apache-2.0
"""Layers that other packages register with vLLM, as platforms out of its tree do.

    CustomOp.register_oot(_decorated_op_cls=MyRotaryEmbedding, name="RotaryEmbedding")

vLLM has one place for each name and takes the first class. Whoever comes first, another package's
class takes the place of anyop's here: who installed both asked for it by name. It computes in
`forward_oot`, which vLLM calls where the platform is none of its own; anyop's is a CPU to vLLM.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

REGISTRY = "vllm.model_executor.custom_op"


def share(give_way: Callable[[str, type], None]) -> None:
    """In this process, once. give_way(name, cls): the place of a name is to be free for cls."""
    oot = importlib.import_module(REGISTRY)
    for owner in (oot.CustomOp, oot.PluggableLayer):
        register = owner.register_oot.__func__
        if not hasattr(register, "_anyop"):
            ours = _after(give_way, register)
            ours._anyop = True  # type: ignore[attr-defined]
            owner.register_oot = classmethod(ours)
    if not hasattr(oot.CustomOp.dispatch_forward, "_anyop"):
        oot.CustomOp.dispatch_forward = _dispatch(oot.CustomOp.dispatch_forward)


def _after(give_way: Callable[[str, type], None], theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def register_oot(cls: Any, *args: Any, **kwargs: Any) -> Any:
        name = kwargs.get("name", args[1] if len(args) > 1 else None)
        given = [*args[:1], *(kwargs[key] for key in kwargs if key.startswith("_decorated"))]
        if given and given[0] is not None:
            if isinstance(given[0], type):
                give_way(name or cls.__name__, given[0])
            return theirs(cls, *args, **kwargs)
        decorate = theirs(cls, *args, **kwargs)

        def decorator(layer: type) -> Any:
            give_way(name or cls.__name__, layer)
            return decorate(layer)

        return decorator

    return register_oot


def _dispatch(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def dispatch_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = theirs(self, *args, **kwargs)
        if chosen == self.forward_cpu and computes_out_of_tree(type(self)):
            return self.forward_oot
        return chosen

    dispatch_forward._anyop = True  # type: ignore[attr-defined]
    return dispatch_forward


def computes_out_of_tree(cls: type) -> bool:
    """Whether a class, or the nearest base that says how it computes on a CPU or elsewhere, has
    `forward_oot` and no `forward_cpu`.
    """
    for base in cls.__mro__:
        if "forward_cpu" in vars(base):
            return False
        if "forward_oot" in vars(base):
            return True
    return False
