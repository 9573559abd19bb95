# SPDX-License-Identifier: Apache-2.0
"""Operators of my_ops: `my_ops.scale(x)`, the same as `anyop.ops.my_ops.scale(x)`."""

from pathlib import Path
from typing import Any

import anyop

_library = anyop.load(Path(__file__).parent / "my_ops.so")


def __getattr__(name: str) -> Any:
    return getattr(_library, name)


def __dir__() -> list[str]:
    return dir(_library)
