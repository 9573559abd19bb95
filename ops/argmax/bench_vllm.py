# SPDX-License-Identifier: Apache-2.0
from functools import partial
from typing import Any


def largest(side: Any, a: Any) -> Any:
    return partial(side.ops.greedy_argmax, a.x), None
