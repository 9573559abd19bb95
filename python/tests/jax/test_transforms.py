# SPDX-License-Identifier: Apache-2.0
"""grad, vmap and checkpoint of calls: what is computed, how often, and what is refused."""

from __future__ import annotations

from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest

X = jnp.asarray(np.random.default_rng(1).standard_normal((3, 8)), jnp.float32)
W = jnp.asarray(np.random.default_rng(2).standard_normal(8), jnp.float32)
EPS = 1e-6


def plain(x: Any, w: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS) * w


def ours(x: Any, w: Any) -> Any:
    return anyop.rms_norm(x, w)


def loss(f: Any) -> Any:
    return lambda x, w: (f(x, w) ** 2).sum()


def same(made: Any, theirs: Any) -> None:
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


BOTH = (0, 1)
TRANSFORMS = {
    "grad": lambda f: jax.grad(loss(f), BOTH),
    "jit of grad": lambda f: jax.jit(jax.grad(loss(f), BOTH)),
    "grad of jit": lambda f: jax.grad(jax.jit(loss(f)), BOTH),
    "one argument": lambda f: jax.grad(loss(f), 1),
    "checkpoint": lambda f: jax.grad(loss(jax.checkpoint(f)), BOTH),
    "scan": lambda f: jax.grad(
        lambda x, w: jax.lax.scan(lambda c, _: (f(c, w), None), x, length=3)[0].sum(), BOTH
    ),
    "per example": lambda f: jax.vmap(jax.grad(loss(f), BOTH), (0, None)),
    "per example, jitted": lambda f: jax.jit(jax.vmap(jax.grad(loss(f), BOTH), (0, None))),
    "grad of vmap": lambda f: jax.grad(loss(jax.vmap(f, (0, None))), BOTH),
    "vmap of both": lambda f: lambda x, w: jax.vmap(f)(x, jnp.stack([w, w + 1, 2 * w])),
    "other axes": lambda f: (
        lambda x, w: jax.vmap(f, (1, None), 1)(
            jnp.stack([x, x + 1], 1).swapaxes(0, 2).swapaxes(0, 2), w
        )
    ),
    "nested": lambda f: (
        lambda x, w: jax.vmap(jax.vmap(f, (0, None)), (0, None))(jnp.stack([x, x + 1]), w)
    ),
    "jacrev": lambda f: jax.jacrev(f, BOTH),
    "vjp under vmap": lambda f: (
        lambda x, w: jax.vmap(jax.vjp(f, x, w)[1])(jnp.stack([x, x * 0, x + 1]))
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_those_of_the_formula(name: str) -> None:
    transform = TRANSFORMS[name]
    same(transform(ours)(X, W), transform(plain)(X, W))


@pytest.mark.parametrize("name", ["grad", "jit of grad", "per example, jitted", "scan"])
def test_transforms_work_where_jit_is_disabled(name: str) -> None:
    transform = TRANSFORMS[name]
    wanted = transform(plain)(X, W)
    with jax.disable_jit():
        same(transform(ours)(X, W), wanted)
        same(ours(X, W), plain(X, W))


def calls() -> dict[str, int]:
    return {c.op: c.calls for c in anyop.counters() if c.calls}


def test_a_batch_that_joins_is_one_call_and_another_is_a_loop() -> None:
    f = jax.jit(jax.vmap(lambda x: anyop.rms_norm(x, W)))
    many = jnp.stack([X] * 5)
    f(many).block_until_ready()
    anyop.reset_counters()
    f(many).block_until_ready()
    assert calls() == {"anyop.rms_norm": 1}
    g = jax.jit(jax.vmap(lambda x, w: anyop.rms_norm(x, w)))
    weights = jnp.stack([W] * 5)
    g(many, weights).block_until_ready()
    anyop.reset_counters()
    g(many, weights).block_until_ready()
    assert calls() == {"anyop.rms_norm": 5}


def test_operators_that_write_are_batched() -> None:
    src, caches = jnp.ones((2, 3, 4)), jnp.zeros((2, 3, 4))
    mapping = jnp.asarray([[[0, 1]], [[0, 2]]])
    made = jax.vmap(anyop.swap_blocks)(src, caches, mapping)
    np.testing.assert_array_equal(made[:, :, 0], [[0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(caches, np.zeros((2, 3, 4)))
    shared = jax.vmap(anyop.swap_blocks, (None, None, 0))(src[0], caches[0], mapping)
    np.testing.assert_array_equal(shared, made)


def test_only_what_is_asked_for_is_computed_and_kept() -> None:
    """The text of the gradient's call names its results; unused ones are _."""

    def f(x: Any, w: Any) -> Any:
        return anyop.rms_norm(x, w).sum()

    one = str(jax.make_jaxpr(jax.grad(f))(X, W))
    assert "weight_offset = 0.0) -> dx, _" in one
    both = str(jax.make_jaxpr(jax.grad(f, BOTH))(X, W))
    assert "weight_offset = 0.0) -> dx, dweight" in both
    assert both.count("anyop.rms_norm_backward[") == 1
    kept = jax.vjp(lambda x: anyop.sigmoid(x), X)[1]
    arrays = [a for a in jax.tree.leaves(kept) if isinstance(a, jax.Array) and a.ndim]
    assert len(arrays) == 1  # the result, and not the argument
    np.testing.assert_allclose(arrays[0], jax.nn.sigmoid(X), rtol=1e-5)


def test_a_result_that_nothing_used_needs_no_zeros() -> None:
    """The gradient of add_rms_norm takes either gradient, or both."""

    def f(x: Any, r: Any) -> Any:
        return anyop.add_rms_norm(x, r, W).sum.sum()

    text = str(jax.make_jaxpr(jax.grad(f))(X, X))
    assert "(dy = None, dsum = f32," in text


def test_integers_have_no_gradient_and_ask_for_none() -> None:
    made = jax.grad(lambda t: anyop.embedding(jnp.asarray([0, 0, 2]), t).sum())(X)
    np.testing.assert_array_equal(made[:, 0], [2, 0, 1])
    zero = jax.grad(lambda x: x.sum() + anyop.argmax(x).sum())(X)
    np.testing.assert_array_equal(zero, np.ones((3, 8)))


def grad(f: Any) -> Any:
    return jax.grad(lambda x: f(x).sum())(X)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: grad(lambda x: anyop.top_k(x, 2).values),
         "top_k: it has no gradient, but one was asked for. Try jax.lax.stop_gradient of its "
         "arguments."),
        (lambda: jax.jit(jax.grad(lambda x: grad_of_norm(x).sum()))(X),
         "rms_norm: a second derivative was asked for, but its gradient rms_norm_backward has "
         "none. Try jax.lax.stop_gradient of what need not be differentiated twice."),
        (lambda: jax.jvp(anyop.rms_norm, (X,), (X,)),
         "rms_norm: forward mode was asked for (jax.jvp, jax.jacfwd, jax.linearize), but its "
         "gradient only goes backward. Try jax.grad, jax.vjp or jax.jacrev, or "
         "jax.lax.stop_gradient of its arguments."),
        (lambda: jax.jit(jax.jacfwd(anyop.rms_norm))(X),
         "rms_norm: forward mode was asked for (jax.jvp, jax.jacfwd, jax.linearize), but its "
         "gradient only goes backward. Try jax.grad, jax.vjp or jax.jacrev, or "
         "jax.lax.stop_gradient of its arguments."),
        (lambda: jax.grad(lambda t: anyop.rope(X.reshape(3, 2, 4), None, t).sum())(
            jnp.ones((3, 4))),
         "rope: cos_sin_cache is differentiated, but rope has no gradient for it. Try "
         "jax.lax.stop_gradient(cos_sin_cache)."),
        (lambda: jax.grad(lambda x: anyop.linear(x, X, activation="relu").sum())(X),
         "linear: activation is 'relu', but must be 'none' where a gradient is needed, because "
         "linear_backward takes no other. Try jax.lax.stop_gradient of its arguments."),
    ],
)  # fmt: skip
def test_what_has_no_gradient_is_refused(call: Any, text: str) -> None:
    with pytest.raises(anyop.Unsupported) as caught:
        call()
    assert str(caught.value) == text


def test_forward_mode_passes_what_stop_gradient_holds() -> None:
    """As the refusal says: the arguments, since JAX asks a call for its derivative at once."""
    x, tangent = jax.jvp(lambda t: 2 * t + anyop.rms_norm(jax.lax.stop_gradient(t)), (X,), (X,))
    same((x, tangent), (2 * X + plain(X, 1.0), 2 * X))


def grad_of_norm(x: Any) -> Any:
    return jax.grad(lambda t: anyop.rms_norm(t, W).sum())(x)
