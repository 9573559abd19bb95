# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def product(side: Any, a: Any) -> Any:
    return partial(side.ops.gelu_and_mul, a.y, a.x), a.y


def tanh_product(side: Any, a: Any) -> Any:
    return partial(side.ops.gelu_tanh_and_mul, a.y, a.x), a.y
