# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's CPU kernels, through ggml's C interface and the libraries of llama-cpp-python."""

from __future__ import annotations

import ctypes
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = "llama-cpp-python"
LIBRARIES = ("libggml-base", "libggml-cpu", "libggml")
# enum ggml_type
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}
TYPES |= {"q4_K": 12, "q5_K": 13, "q6_K": 14}
CONTEXT_BYTES = 1 << 20  # of descriptions; data is elsewhere
P, SIZE = ctypes.c_void_p, ctypes.c_size_t


class InitParams(ctypes.Structure):
    """The library's ggml_init_params."""

    _fields_ = [("mem_size", SIZE), ("mem_buffer", P), ("no_alloc", ctypes.c_bool)]


# name, result, arguments
FUNCTIONS: list[tuple[str, Any, list[Any]]] = [
    ("ggml_init", P, [InitParams]),
    ("ggml_new_tensor_2d", P, [P, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]),
    ("ggml_mul_mat", P, [P, P, P]),
    ("ggml_new_graph", P, [P]),
    ("ggml_build_forward_expand", None, [P, P]),
    ("ggml_nbytes", SIZE, [P]),
    ("ggml_get_data", P, [P]),
    ("ggml_backend_cpu_init", P, []),
    ("ggml_backend_cpu_reg", P, []),
    ("ggml_backend_cpu_set_n_threads", None, [P, ctypes.c_int]),
    ("ggml_backend_cpu_buffer_type", P, []),
    ("ggml_backend_reg_dev_get", P, [P, SIZE]),
    ("ggml_backend_reg_get_proc_address", P, [P, ctypes.c_char_p]),
    ("ggml_backend_dev_supports_op", ctypes.c_bool, [P, P]),
    ("ggml_backend_alloc_ctx_tensors_from_buft", P, [P, P]),
    ("ggml_backend_tensor_set", None, [P, P, SIZE, SIZE]),
    ("ggml_backend_graph_compute", ctypes.c_int, [P, P]),
]


class Side:
    """mul_mat: a product of x with a weight in one of ggml's formats."""

    def __init__(self) -> None:
        self._c = self._functions()
        self._backend = self._c["ggml_backend_cpu_init"]()
        self._device = self._c["ggml_backend_reg_dev_get"](self._c["ggml_backend_cpu_reg"](), 0)

    def about(self) -> dict[str, str]:
        return {PACKAGE: importlib.metadata.version(PACKAGE)}

    def set_threads(self, count: int) -> None:
        self._c["ggml_backend_cpu_set_n_threads"](self._backend, count)

    def array(self, stored: np.ndarray, dtype: str) -> np.ndarray:
        """bf16 as f32: what ggml's activations are."""
        if dtype == "bf16":
            widened: np.ndarray = (stored.astype(np.uint32) << 16).view(np.float32)
            return widened
        return np.array(stored)

    def to_numpy(self, value: Any) -> np.ndarray:
        return np.asarray(value, np.float64)

    def mul_mat(
        self, weight: np.ndarray, kind: str, x: np.ndarray, repacked: bool
    ) -> tuple[Callable[[], None], np.ndarray]:
        """weight: [n, k], or rows of blocks. x: f32[m, k]. repacked: the weight goes to the layout
        that llama.cpp loads models into, where it has one. Returns a call and what it fills."""
        c, (m, k), n = self._c, x.shape, len(weight)
        places = [c["ggml_backend_cpu_buffer_type"]()]
        places = [*(self._extra_places() if repacked else []), *places]
        for place in places:  # plain memory comes last, in which every weight can be
            weights, rest = self._context(), self._context()
            w = c["ggml_new_tensor_2d"](weights, TYPES[kind], k, n)
            c["ggml_backend_alloc_ctx_tensors_from_buft"](weights, place)
            activations = c["ggml_new_tensor_2d"](rest, TYPES["f32"], k, m)
            y = c["ggml_mul_mat"](rest, w, activations)
            if c["ggml_backend_dev_supports_op"](self._device, y):
                break
        graph = c["ggml_new_graph"](rest)
        c["ggml_build_forward_expand"](graph, y)
        c["ggml_backend_alloc_ctx_tensors_from_buft"](rest, places[-1])
        self._set(w, as_stored(weight, kind))
        self._set(activations, np.ascontiguousarray(x, np.float32))
        floats = ctypes.cast(c["ggml_get_data"](y), ctypes.POINTER(ctypes.c_float))
        compute, backend = c["ggml_backend_graph_compute"], self._backend
        return lambda: compute(backend, graph), np.ctypeslib.as_array(floats, (m, n))

    def _set(self, tensor: Any, values: np.ndarray) -> None:
        size = self._c["ggml_nbytes"](tensor)
        if size != values.nbytes:
            raise ValueError(f"ggml wants {size} bytes, but there are {values.nbytes}")
        self._c["ggml_backend_tensor_set"](tensor, values.ctypes.data, 0, size)

    def _context(self) -> Any:
        return self._c["ggml_init"](InitParams(CONTEXT_BYTES, None, True))

    def _extra_places(self) -> list[int]:
        """Kinds of buffers whose weights are stored for a kernel."""
        name = b"ggml_backend_dev_get_extra_bufts"
        address = self._c["ggml_backend_reg_get_proc_address"](
            self._c["ggml_backend_cpu_reg"](), name
        )
        if not address:
            return []
        listed = ctypes.CFUNCTYPE(ctypes.POINTER(P), P)(address)(self._device)
        found: list[int] = []
        while listed and (place := listed[len(found)]):
            found.append(place)
        return found

    @staticmethod
    def _functions() -> dict[str, Any]:
        files = importlib.metadata.files(PACKAGE) or []
        paths = {f.name: Path(str(f.locate())) for f in files}
        libraries = [
            ctypes.CDLL(str(paths[f"{name}.so"]), ctypes.RTLD_GLOBAL) for name in LIBRARIES
        ]
        found = {}
        for name, result, arguments in FUNCTIONS:
            function = next(getattr(x, name) for x in libraries if hasattr(x, name))
            function.restype, function.argtypes = result, arguments
            found[name] = function
        return found


def as_stored(weight: np.ndarray, kind: str) -> np.ndarray:
    """The bytes that the library keeps for a weight: bf16 without the lower half of f32."""
    if kind == "bf16":
        return np.ascontiguousarray((weight.view(np.uint32) >> 16).astype(np.uint16))
    return np.ascontiguousarray(weight)
