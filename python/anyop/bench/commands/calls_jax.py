# SPDX-License-Identifier: Apache-2.0
"""What a call with JAX arrays costs, beside the operators of jax.numpy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

import anyop
from anyop.bench.commands.interleave import EACH, Row, chain, interleave

CHAIN = 100


def measure(calls: int = 100, rounds: int = 200) -> list[Row]:
    """Minimum over interleaved rounds, arrays of 4 floats; each call is waited for."""
    ours, theirs = anyop.ops.anyop.add, jnp.add
    names: dict[str, Any] = {
        "anyop_add": ours,
        "jnp_add": theirs,
        "jit_anyop": jax.jit(lambda x, y: ours(x, y)),
        "jit_jnp": jax.jit(lambda x, y: theirs(x, y)),
        "chain_anyop": jax.jit(chain(ours, CHAIN)),
        "chain_jnp": jax.jit(chain(theirs, CHAIN)),
        "a": jnp.ones(4),
        "b": jnp.full(4, 2.0),
    }
    eager, jitted = "jax.numpy.add(a, b)", "jax.jit(jax.numpy.add)(a, b)"
    many = f"jax.jit of {CHAIN} jax.numpy.add, which XLA fuses"
    rows = [
        (eager, "jnp_add", ""),
        (jitted, "jit_jnp", ""),
        (many, "chain_jnp", ""),
        ("anyop.add(a, b), JAX arrays", "anyop_add", eager),
        ("jax.jit(anyop.add)(a, b)", "jit_anyop", jitted),
        (f"jax.jit of {CHAIN} anyop.add", "chain_anyop", many),
    ]
    for _, function, _ in rows:
        names[function](names["a"], names["b"]).block_until_ready()  # compiles
    made = interleave(
        [(what, f"{function}(a, b).block_until_ready()", to) for what, function, to in rows],
        names,
        calls,
        rounds,
    )
    one, whole = made[-2].ns, made[-1].ns
    return [*made, Row(EACH, round((whole - one) / (CHAIN - 1), 1), "", None)]
