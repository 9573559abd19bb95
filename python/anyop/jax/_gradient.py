# SPDX-License-Identifier: Apache-2.0
"""Gradients: a call's derivative is one linear primitive, which only goes backward.

The derivative rule makes the forward call with every result that the gradient reads, and a linear
call of what that needs and of the tangents. Going backward, the linear call is turned around: it is
the gradient operator, asked for what is wanted and given what there is. Nobody can run it forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax._src.core import Primitive
from jax.interpreters import ad, batching, mlir

from anyop import _anyop
from anyop.hosting.facts import Operator, Wiring
from anyop.hosting.gradient import Wording, no_gradient, refuse_missing
from anyop.jax._calls import Call, call_of, operator
from anyop.jax._shapes import result_avals

_WORDING = Wording(
    "is differentiated",
    lambda name: f"jax.lax.stop_gradient({name})",
    "jax.lax.stop_gradient of its arguments",
)


class _Linear(NamedTuple):
    """What the linear primitive knows. call: the forward call. wanted: per input, whether its
    gradient is wanted. results: those results that may have a tangent. kept: where each kept value
    comes from: ("input", k) or ("result", r).
    """

    call: Call
    wanted: tuple[bool, ...]
    results: tuple[int, ...]
    kept: tuple[tuple[str, int], ...]

    def __repr__(self) -> str:
        return f"gradient of {self.call}"


def install(primitive: Primitive) -> None:
    ad.primitive_jvps[primitive] = _differentiate


def _differentiate(
    primals: Sequence[Any], tangents: Sequence[Any], *, call: Call
) -> tuple[list[Any], list[Any]]:
    wanted = tuple(_is_moving(t) for t in tangents)
    if not any(wanted) or not any(
        map(_is_float, result_avals(*map(jax.typeof, primals), call=call))
    ):
        made = call.bind(*primals)
        return made, [_no_tangent(value) for value in made]
    wiring = _wiring(call, wanted)
    forward, _, sources, _ = call.bound.gradient(wanted)
    whole = call_of(forward)
    everything = whole.bind(*primals)
    written, made = everything[: len(call.written)], everything[len(call.written) :]
    known = wiring.results
    results = tuple(r for r, k in enumerate(whole.results) if k in known and _is_float(made[r]))
    kept = tuple(source for source in sources if source[0] != "result_gradient")
    values = {"input": primals, "result": made}
    linear = _Linear(whole, wanted, results, kept)
    moving = [t for t, w in zip(tangents, wanted, strict=True) if w]
    turned = _linear.bind(
        *(values[kind][index] for kind, index in kept),
        *moving,
        linear=linear,
        avals=tuple(_tangent_aval(made[r]) for r in results),
    )
    by_result = dict(zip(results, turned, strict=True))
    chosen = [whole.results.index(r) for r in call.results]
    zeros = [_no_tangent(value) for value in written]
    return (
        [*written, *(made[r] for r in chosen)],
        [*zeros, *(by_result.get(r, _no_tangent(made[r])) for r in chosen)],
    )


def _is_moving(tangent: Any) -> bool:
    return not isinstance(tangent, ad.Zero) and tangent.dtype != jax.dtypes.float0


def _no_tangent(value: Any) -> Any:
    return ad.Zero(jax.typeof(value).to_tangent_aval())


def _is_float(value: Any) -> bool:
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


def _tangent_aval(value: Any) -> Any:
    return jax.typeof(value).to_tangent_aval()


def _wiring(call: Call, wanted: Sequence[bool]) -> Wiring:
    """How the gradient is called. What has none is refused, in words that say what to do."""
    op = call.op
    if op.wiring is None:
        raise _anyop.Unsupported(_second_derivative(op) or no_gradient(op, _WORDING))
    needed = sorted({i for (i, _), w in zip(call.inputs, wanted, strict=True) if w})
    refuse_missing(op, call.values, needed, _WORDING)
    return op.wiring


def _second_derivative(op: Operator) -> str:
    """What is said where a gradient is differentiated; "" for an operator that is none."""
    for name in _anyop.functions():
        of = operator(name)
        if of.wiring is not None and of.wiring.operator == op.name:
            return (
                f"{of.display_name}: a second derivative was asked for, but its gradient "
                f"{op.display_name} has none. Try jax.lax.stop_gradient of what need not be "
                "differentiated twice."
            )
    return ""


# ---- The linear primitive.

_linear = Primitive("anyop.tangent")
_linear.multiple_results = True


def _linear_avals(*_: Any, linear: _Linear, avals: Sequence[Any]) -> Sequence[Any]:
    return avals


def _refuse_forward(*_: Any, linear: _Linear, **__: Any) -> Any:
    raise _anyop.Unsupported(
        f"{linear.call.op.display_name}: forward mode was asked for (jax.jvp, jax.jacfwd, "
        "jax.linearize), but its gradient only goes backward. Try jax.grad, jax.vjp or jax.jacrev, "
        "or jax.lax.stop_gradient of its arguments."
    )


_linear.def_abstract_eval(_linear_avals)
_linear.def_impl(_refuse_forward)
mlir.register_lowering(_linear, _refuse_forward)
batching.primitive_batchers[_linear] = _refuse_forward
ad.primitive_jvps[_linear] = _refuse_forward


def _transpose(
    cotangents: Sequence[Any], *inputs: Any, linear: _Linear, avals: Sequence[Any]
) -> list[Any]:
    """The gradient operator, of the results that were used."""
    n_kept = len(linear.kept)
    moving = inputs[n_kept:]
    by_result = dict(zip(linear.results, cotangents, strict=True))
    used = {r for r, ct in by_result.items() if not isinstance(ct, ad.Zero)}
    if not used:
        return [None] * len(inputs)
    given = [r in used for r in range(len(linear.call.results))]
    _, gradient, sources, targets = linear.call.bound.gradient(linear.wanted, given)
    kept = dict(zip(linear.kept, inputs, strict=False))
    arguments = []
    for kind, index in sources:
        if kind != "result_gradient":
            arguments.append(kept[kind, index])
        elif index in used:
            arguments.append(by_result[index])
        else:
            arguments.append(_zeros(linear.call, index, avals, linear.results))
    made = call_of(gradient).bind(*arguments)
    by_input = dict(zip(targets, made, strict=True))
    # JAX asks for cotangents of the very dtypes of the inputs.
    numbers = [k for k, w in enumerate(linear.wanted) if w]
    found = [by_input[k].astype(of.aval.dtype) for k, of in zip(numbers, moving, strict=True)]
    return [None] * n_kept + found


def _zeros(call: Call, result: int, avals: Sequence[Any], results: Sequence[int]) -> Any:
    aval = avals[results.index(result)]
    return jnp.zeros(aval.shape, aval.dtype)


ad.primitive_transposes[_linear] = _transpose
