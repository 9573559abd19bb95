# SPDX-License-Identifier: Apache-2.0
"""A function over operators as a graph: traced once, planned once per size, replayed."""

import anyop
import numpy as np

# ---8<---
weight = np.full(64, 0.5, np.float32)
cache = np.zeros((16, 64), np.float32)


def step(x, eps):
    y = anyop.rms_norm(x, weight, eps)
    anyop.softmax(y[-1], out=cache[0])  # arrays beside the arguments are state
    return anyop.add(y, x)


g = anyop.graph(step, "f32[n, 64]", "float")
for n in (2, 7):
    x = np.random.default_rng(n).standard_normal((n, 64), np.float32)
    assert (g(x, 1e-5) == step(x, 1e-5)).all()
print(g)
print(g.memory(n=7))
# --->8---
