# SPDX-License-Identifier: Apache-2.0
"""Operators of my_ops: `my_ops.scale(x)`, the same as `anyop.ops.my_ops.scale(x)`."""

import anyop

_library = anyop.load_package(__name__, __path__)
_operators = dict(_library.items())
globals().update(_operators)
__all__ = list(_operators)


def __dir__() -> list[str]:
    return __all__
