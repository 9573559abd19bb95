# SPDX-License-Identifier: Apache-2.0
"""What `anyop test` leaves out: my_custom_op on MindSpore's tensors."""

import anyop
import mindspore as ms
import my_ops
import numpy as np
import pytest
from mindspore import Tensor


def program(x):
    return anyop.ops.my_ops.my_custom_op(2.0, 1.0, x)


@pytest.mark.parametrize("run", [program, ms.jit(program)])
def test_my_custom_op(run):
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    np.testing.assert_array_equal(run(Tensor(x)).asnumpy(), my_ops.my_custom_op(2.0, 1.0, x))
