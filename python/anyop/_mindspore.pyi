# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from typing import Any

# (name in mindspore, number in its enum TypeId) of each dtype that both have.
def dtypes() -> tuple[tuple[str, int, str], ...]: ...

# A capsule for `anyop.hosting.register`. needs_gradient(): whether MindSpore differentiates what
# runs now. empty(dtype, shape) and lend(dtype, shape, strides, address, owner) make tensors; a
# dtype is its number in `dtypes()`. objects: MindSpore's dtypes in that order.
# jit_globals["_jit_context"] is `trace` where calls are traced.
def record(
    tensor: type,
    address: Callable[[Any], int],
    is_contiguous: Callable[[Any], bool],
    stride: Callable[[Any], list[int]],
    needs_gradient: Callable[[], bool],
    empty: Callable[[int, tuple[int, ...]], Any],
    lend: Callable[[int, tuple[int, ...], tuple[int, ...], int, Any], Any],
    jit_globals: dict[str, Any],
    trace: Any,
    objects: tuple[Any, ...],
    /,
) -> Any: ...

# Whether calls are handed back to what was registered, though no gradient is needed.
def hand_back(on: bool, /) -> None: ...

# Whether this thread's call is one of these: then its calls are made until give_back().
def take_back() -> bool: ...
def give_back() -> None: ...
