# SPDX-License-Identifier: Apache-2.0
import torch  # noqa: F401  (its libraries come first)
import torch_npu  # noqa: F401

from custom_pypto import custom_pypto_lib  # isort: skip  (it registers what converters name)
from custom_pypto import converter

__all__ = ["converter", "custom_pypto_lib"]
