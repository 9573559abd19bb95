# SPDX-License-Identifier: Apache-2.0
"""torch.func.vmap: the batch is one more of the leading dimensions that `...` stands for.

Other batched arguments are taken one example at a time. What writes into its arguments has torch's
own fallback.
"""

from __future__ import annotations

from typing import Any

import torch

from anyop import symbolic
from anyop.torch._dispatch.operators import Operator, dtype_name


class Batched:
    """The kernel of the functional overload for batched tensors."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        from torch._functorch.autograd_function import custom_function_call_vmap_helper
        from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

        interpreter = retrieve_current_functorch_interpreter()
        overload = self.op.torch_op("")
        run: Any = custom_function_call_vmap_helper
        return run(interpreter, self.rule, overload, *args, **kwargs)

    def rule(self, info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
        """As torch.library.register_vmap wants it."""
        op = self.op
        n = len(args)
        dims = [*in_dims, *[None] * (len(op.params) - n)]
        call = op.bind("", args, kwargs)
        form = self.form(call.values, dims)
        batched = [i for i, d in enumerate(dims[: len(op.params)]) if not _is_none(d)]
        leads = all(op.params[i].kind == "tensor" and form["params"][i]["dots"] for i in batched)
        if not leads or not all(r["dots"] for r in form["results"]):
            return self.one_by_one(info, dims, call)
        for i, value in enumerate(call.values):
            if i in batched:
                call.values[i] = value.movedim(dims[i], 0)
            elif isinstance(value, torch.Tensor) and form["params"][i]["dots"]:
                call.values[i] = value.expand(info.batch_size, *value.shape)
        made = op.torch_op("")(*call.values, *_masks(call))
        return made, (0,) * len(made) if isinstance(made, tuple) else 0

    def one_by_one(self, info: Any, dims: list[Any], call: Any) -> Any:
        op, rows = self.op, []
        for b in range(info.batch_size):
            values = [_pick(v, d, b) for v, d in zip(call.values, dims, strict=False)]
            made = op.torch_op("")(*values, *_masks(call))
            rows.append(made if isinstance(made, tuple) else (made,))
        stacked = tuple(
            None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)
        )
        if len(op.results) == 1:
            return stacked[0], 0
        return stacked, (0,) * len(stacked)

    def form(self, values: list[Any], dims: list[Any]) -> dict[str, Any]:
        """The form that one example takes."""
        op = self.op

        def example(name: str, t: torch.Tensor, dim: Any) -> symbolic.TensorType:
            shape = list(t.shape)
            if dim is not None:
                del shape[dim]
            return symbolic.TensorType(dtype_name(op, name, t), tuple(shape))

        args: list[Any] = []
        for p, value, dim in zip(op.params, values, dims, strict=False):
            if isinstance(value, torch.Tensor):
                args.append(example(p.name, value, dim))
            elif p.kind == "tensors":
                inner = [None] * len(value) if _is_none(dim) else dim
                pairs = zip(value, inner, strict=True)
                args.append([example(p.name, t, d) for t, d in pairs])
            else:
                args.append(value)
        return symbolic.choose_form(op.contract, args)


def _is_none(dim: Any) -> bool:
    return dim is None or (isinstance(dim, list | tuple) and all(d is None for d in dim))


def _pick(value: Any, dim: Any, b: int) -> Any:
    if _is_none(dim):
        return value
    if isinstance(dim, list | tuple):
        return [_pick(v, d, b) for v, d in zip(value, dim, strict=True)]
    return value.select(dim, b)


def _masks(call: Any) -> tuple[Any, ...]:
    return () if call.mask is None else (call.mask,)
