# SPDX-License-Identifier: Apache-2.0
"""my_custom_op and advance_step, in PyNative and in graphs of MindSpore."""

import anyop
import mindspore as ms
import my_ops  # noqa: F401  (loads the library)
import numpy as np
from mindspore import Tensor, nn

x = Tensor(np.array([1, 2, 3], np.float32))
output = Tensor(np.zeros(3, np.float32))


class Net(nn.Cell):
    def construct(self, x):
        return anyop.ops.my_ops.my_custom_op(2.0, 1.0, x)


net = Net()
print(net(x))  # PyNative
print(ms.jit(net.construct)(x))  # a graph
print(ms.grad(net)(x))  # by my_custom_op_backward
print(ms.jit(ms.grad(net))(x))
my_ops.my_custom_op(2.0, 1.0, x, out=output)  # writes output
print(output)


class Advance(nn.Cell):
    def construct(self, tokens, sampled, positions, lengths, slots, table):
        anyop.ops.my_ops.advance_step(tokens, sampled, positions, lengths, slots, table, 4)
        return slots


for call in (Advance(), ms.jit(Advance().construct)):
    tokens, sampled, positions = (Tensor(np.array([n])) for n in (5, 9, 3))
    lengths, slots = (Tensor(np.array([n], np.int32)) for n in (4, 0))
    made = call(tokens, sampled, positions, lengths, slots, Tensor(np.array([[2, 7]], np.int32)))
    print(made, tokens, positions, lengths)
