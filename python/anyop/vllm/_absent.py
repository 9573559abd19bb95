# SPDX-License-Identifier: Apache-2.0
"""What vLLM asks for and anyop has no kernel of: said in one way, whatever asks."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import torch

from anyop import _anyop

# The namespaces of vLLM's own libraries for CPUs, and those into which code for all devices looks.
NAMESPACES = ("_C", "_C_cache_ops", "_moe_C")


class AbsentError(_anyop.Unsupported, AttributeError):
    """Two errors in one: `hasattr` takes it for an absent attribute, and a call gets the reason."""


class _Names(type(torch.ops._C)):  # type: ignore[misc]
    """A namespace of torch.ops."""

    # Operators take the name of their module from here, and Inductor writes it into its code. With
    # anyop's own a compiled model ends in a NameError.
    __module__ = type(torch.ops._C).__module__

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("__"):
                raise
        raise AbsentError(_text(f"{self.name}.{name}", "vLLM asks for it"))


def tell() -> None:
    """From now on a name that no library has defined is our error."""
    for name in NAMESPACES:
        getattr(torch.ops, name).__class__ = _Names


def put(names: dict[str, str]) -> None:
    """Makes names of `_C` that vLLM looks up without calling them yet. A call of one raises, and
    says for what vLLM calls it.
    """
    for name, purpose in names.items():
        setattr(torch.ops._C, name, functools.partial(_refuse, name, purpose))


def of(purpose: str) -> list[str]:
    """The names that were put for a purpose."""
    values = vars(torch.ops._C).items()
    return [
        name
        for name, value in values
        if getattr(value, "func", None) is _refuse and value.args[1] == purpose
    ]


def reason(error: BaseException | None) -> str:
    """What anyop refused, where that is why an error came; "" if it is not."""
    while error is not None:
        if isinstance(error, _anyop.Unsupported):
            return str(error)
        error = error.__cause__ or error.__context__
    return ""


def _text(name: str, why: str) -> str:
    return f"{name}: {why}, but anyop has no kernel of it. Try a model, or options, without."


def _refuse(name: str, purpose: str, *_: object, **__: object) -> NoReturn:
    raise _anyop.Unsupported(_text(f"_C.{name}", f"vLLM calls it for {purpose}"))
