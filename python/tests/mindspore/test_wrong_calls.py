# SPDX-License-Identifier: Apache-2.0
"""Wrong calls in each mode, and MindSpore opening and closing our library."""

from __future__ import annotations

import _ctypes
import ctypes
from pathlib import Path
from typing import Any

import anyop
import mindspore as ms
import numpy as np
import pytest
from anyop.hosting.facts import Operator
from anyop.mindspore import _graph, _node
from calls import Wrapped
from mindspore import Tensor

x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
X, SHORT, IDS = Tensor(x), Tensor(np.ones(3, np.float32)), Tensor(np.array([1, 99]))
HALF = Tensor(np.ones(64, np.float32)).astype(ms.bfloat16)


def shape(x: Any) -> Any:
    return anyop.rms_norm(x, SHORT)


def dtype(x: Any) -> Any:
    return anyop.rms_norm(x, HALF)


def word(x: Any) -> Any:
    return anyop.gelu(x, "tan")


def index(x: Any) -> Any:
    return anyop.embedding(IDS, x)


# By program.
TEXTS = {
    shape: "rms_norm: weight is f32[3], but must be f32[64] because x is f32[4, 64].",
    dtype: "rms_norm: weight is bf16[64], but must be f32[64] because x is f32[4, 64]. Try a "
    "cast to f32.",
    word: "gelu: kind is 'tan', but must be 'none', 'tanh' or 'quick'. Did you mean 'tanh'?",
    index: "embedding: ids[1] is 99, but must be less than 4 (v).",
}


@pytest.mark.parametrize("mode", ["pynative", "jit", "graph"])
@pytest.mark.parametrize("program", TEXTS)
def test_what_is_wrong_is_said_in_every_mode(program: Any, mode: str) -> None:
    run = {"pynative": program, "jit": ms.jit(program), "graph": Wrapped(program)}[mode]
    # MindSpore itself raises what its inference and its kernels are told.
    is_theirs = mode != "pynative" and program in (shape, index)
    if mode == "graph":
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        with pytest.raises(RuntimeError if is_theirs else anyop.InvalidArgument) as caught:
            run(X).asnumpy()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    told = str(caught.value).split("\n")[0]
    assert (told.partition("Error message is ")[2] if is_theirs else told) == TEXTS[program]
    np.testing.assert_array_equal(anyop.gelu(X).asnumpy(), anyop.gelu(x))  # all goes on


def test_arrays_of_jax_beside() -> None:
    class OfJax:  # what a graph is shown of one
        shape = (4, 64)

    OfJax.__module__ = "jaxlib._jax"
    with pytest.raises(anyop.WrongType) as caught:
        _node._refuse_others(Operator("anyop.add"), "y", OfJax())
    assert str(caught.value) == (
        "add: y is a JAX array, but the call has MindSpore tensors, and all must come from one "
        "host. Try mindspore.Tensor(numpy.asarray(y))."
    )


def before(x: Any) -> Any:
    return anyop.gelu(x) + 1


def after(x: Any) -> Any:
    return anyop.sigmoid(x) + 1


def test_the_library_stays_where_mindspore_closes_it() -> None:
    compiled = ms.jit(before)
    np.testing.assert_array_equal(compiled(X).asnumpy(), anyop.gelu(x) + 1)
    handle = ctypes.CDLL(str(_graph.LIBRARY))._handle
    for _ in range(20):  # as often as anybody opened it
        _ctypes.dlclose(handle)
    assert str(_graph.LIBRARY.resolve()) in Path("/proc/self/maps").read_text()
    np.testing.assert_array_equal(compiled(X).asnumpy(), anyop.gelu(x) + 1)
    np.testing.assert_array_equal(ms.jit(after)(X).asnumpy(), anyop.sigmoid(x) + 1)
