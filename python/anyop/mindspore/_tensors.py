# SPDX-License-Identifier: Apache-2.0
"""MindSpore's tensors as arguments of every operator: the Python half of bindings/mindspore."""

from __future__ import annotations

import ctypes
from typing import Any

import mindspore
import numpy as np
from mindspore._c_expression import TensorPy
from mindspore.common import np_dtype
from mindspore.graph import jit_context, jit_trace
from mindspore.graph.api import _pynative_executor

from anyop import _anyop, _mindspore, hosting
from anyop.hosting.facts import Operator
from anyop.mindspore import _timeline
from anyop.mindspore._gradient import with_gradient

_NAMES = tuple(name for name, _, _ in _mindspore.dtypes())
OBJECTS = tuple(getattr(mindspore, "bool_" if name == "bool" else name) for name in _NAMES)
_SHORT = tuple(short for _, _, short in _mindspore.dtypes())
NAMES: dict[Any, str] = dict(zip(OBJECTS, _SHORT, strict=True))  # {mindspore.float32: "f32", ...}
OBJECTS_BY_NAME: dict[str, Any] = dict(zip(_SHORT, OBJECTS, strict=True))


# NumPy's dtypes as MindSpore takes them. Its bfloat16 is its own, and is missing beside a NumPy
# that it was not built for: then an array of uint16 is taken, and viewed as bfloat16.
_BFLOAT16 = _NAMES.index("bfloat16")
_OWN = getattr(np_dtype, "bfloat16", np.uint16)
_ARRAYS = tuple(np.dtype(_OWN if name == "bfloat16" else name) for name in _NAMES)


# TensorPy.from_numpy shares the array's memory, which mindspore.Tensor(array) copies.
def _from_array(dtype: int, array: np.ndarray[Any, Any]) -> Any:
    made = TensorPy.from_numpy(array)
    return made.view(mindspore.bfloat16) if dtype == _BFLOAT16 and _OWN is np.uint16 else made


def of_array(array: np.ndarray[Any, Any]) -> Any:
    """A tensor over the memory of a contiguous array, of any dtype that both have."""
    dtype = _NAMES.index(array.dtype.name)
    return _from_array(dtype, array.view(_ARRAYS[dtype]))


def _empty(dtype: int, shape: tuple[int, ...]) -> Any:
    return _from_array(dtype, np.empty(shape, _ARRAYS[dtype]))


def _lend(
    dtype: int, shape: tuple[int, ...], strides: tuple[int, ...], address: int, owner: Any
) -> Any:
    """A tensor over memory that `owner` keeps. MindSpore makes no tensor with gaps of an array, so
    that such memory is copied.
    """
    item = _ARRAYS[dtype].itemsize
    last = sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    n_bytes = 0 if 0 in shape else (last + 1) * item
    memory = (ctypes.c_char * n_bytes).from_address(address)
    memory.owner = owner  # type: ignore[attr-defined]
    flat: np.ndarray[Any, Any] = np.frombuffer(memory, np.uint8)  # type: ignore[call-overload]
    array: np.ndarray[Any, Any] = np.ndarray(
        shape, _ARRAYS[dtype], flat, strides=tuple(step * item for step in strides)
    )
    return _from_array(dtype, np.ascontiguousarray(array).reshape(shape))


def _elsewhere(op: Operator, args: tuple[Any, ...], out: Any) -> Any:
    """A call that anyop hands back to the framework: one with a gradient, or any while the profiler
    records. Within the span calls are not handed back, as this one would come here again.
    """
    if not _mindspore.take_back():
        return with_gradient(op, args, out)
    try:
        return _timeline.call(op, args, out)
    finally:
        _mindspore.give_back()


def start() -> None:
    """Registers the host, once for each process."""
    record = _mindspore.record(
        mindspore.Tensor,
        TensorPy._data_ptr,
        TensorPy.is_contiguous,
        TensorPy.stride,
        _pynative_executor._executor.requires_grad,
        _empty,
        _lend,
        vars(jit_context),
        getattr(jit_trace, "_trace_jit_context", object()),
        OBJECTS,
    )
    if "mindspore" not in _anyop.hosts():
        hosting.register(record, _elsewhere)
        _timeline.follow()
