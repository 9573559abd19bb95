# SPDX-License-Identifier: Apache-2.0
import torch
import torch_npu  # noqa: F401

from custom_ops import custom_ops_lib  # noqa: F401

add_custom = torch.ops.custom_ops.add_custom
scale = torch.ops.custom_ops.scale
shift = torch.ops.custom_ops.shift
