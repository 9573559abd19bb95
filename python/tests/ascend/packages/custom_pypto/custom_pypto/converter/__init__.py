# SPDX-License-Identifier: Apache-2.0
from custom_pypto.converter import add_custom

__all__ = ["add_custom"]
