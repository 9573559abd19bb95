# SPDX-License-Identifier: Apache-2.0
"""torch_npu on the virtual NPU: an environment in which the package from PyPI runs without CANN and
without an NPU (docs/npu.md).
"""
