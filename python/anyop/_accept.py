# SPDX-License-Identifier: Apache-2.0
"""What a defined function returns: compared with what its signature promises, then copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anyop import _anyop

Function = Callable[..., Any]


def name_of(function: Any) -> str:
    """The name of a function for messages. A str is the name itself, of a part of a graph."""
    if isinstance(function, str):
        return function.removesuffix("()")
    return getattr(function, "__name__", type(function).__name__)


class Acceptor:
    """Takes the results of one operator's function. Its errors are the operator's."""

    def __init__(self, op: str, names: Sequence[str]) -> None:
        self._op, self._names = op, names

    def __call__(self, function: Any, host: str, returned: Any, results: tuple[Any, ...]) -> None:
        """results: the caller's memory, as tensors of the host; None for one that was declined."""
        copy = _COPIES.get(host, _copy_other)
        for name, value, result in zip(
            self._names, self._spread(function, returned, len(results)), results, strict=True
        ):
            if result is None or value is result:  # declined, or written by way of `out`
                continue
            wrong = copy(value, result)
            if wrong:
                raise _anyop.InvalidArgument(
                    f"{self._op}: {name_of(function)}() returned {wrong[0]} for {name}, but the "
                    f"signature promises {_show(result)}.{wrong[1]}"
                )

    def _spread(self, function: Any, returned: Any, n: int) -> Sequence[Any]:
        if n == 1:
            return (returned,)
        if n == 0 and returned is None:
            return ()
        if isinstance(returned, (tuple, list)) and len(returned) == n:
            return returned
        many = isinstance(returned, (tuple, list))
        shown = f"{len(returned)} values" if many else _show(returned)
        wanted = f"a tuple of {n} ({', '.join(self._names)})" if n else "None, as it has no result"
        raise _anyop.InvalidArgument(
            f"{self._op}: {name_of(function)}() returned {shown}, but must return {wanted}."
        )


def _show(value: Any) -> str:
    """`f32[2, 3]` of an array or tensor, else the name of the value's type."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return "None" if value is None else f"a {type(value).__name__}"
    return f"{_anyop.dtype_name(value.dtype)}{list(value.shape)}"


def _foreign(value: Any, advice: str) -> tuple[str, str]:
    return (f"a {type(value).__name__}", advice) if hasattr(value, "dtype") else (_show(value), "")


def _copy_array(value: Any, result: Any) -> tuple[str, str] | None:
    """Copies value into result. Where it does not fit: what value is, and what to try."""
    if not isinstance(value, (np.ndarray, np.generic)):
        return _foreign(value, " Try a NumPy array.")
    # By name: several packages have a bfloat16, each a dtype of its own. The view below makes one
    # of the other, whose bits mean the same.
    is_same = _anyop.dtype_name(value.dtype) == _anyop.dtype_name(result.dtype)
    if not is_same or value.shape != result.shape:
        return _show(value), "" if is_same else f" Try .astype({result.dtype})."
    result[...] = value.view(result.dtype)
    return None


def _copy_tensor(value: Any, result: Any) -> tuple[str, str] | None:
    if not isinstance(value, type(result)):
        return _foreign(value, " Try a torch tensor.")
    if value.dtype != result.dtype or value.shape != result.shape:
        cast = f" Try .to({result.dtype})." if value.dtype != result.dtype else ""
        return _show(value), cast
    if value.device != result.device:
        return f"{_show(value)} on {value.device}", " Try .cpu()."
    # Without detach() copy_ would make the caller's result part of the function's autograd graph.
    result.copy_(value.detach() if value.requires_grad else value)
    return None


def _copy_other(value: Any, result: Any) -> tuple[str, str] | None:
    return None if _anyop.copy_tensor(value, result) else (_show(value), "")


_COPIES = {"numpy": _copy_array, "torch": _copy_tensor}
