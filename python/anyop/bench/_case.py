# SPDX-License-Identifier: Apache-2.0
"""One operator at one size, for every contender."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from anyop.bench.torch_side import TorchSide

F32, F16, BF16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
DTYPES = {"f32": F32, "f16": F16, "bf16": BF16}
RATES = {"f32": "f32 fma", "bf16": "bf16 dot"}  # what multiplies a dtype: Case.rate
LINE_BYTES = 64
Call = Callable[[], Any]
GOALS = (
    "movement", "small operator", "many rows", "many rows, int8", "one row", "one row of blocks",
    "decode attention", "experts",
)  # fmt: skip


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins with a cache line, as torch's tensors do. NumPy's own begin at multiples
    of 16: accesses that cross lines take up to a quarter longer, in one run more than in another.
    """
    memory = np.empty(array.nbytes + LINE_BYTES, np.uint8)
    first = -memory.ctypes.data % LINE_BYTES
    copy = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


@dataclass
class Case:
    """A contender is a function that gets copies of the arrays, prepares what a user prepares once
    (packed weights, a graph), and returns the call that is timed.

    sizes      as people read it: "bf16[512, 576]"
    arrays     what the call reads and writes, by name; lists and tuples of arrays too
    ours       ours(a) -> functools.partial of an operator, so that it can be timed from C++ too
    numpy      numpy(a) -> a call, on floats as f32 (NumPy computes in nothing smaller), or None
    torch      torch(t, a) -> a call by `t.call` or `t.gradient` (see TorchSide), or None
    goal       the project's goal that this size is measured by (see GOALS), "": none
    others     opponent in another interpreter -> function of bench_OPPONENT.py in `folder`
    others_tolerance   of their results, where they round otherwise; tolerance's if None
    moved      bytes that are read and written at least once
    flops      operations of the formula
    rate       what computes them: "f32 fma", "bf16 dot" or "int8 dot"
    tolerance  of another contender's result, relative to the largest element
    result     result(a) -> what is compared, where the call returns nothing
    widen      False: NumPy gets the arrays as they are
    note       what a reader must know of the row
    """

    sizes: str
    arrays: Mapping[str, Any]
    ours: Callable[[SimpleNamespace], partial[Any]]
    numpy: Callable[[SimpleNamespace], Call] | None = None
    torch: Callable[[TorchSide, SimpleNamespace], Call] | None = None
    moved: int = 0
    flops: int = 0
    rate: str = "f32 fma"
    tolerance: float = 1e-2
    result: Callable[[SimpleNamespace], Any] | None = None
    widen: bool = True
    note: str = ""
    goal: str = ""
    others: Mapping[str, str] = field(default_factory=dict)
    others_tolerance: float | None = None
    folder: Path = Path()

    def __post_init__(self) -> None:
        if self.goal and self.goal not in GOALS:
            raise ValueError(f"{self.sizes}: no goal is '{self.goal}', but {', '.join(GOALS)}")

    @property
    def array_bytes(self) -> int:
        return sum(a.nbytes for a in _leaves(list(self.arrays.values())))

    def copies(self, convert: Callable[[np.ndarray], Any] = aligned) -> SimpleNamespace:
        """Arrays of a contender's own."""
        return SimpleNamespace(**{k: _map(v, convert) for k, v in self.arrays.items()})


def widened(array: np.ndarray) -> np.ndarray:
    """The same, of small floats as f32."""
    return aligned(array.astype(F32) if array.dtype in (BF16, F16) else array)


def normal(
    shape: Sequence[int], dtype: np.dtype = F32, seed: int = 0, scale: float = 1.0
) -> np.ndarray:
    """Standard normal numbers times `scale`."""
    values = np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
    converted: np.ndarray = values.astype(dtype)
    return converted


def each_dtype(*names: str) -> Iterator[tuple[str, np.dtype]]:
    """(name, dtype) of f32 and bf16, or of the names."""
    for name in names or ("f32", "bf16"):
        yield name, DTYPES[name]


def _map(value: Any, convert: Callable[[np.ndarray], Any]) -> Any:
    if isinstance(value, np.ndarray):
        return convert(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map(v, convert) for v in value)
    return value


def _leaves(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _leaves(v)
