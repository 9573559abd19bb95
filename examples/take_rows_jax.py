# SPDX-License-Identifier: Apache-2.0
"""Calls an operator with indices from JAX. Usage: python examples/take_rows_jax.py my_ops.so"""

import sys

# ---8<---
import anyop
import anyop.jax
import jax
import jax.numpy as jnp

my_ops = anyop.load(sys.argv[1])  # my_ops.so
table = jnp.arange(12, dtype=jnp.float32).reshape(4, 3)
take = jax.jit(my_ops.take_rows)
print(take(table, jnp.asarray([2, -1, 0])))  # i32: what JAX's integers are
# --->8---
