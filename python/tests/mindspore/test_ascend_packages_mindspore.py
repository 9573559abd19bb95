# SPDX-License-Identifier: Apache-2.0
"""Packages of Ascend users on MindSpore's tensors: they are written in place."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "ascend"))
from built_packages import home, installed, python  # noqa: E402

FIRST = """
import numpy as np
import mindspore as ms
import npu_ops

input = ms.Tensor(np.array([1, 2, 3], dtype=np.int32))
output = ms.Tensor(np.zeros_like(input))
npu_ops.my_custom_op(10, 20, input, output)
assert output.asnumpy().tolist() == [30, 40, 50]
assert (output + 1).asnumpy().tolist() == [31, 41, 51]
npu_ops.my_custom_op(1, 1, output[1:], output[1:])
assert output.asnumpy().tolist()[0] == 30
"""
TODAY = """
import numpy as np
import mindspore as ms
from npu_ops_api import npu_ops

x = (ms.Tensor(np.array([1, 2, 3], np.int32)) + 1) * 2  # of work that may still run
made = npu_ops.my_custom_op_new(10, 20, x)
assert isinstance(made, ms.Tensor) and made.dtype == ms.int32
assert made.asnumpy().tolist() == [60, 80, 100]
made = npu_ops.my_custom_op_new(10, 20, x.astype(ms.bfloat16))
assert made.dtype == ms.bfloat16 and made.float().asnumpy().tolist() == [60, 80, 100]
kept = ms.Parameter(ms.Tensor(np.array([1, 2, 3], np.int32)))
npu_ops.my_custom_op(2, 1, kept, kept)
assert kept.asnumpy().tolist() == [3, 5, 7]
turned = ms.Tensor(np.arange(6, dtype=np.int32).reshape(2, 3)).T
try:
    npu_ops.my_custom_op(1, 0, turned, turned)
    raise AssertionError("a tensor with gaps was taken")
except ValueError as error:
    assert str(error).startswith("A tensor of int32[3, 2] is not contiguous")
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("form, code", [("npu_ops", FIRST), ("npu_ops_api", TODAY)])
def test_a_package_on_tensors_of_mindspore(form, code, tmp_path):
    env = home(tmp_path)
    installed(form, tmp_path, env)
    python(code, env)
