# SPDX-License-Identifier: Apache-2.0
"""Code of NumPy as part of a graph: python -m examples.graph_host"""

import anyop
import numpy as np


def spectrum(x):
    return np.abs(np.fft.rfft(x)).astype(np.float32), x.max(-1)


def step(x):
    y = anyop.rms_norm(x)
    power, largest = anyop.host(spectrum, y, result=["f32[n, 33]", "f32[n]"])
    total = anyop.host(np.cumsum, y, result="f32[64*n]")
    return anyop.softmax(power), largest, total


g = anyop.graph(step, "f32[n, 64]")
for n in (2, 7):
    x = np.random.default_rng(n).standard_normal((n, 64), np.float32)
    for made, expected in zip(g(x), step(x), strict=True):
        assert (made == expected).all()
print(g)
