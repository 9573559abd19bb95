# SPDX-License-Identifier: Apache-2.0
from typing import Any


def product(side: Any, a: Any) -> Any:
    return side.mul_mat(a.weight, a.format, a.x, repacked=True)
