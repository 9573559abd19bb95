# SPDX-License-Identifier: Apache-2.0
"""torch.func.vmap: the batch is one more of the leading dimensions that `...` stands for.

Other batched arguments are taken one example at a time. What writes into its arguments has torch's
own fallback.
"""

from __future__ import annotations

from typing import Any

import torch

from anyop import symbolic
from anyop.hosting import batching
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
        """(results, their batch dimensions), as torch.library.register_vmap expects of a rule."""
        op = self.op
        n = len(args)
        dims = [*in_dims, *[None] * (len(op.params) - n)]
        call = op.bind("", args, kwargs)
        batched = [i for i, d in enumerate(dims[: len(op.params)]) if not _is_none(d)]
        joined = batching.batch(op, self.example(call.values, dims), batched)
        if joined.why:
            return self.one_by_one(info, dims, call)
        for i in batched:
            call.values[i] = call.values[i].movedim(dims[i], 0)
        for i in joined.expand:
            call.values[i] = _expand(call.values[i], info.batch_size)
        made = op.torch_op("")(*call.arguments)
        return made, (0,) * len(made) if isinstance(made, tuple) else 0

    def one_by_one(self, info: Any, dims: list[Any], call: Any) -> Any:
        op, rows = self.op, []
        for b in range(info.batch_size):
            values = [_pick(v, d, b) for v, d in zip(call.values, dims, strict=False)]
            made = op.torch_op("")(*call._replace(values=values).arguments)
            rows.append(made if isinstance(made, tuple) else (made,))
        stacked = tuple(
            None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)
        )
        if len(op.results) == 1:
            return stacked[0], 0
        return stacked, (0,) * len(stacked)

    def example(self, values: list[Any], dims: list[Any]) -> list[Any]:
        """The arguments of one example, as types."""

        def one(name: str, t: torch.Tensor, dim: Any) -> symbolic.TensorType:
            shape = list(t.shape)
            if dim is not None:
                del shape[dim]
            return symbolic.TensorType(dtype_name(self.op, name, t), tuple(shape))

        args: list[Any] = []
        for p, value, dim in zip(self.op.params, values, dims, strict=False):
            if isinstance(value, torch.Tensor):
                args.append(one(p.name, value, dim))
            elif p.kind == "tensors":
                inner = [None] * len(value) if _is_none(dim) else dim
                args.append([one(p.name, t, d) for t, d in zip(value, inner, strict=True)])
            else:
                args.append(value)
        return args


def _is_none(dim: Any) -> bool:
    return dim is None or (isinstance(dim, list | tuple) and all(d is None for d in dim))


def _pick(value: Any, dim: Any, b: int) -> Any:
    if _is_none(dim):
        return value
    if isinstance(dim, list | tuple):
        return [_pick(v, d, b) for v, d in zip(value, dim, strict=True)]
    return value.select(dim, b)


def _expand(value: Any, n: int) -> Any:
    if isinstance(value, list | tuple):
        return [_expand(v, n) for v in value]
    return value.expand(n, *value.shape)
