# SPDX-License-Identifier: Apache-2.0
from typing import Any


def in_rows(side: Any, a: Any) -> Any:
    return side.mul_mat(a.blocks, a.format, a.x, repacked=False)


def packed(side: Any, a: Any) -> Any:
    """In the layout that llama.cpp loads models into, where it has one for this format."""
    return side.mul_mat(a.blocks, a.format, a.x, repacked=True)
