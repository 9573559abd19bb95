# SPDX-License-Identifier: Apache-2.0
"""Gradients in PyNative: a call inside `mindspore.grad` is a function of its autograd."""

from __future__ import annotations

import functools
from typing import Any

import mindspore
from mindspore.common._grad_function import _Function

import anyop
from anyop.hosting import binding
from anyop.hosting.facts import Operator
from anyop.hosting.gradient import Wording, gradient_of, no_gradient, refuse_missing

WORDING = Wording(
    "needs a gradient",
    lambda name: f"mindspore.ops.stop_gradient({name})",
    "the call on tensors from mindspore.ops.stop_gradient",
)
_gradient_of = functools.cache(gradient_of)
_operator = functools.cache(Operator)


def with_gradient(op: Operator, args: tuple[Any, ...], out: Any) -> Any:
    """A call that anyop hands back, because one of its tensors needs a gradient."""
    tensors = list(binding.tensors(op, args, mindspore.Tensor))
    needed = {i for i, _, t in tensors if t._requires_grad and t.is_floating_point()}
    given = out if isinstance(out, tuple) else (out,)
    if needed and any(isinstance(t, mindspore.Tensor) for t in given):
        raise anyop.Unsupported(
            f"{op.display_name}: out is given, but {op.params[min(needed)].name} needs a gradient, "
            "and memory that is given has none. Try the call without out."
        )
    stopped = op.written if op.wiring is None else needed & set(op.written)
    if needed and stopped:
        name = op.params[min(stopped)].name
        raise anyop.Unsupported(
            f"{op.display_name}: {op.params[min(needed)].name} needs a gradient, but {name} is "
            f"written in place, through which none flows. Try {WORDING.around}, and a Parameter "
            "with requires_grad=False."
        )
    refuse_missing(op, args, needed, WORDING)
    call = _Pending(op, args, out)
    shown = _Call.apply(call, *(t for _, _, t in tensors))
    made = iter(shown if isinstance(shown, tuple) else (shown,))
    results = tuple(None if r is None else next(made) for r in call.made)
    if not op.results:
        return None
    return results[0] if len(op.results) == 1 else results


class _Pending:
    """A call whose tensors MindSpore sees beside it. made: its results, None where left out."""

    def __init__(self, op: Operator, args: tuple[Any, ...], out: Any) -> None:
        self.op, self.args, self.out = op, args, out
        self.made: tuple[Any, ...] = ()


class _Call(_Function):  # type: ignore[misc]
    """One call, and its gradient as `.gradient` wires it."""

    @staticmethod
    def forward(ctx: Any, call: _Pending, *tensors: Any) -> Any:
        """Runs without gradients."""
        op = call.op
        returned = op.function(*call.args, **({} if call.out is None else {"out": call.out}))
        call.made = returned if isinstance(returned, tuple) else (returned,)
        # None for a result that nothing used, so that zeros are made only where they are needed.
        ctx.set_materialize_grads(False)
        ctx.op, ctx.gradient = op, _gradient_of(op)
        ctx.places = [i for i, _, _ in binding.tensors(op, call.args, mindspore.Tensor)]
        ctx.shapes = [None if r is None else (r.shape, r.dtype) for r in call.made]
        if op.wiring is not None:
            ctx.kept = ctx.gradient.keep(call.args, call.made)
            unused = (r for i, r in enumerate(call.made) if i not in op.wiring.results)
            ctx.mark_non_differentiable(*(r for r in unused if r is not None))
        given = tuple(r for r in call.made if r is not None)
        return given[0] if len(given) == 1 else given

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        """A gradient per argument of forward."""
        op, gradient, shapes = ctx.op, ctx.gradient, ctx.shapes
        if gradient is None:
            raise anyop.Unsupported(no_gradient(op, WORDING))
        given = iter(gradients)
        dy = [None if shape is None else next(given) for shape in shapes]
        arguments = gradient.arguments(
            ctx.kept, dy, lambda r: shapes[r] and mindspore.ops.zeros(*shapes[r])
        )
        is_needed = zip(ctx.places, ctx.needs_input_grad[1:], strict=True)
        wanted = gradient.wanted({i for i, needed in is_needed if needed})
        if not any(wanted):
            return (None,) * (1 + len(ctx.places))
        options: dict[str, Any] = {}
        if gradient.takes_mask:
            options["out"] = tuple(None if w else False for w in wanted)
        made = _operator(gradient.operator).function(*arguments, **options)
        slopes = gradient.by_parameter(made if isinstance(made, tuple) else [made])
        return (None, *(slopes.get(i) for i in ctx.places))
