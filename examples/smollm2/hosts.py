# SPDX-License-Identifier: Apache-2.0
"""What the model needs of its host beside anyop's operators: tensors of its own kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import anyop
import ml_dtypes
import numpy as np

DTYPES = ("f32", "bf16", "q4", "q4-rows")  # q4: the blocks of the file
Function = Callable[..., Any]


class Host(Protocol):
    """dtypes are "f32", "bf16", "i8" and "f8e4m3"; `array` is a NumPy array."""

    takes_one: bool  # a weight for each product, whatever its rows' formats
    takes_bf16: bool  # arrays of ml_dtypes.bfloat16, without a cast

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...

    def tensor(self, array: Any, dtype: str | None = None) -> Any:
        """A tensor of the same numbers, cast if a dtype is given; may share the array's memory."""

    def compile(self, function: Function, backend: str) -> Function: ...


class NumpyHost:
    takes_one = False
    takes_bf16 = True
    _dtypes = {
        "f32": np.dtype(np.float32),
        "bf16": np.dtype(ml_dtypes.bfloat16),
        "i8": np.dtype(np.int8),
        "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    }

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, self._dtypes[dtype])

    def tensor(self, array: Any, dtype: str | None = None) -> Any:
        return np.asarray(array) if dtype is None else array.astype(self._dtypes[dtype])

    def compile(self, function: Function, backend: str) -> Function:
        raise ValueError("NumPy has no compiler. Try host torch.")


class TorchHost:
    takes_one = False
    takes_bf16 = False

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._dtypes = {
            "f32": torch.float32,
            "bf16": torch.bfloat16,
            "i8": torch.int8,
            "f8e4m3": torch.float8_e4m3fn,
        }

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(shape, dtype=self._dtypes[dtype])

    def tensor(self, array: Any, dtype: str | None = None) -> Any:
        if dtype is None:  # torch has no tensors that may not be written
            return self._torch.from_numpy(np.require(array, requirements="W"))
        return self._torch.tensor(array, dtype=self._dtypes[dtype])

    def compile(self, function: Function, backend: str) -> Function:
        return self._torch.compile(function, fullgraph=True, dynamic=False, backend=backend)


class JaxHost:
    """Its arrays are never written: `jax_model.py` has the steps of this host."""

    takes_one = False
    takes_bf16 = True

    def __init__(self) -> None:
        import jax.numpy

        self._numpy = jax.numpy
        self._dtypes = {
            "f32": jax.numpy.float32,
            "bf16": jax.numpy.bfloat16,
            "i8": jax.numpy.int8,
            "f8e4m3": jax.numpy.float8_e4m3fn,
        }

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._numpy.zeros(shape, self._dtypes[dtype])

    def tensor(self, array: Any, dtype: str | None = None) -> Any:
        return self._numpy.asarray(array, None if dtype is None else self._dtypes[dtype])

    def compile(self, function: Function, backend: str) -> Function:
        raise ValueError("Steps of host jax are compiled without being asked to. Try host torch.")


class MindSporeHost:
    """PyNative: tensors are written in place; `mindspore_model.py` has the steps as a graph."""

    takes_one = True
    takes_bf16 = False

    def __init__(self) -> None:
        import mindspore

        self._tensor = mindspore.Tensor

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.tensor(np.zeros(shape, np.float32), dtype)

    def tensor(self, array: Any, dtype: str | None = None) -> Any:
        made = self._tensor.from_numpy(np.array(array))
        return made if dtype is None else anyop.cast(made, dtype)

    def compile(self, function: Function, backend: str) -> Function:
        raise ValueError("A step of host mindspore is compiled by mindspore_model.py.")


HOSTS: dict[str, Callable[[], Host]] = {
    "numpy": NumpyHost,
    "torch": TorchHost,
    "jax": JaxHost,
    "mindspore": MindSporeHost,
}
