# SPDX-License-Identifier: Apache-2.0
"""torch_npu.utils of the stand-in."""
