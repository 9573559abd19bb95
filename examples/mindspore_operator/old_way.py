# SPDX-License-Identifier: Apache-2.0
"""my_custom_op by mindspore.ops.Custom, for comparison: python old_way.py old_way.so"""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops


def custom(bprop=None):
    def same(param1, param2, input):
        return input

    library = Path(sys.argv[1]).resolve()
    return ops.Custom(f"{library}:MyCustomOp", same, same, "aot", bprop=bprop)


backward = custom()


def gradient(param1, param2, input, output, doutput):
    return 0.0, 0.0, backward(param1, 0.0, doutput)


my_custom_op = custom(gradient)


def program(x):
    return my_custom_op(2.0, 1.0, x)


x = Tensor(np.array([1, 2, 3], np.float32))
print(program(x))
print(ms.jit(program)(x))
print(ms.grad(program)(x))
