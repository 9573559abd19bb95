# SPDX-License-Identifier: Apache-2.0
from npu_ops_api import npu_ops

__all__ = ["npu_ops"]
