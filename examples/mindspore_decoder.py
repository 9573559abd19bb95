# SPDX-License-Identifier: Apache-2.0
"""anyop's operators in MindSpore: calls, a gradient, and a step with caches as one graph."""

import anyop
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

# ---8<---
random = np.random.default_rng(0)
x = Tensor(random.standard_normal((1, 2, 16)).astype(np.float32))  # a token, two heads
weight = Parameter(Tensor(np.ones(16, np.float32)), name="weight")

y = anyop.rms_norm(x, weight, eps=1e-5)  # straight to the kernel, on MindSpore's own memory
anyop.rms_norm(x, weight, out=y)  # writes y
slope = ms.grad(lambda w: anyop.rms_norm(x, w).sum())(weight)  # the operator's own gradient


class Layer(nn.Cell):
    """Keeps the keys and values of every token, and attends to them."""

    def __init__(self):
        super().__init__()
        self.weight = weight
        self.keys = Parameter(Tensor(np.zeros((4, 8, 2, 16), np.float32)), name="keys")
        self.values = Parameter(Tensor(np.zeros((4, 8, 2, 16), np.float32)), name="values")

    def construct(self, x, slot):
        h = anyop.rms_norm(x, self.weight, eps=1e-5)
        anyop.reshape_and_cache(h, h, self.keys, self.values, slot)  # in place
        return h + self.keys.sum()


compiled, eager = Layer(), Layer()
step = ms.jit(compiled.construct)  # a node for each call; so is graph mode
for token in range(3):
    slot = Tensor(np.array([token]))
    same = np.array_equal(step(x, slot).asnumpy(), eager(x, slot).asnumpy())
    print(f"token {token}: {same}")
# --->8---
print(slope.shape)
