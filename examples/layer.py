# SPDX-License-Identifier: Apache-2.0
"""A layer of a language model as a graph: attention, then a gated product."""

import anyop
import numpy as np

D, HEADS, WIDTH, HIDDEN = 64, 4, 16, 128


def weight(*shape):
    return np.random.default_rng(len(shape) * sum(shape)).standard_normal(shape, np.float32) / 8


# ---8<---
gain = np.ones(D, np.float32)
w_qkv, w_out = weight(3 * D, D), weight(D, D)
w_up, w_down = weight(2 * HIDDEN, D), weight(D, HIDDEN)


def layer(x, starts):
    qkv = anyop.linear(anyop.rms_norm(x, gain), w_qkv)
    q, k, v = (qkv[:, i * D : (i + 1) * D].reshape(-1, HEADS, WIDTH) for i in range(3))
    y, _ = anyop.attention(q, k, v, starts, starts)
    x = anyop.add(x, anyop.linear(y.reshape(-1, D), w_out))
    h = anyop.silu_and_mul(anyop.linear(anyop.rms_norm(x, gain), w_up))
    return anyop.add(x, anyop.linear(h, w_down))


# --->8---


if __name__ == "__main__":
    graph = anyop.graph(layer, "f32[n, 64]", "i32[2]")
    x, starts = weight(8, D), np.array([0, 8], np.int32)
    assert (graph(x, starts) == layer(x, starts)).all()
    print(graph)
