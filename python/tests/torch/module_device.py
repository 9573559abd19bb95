# SPDX-License-Identifier: Apache-2.0
"""Entries of torch's own table of modules (ModuleInfo) on a device whose kernels are the CPU's."""

from __future__ import annotations

import copy
import itertools
from typing import Any

# They draw random numbers: shapes and dtypes are compared.
WITHOUT_VALUES = ("Dropout", "RReLU")
# Their samples are of float64, which they refuse beside float32.
REFUSED = ("nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d")
# Their parameters are drawn when they are first called.
LAZY = "Lazy"
EACH = 2  # sets of arguments of an entry, at most


def entries() -> list[Any]:
    from torch.testing._internal.common_modules import module_db

    return [info for info in module_db if LAZY not in info.name and info.name not in REFUSED]


def compare(info: Any, device: str, training: bool) -> None:
    """Raises where results or gradients on the device are not the CPU's."""
    import torch

    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    for given in itertools.islice(made, EACH):
        torch.manual_seed(0)
        start = given.constructor_input
        module = info.module_cls(*start.args, **start.kwargs).train(training)
        want, got = (_called(module, given.forward_input, where) for where in ("cpu", device))
        if any(word in info.name for word in WITHOUT_VALUES):
            assert [x.shape for x in want] == [x.shape for x in got]
        else:
            torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-4, atol=1e-4)


def _called(module: Any, call: Any, where: str) -> list[Any]:
    """The results, and the gradients of the sum of their squares."""
    import torch
    from torch.utils import _pytree as pytree

    there = copy.deepcopy(module).to(where)
    leaves = list(there.parameters())

    def leaf(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        leaves.append(x.detach().clone().to(where).requires_grad_(x.requires_grad))
        return leaves[-1]

    args, kwargs = pytree.tree_map(leaf, (call.args, call.kwargs))
    results = [r for r in pytree.tree_leaves(there(*args, **kwargs)) if isinstance(r, torch.Tensor)]
    squares = [(r * r).sum() for r in results if r.requires_grad]
    if squares:
        torch.stack(squares).sum().backward()
    grads = [x.grad for x in leaves if x.grad is not None]
    return [x.detach().cpu() for x in (*results, *grads)]
