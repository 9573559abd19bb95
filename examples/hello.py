# SPDX-License-Identifier: Apache-2.0
"""Calls a built-in operator and one of an own library from NumPy."""

import sys

import anyop
import numpy as np

# ---8<---
x = np.full((2, 64), 3, np.float32)
weight = np.full(64, 0.5, np.float32)
y = anyop.rms_norm(x, weight, eps=1e-5)  # allocates y
anyop.rms_norm(x, weight, out=x)  # `y over x` allows it
print(f"{y[1, 63]:.4f} {x[0, 0]:.4f}")
# --->8---

if len(sys.argv) > 1:
    my_ops = anyop.load(sys.argv[1])  # my_ops.so
    print(f"{my_ops.scale_rows(y, np.full((2, 1), 2, np.float32))[0, 0]:.4f}")

print(anyop.explain(anyop.rms_norm, x, weight))
try:
    anyop.rms_norm(x, weight[:63])
except ValueError as error:
    print(error)
