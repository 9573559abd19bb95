# SPDX-License-Identifier: Apache-2.0
"""Runs a program as torch does, captured and compiled, and compares all that can be seen of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import anyop
import torch
from backend_cases import compiled_last
from torch.utils import _pytree as pytree

HOWS = ("capture", "compile", "dynamic")


def made(how: str, program: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """program: takes tensors alone."""
    if how == "capture":
        return anyop.torch.capture(program, *args)  # type: ignore[no-any-return]
    torch._dynamo.reset()
    return torch.compile(program, backend="anyop", dynamic=how == "dynamic", fullgraph=True)


def graph_of(how: str, function: Any) -> Any:
    if how != "capture":
        return compiled_last().lowered.graph
    return function.details.lowered.graph if hasattr(function, "details") else function


def host_calls(how: str, function: Any) -> int:
    return str(graph_of(how, function)).count("torch_host.")


def called(how: str, function: Any) -> set[str]:
    words = str(graph_of(how, function)).replace("(", " ").split()
    return {w for w in words if w.startswith("anyop.")}


def assert_as_torch(
    how: str, program: Callable[..., Any], args: tuple[Any, ...], *, is_graph: bool = True,
    calls: int = 2, **close: Any,
) -> Any:  # fmt: skip
    """Results, their strides, which of them share memory, and what is written to arguments."""
    mine, plain = copy.deepcopy(args), copy.deepcopy(args)
    with torch.no_grad():
        function = made(how, program, copy.deepcopy(args))
        for _ in range(calls):
            got, want = function(*mine), program(*plain)
            torch.testing.assert_close(got, want, equal_nan=True, **close)
            torch.testing.assert_close(mine, plain, equal_nan=True, **close)
            assert _strides(got) == _strides(want)
            assert _sharing(got, mine) == _sharing(want, plain)
        if is_graph and how != "capture":
            assert not compiled_last().why_not
    return function


def _strides(value: Any) -> list[Any]:
    return [t.stride() for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]


def _sharing(results: Any, args: Any) -> list[list[bool]]:
    many = [t for t in pytree.tree_leaves((results, args)) if isinstance(t, torch.Tensor)]
    places = [t.untyped_storage().data_ptr() for t in many]
    return [[a == b for b in places] for a in places]
