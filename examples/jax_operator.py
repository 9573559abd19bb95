# SPDX-License-Identifier: Apache-2.0
"""An operator of one's own in JAX: jitted, differentiated, batched, exported.

python -m examples.jax_operator
"""

import anyop
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_platforms", "cpu")


# ---8<---
# An operator and its gradient, here in Python; a package made by `anyop new` has both in C++.
@anyop.define("swish_backward(dy: T[...], x: T[...]) -> (dx: T[...]?) where T in f32 | f64")
def swish_backward(dy, x):
    s = 1 / (1 + np.exp(-x))
    return dy * s * (1 + x * (1 - s))


@anyop.define("swish(x: T[...]) -> (y: T[...]) where T in f32 | f64", gradient="swish_backward")
def swish(x):
    return x / (1 + np.exp(-x))


def loss(x, weight):  # operators of any library, and JAX's own
    return (anyop.rms_norm(swish(x), weight) ** 2).sum()


x, weight = jnp.linspace(-2, 2, 12).reshape(3, 4), jnp.ones(4)
step = jax.jit(jax.grad(loss, argnums=(0, 1)))
dx, dweight = step(x, weight)
per_example = jax.vmap(jax.grad(loss), in_axes=(0, None))(x, weight)

# Operators that write return what they wrote; a donated cache is written in place.
append = jax.jit(anyop.swap_blocks, donate_argnums=1)
cache = append(x, jnp.zeros((8, 4)), jnp.asarray([[0, 5]]))

# A program with a symbol for a size, for another process that has imported anyop.jax.
rows = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, 4"), "float32")
exported = jax.export.export(step, disabled_checks=anyop.jax.export_checks())(rows, weight)
again = jax.export.deserialize(exported.serialize()).call(x, weight)
# --->8---
np.testing.assert_allclose(dx, per_example, rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(again[0], dx, rtol=1e-6)
np.testing.assert_allclose(dx, jax.grad(lambda t: loss(t, weight))(x), rtol=1e-6)
np.testing.assert_array_equal(cache[5], x[0])


def plain(t, w):
    s = jax.nn.silu(t)
    return ((s * jax.lax.rsqrt((s * s).mean(-1, keepdims=True) + 1e-6) * w) ** 2).sum()


np.testing.assert_allclose(dweight, jax.grad(plain, 1)(x, weight), rtol=1e-4, atol=1e-4)
print("jitted, differentiated, batched and exported")
