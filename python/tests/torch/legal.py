# SPDX-License-Identifier: Apache-2.0
"""Compares a torch program with what compile and capture make of it, in all that a user can see."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import anyop
import torch
from torch.utils import _pytree as pytree

Program = Callable[..., Any]


def copies(args: Any) -> Any:
    """The same arguments in other memory: strides, and views of one storage, stay."""
    return copy.deepcopy(args)


def is_shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0


def sharing(args: Any, returned: Any) -> list[tuple[int, int]]:
    """Which results lie in the memory of which arguments and results."""
    tensors = [t for t in pytree.tree_leaves((args, returned)) if isinstance(t, torch.Tensor)]
    first = len([t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor)])
    return [
        (i, j)
        for i in range(first, len(tensors))
        for j in range(i)
        if is_shared(tensors[i], tensors[j])
    ]


def assert_same(given: Any, wanted: Any) -> None:
    """Values, types, shapes and strides."""
    got, spec = pytree.tree_flatten(given)
    want, wanted_spec = pytree.tree_flatten(wanted)
    assert spec == wanted_spec
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b) and a == b
            continue
        torch.testing.assert_close(a, b, equal_nan=True)
        sizes = [n for n in range(b.dim()) if b.shape[n] != 1]
        if b.numel():
            assert [a.stride(n) for n in sizes] == [b.stride(n) for n in sizes]


def check_calls(program: Program, made: Program, calls: Sequence[tuple[Any, ...]]) -> None:
    """Each call's results, what it does to its arguments, and what later writes to results do. The
    first call is also made at the end, when what serves it has been made and used."""
    with torch.no_grad():
        for args in (*calls, calls[0]):
            mine, theirs = copies(args), copies(args)
            wanted = program(*theirs)
            given = made(*mine)
            assert_same((given, mine), (wanted, theirs))
            assert sharing(mine, given) == sharing(theirs, wanted)
            for a, b in zip(*map(pytree.tree_leaves, (given, wanted)), strict=True):
                if isinstance(b, torch.Tensor) and b.is_floating_point() and b.numel():
                    if any(n > 1 and s == 0 for n, s in zip(b.shape, b.stride(), strict=True)):
                        continue  # torch refuses to write what repeats
                    a.add_(1)
                    b.add_(1)
            assert_same((given, mine), (wanted, theirs))


def compiled(program: Program, **options: Any) -> Program:
    torch._dynamo.reset()
    return torch.compile(program, backend="anyop", fullgraph=True, **options)


def captured(program: Program, args: tuple[Any, ...], **options: Any) -> Program:
    made: Program = anyop.torch.capture(program, *copies(args), **options)
    return made
