# SPDX-License-Identifier: Apache-2.0
"""Modules made from the registry: one tensor in, options, one tensor out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import anyop
from anyop import _anyop
from anyop.torch.nn._script import Unscripted


def module_of(
    op: Callable[..., Any] | str, name: str | None = None, module: str | None = None
) -> type[torch.nn.Module]:
    """A class of modules that apply this operator: `module_of(anyop.ops.user.sigmoid2)()(x)`.

    Its constructor takes the operator's options by name. InvalidArgument: the operator takes or
    gives more than one tensor, or writes its argument.
    """
    info = anyop.info(op)
    first, *rest = info["params"] or [None]
    tensors = ("tensor", "tensors")
    is_regular = (
        first is not None and first["kind"] == "tensor" and not first["optional"]
        and not first["mut"] and len(info["results"]) == 1
        and not any(p["kind"] in tensors or p["required"] for p in rest)
    )  # fmt: skip
    if not is_regular:
        raise _anyop.InvalidArgument(
            f"{info['name']}: a module of one operator takes one tensor, options that have "
            f"defaults, and gives one tensor, but the signature is\n  {info['signature']}"
        )
    plain = info["name"].rpartition(".")[2]
    title = name or "".join(word.capitalize() for word in plain.split("_"))
    members = {
        "_op": getattr(anyop.ops[info["library"]], plain),
        "_defaults": _defaults(op),
        "_name": info["name"],
        "__doc__": f"{info['doc']}\n\n{info['signature']}",
        "__module__": module or __name__,
        "__qualname__": title,
    }
    return type(title, (Regular,), members)


def regular_modules(names: dict[str, str], module: str) -> dict[str, type[torch.nn.Module]]:
    """Modules of built-in operators by name; those whose operator is not there are left out."""
    known = dict(anyop.ops["anyop"].items())
    return {n: module_of(known[op], n, module) for n, op in names.items() if op in known}


def _defaults(op: Callable[..., Any] | str) -> dict[str, Any]:
    params = anyop.contract(op)["params"][1:]
    return {p["name"]: p.get("default") for p in params}


class Regular(Unscripted):
    """The base of the modules that `module_of` makes: one operator and its options."""

    _op: Callable[..., Any]
    _defaults: dict[str, Any]
    _name: str

    def __init__(self, **options: Any) -> None:
        super().__init__()
        for name in options:
            if name not in self._defaults:
                hint = _anyop.did_you_mean(name, list(self._defaults))
                raise _anyop.WrongType(f"{self._name}: there is no option '{name}'.{hint}")
        self.options = {**self._defaults, **options}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = type(self)._op(x, **self.options)
        return y

    def extra_repr(self) -> str:
        given = {n: v for n, v in self.options.items() if v != self._defaults[n]}
        return ", ".join(f"{n}={v!r}" for n, v in given.items())
