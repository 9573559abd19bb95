# SPDX-License-Identifier: Apache-2.0
"""Numbers of a call that are none of Python's: NumPy's, and tensors. In PyNative, in graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import mindspore as ms
import numpy as np
import pytest
from calls import Wrapped
from mindspore import Tensor, nn

x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
X = Tensor(x)
HALF, SINGLE, DOUBLE, ROW = np.float16(0.125), np.float32(0.125), np.float64(0.125), np.array(0.125)
COUNT, SHORT, BYTE, YES = np.int64(2), np.int32(2), np.uint8(2), np.bool_(True)
TRUTH = np.array(True)
T_SCALE, T_COUNT = Tensor(0.125), Tensor(2)
MODES = ("pynative", "jit", "graph")


# MindSpore's parser takes functions with a name alone.
def half(x: Any) -> Any:
    return anyop.softmax(x, HALF)


def single(x: Any) -> Any:
    return anyop.softmax(x, SINGLE)


def double(x: Any) -> Any:
    return anyop.softmax(x, DOUBLE)


def by_keyword(x: Any) -> Any:
    return anyop.softmax(x, scale=SINGLE)


def made_here(x: Any) -> Any:
    return anyop.softmax(x, np.float32(0.125))


def computed(x: Any) -> Any:
    return anyop.softmax(x, 1 / np.sqrt(64))


def of_a_size(x: Any) -> Any:
    return anyop.softmax(x, x.shape[-1] ** -0.5)


def array(x: Any) -> Any:
    return anyop.softmax(x, ROW)


def integer_for_float(x: Any) -> Any:
    return anyop.softmax(x, COUNT)


def int_for_float(x: Any) -> Any:
    return anyop.softmax(x, 2)


def count(x: Any) -> Any:
    return anyop.top_k(x, COUNT)[0]


def short(x: Any) -> Any:
    return anyop.top_k(x, SHORT)[0]


def byte(x: Any) -> Any:
    return anyop.top_k(x, BYTE)[0]


def count_by_keyword(x: Any) -> Any:
    return anyop.top_k(x, k=COUNT)[0]


def truth(x: Any) -> Any:
    return anyop.top_k(x, 2, YES)[0]


def truth_array(x: Any) -> Any:
    return anyop.top_k(x, 2, TRUTH)[0]


def python_truth(x: Any) -> Any:
    return anyop.top_k(x, 2, True)[0]


PROGRAMS = (
    half, single, double, by_keyword, made_here, computed, of_a_size, array, integer_for_float,
    int_for_float, count, short, byte, count_by_keyword, truth, truth_array,
    python_truth,
)  # fmt: skip


class Held(nn.Cell):
    """Numbers that a Cell holds."""

    def __init__(self, scale: Any, k: Any, is_sorted: Any) -> None:
        super().__init__()
        self.scale, self.k, self.is_sorted = scale, k, is_sorted

    def construct(self, x: Any) -> Any:
        return anyop.top_k(anyop.softmax(x, self.scale), self.k, self.is_sorted)[0]


class Given(nn.Cell):
    """Numbers that a Cell is called with."""

    def construct(self, x: Any, scale: Any, k: Any) -> Any:
        return anyop.top_k(anyop.softmax(x, scale), k)[0]


def in_mode(mode: str, run: Callable[[], Any]) -> Any:
    if mode == "graph":
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        return run().asnumpy()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def run(program: Any, mode: str) -> Any:
    made = {"pynative": program, "jit": ms.jit(program), "graph": Wrapped(program)}[mode]
    return in_mode(mode, lambda: made(X))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_of_numpy_and_python_are_taken(program: Any, mode: str) -> None:
    np.testing.assert_array_equal(run(program, mode), program(x))


NUMBERS = [
    (SINGLE, COUNT, YES),
    (HALF, BYTE, False),
    (2, np.array(2), True),
]


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_numbers_of_a_cell_are_taken(numbers: Any, mode: str) -> None:
    expected = Held(*numbers).construct(x)
    np.testing.assert_array_equal(in_mode(mode, lambda: Held(*numbers)(X)), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_numbers_of_a_call_are_taken(numbers: Any, mode: str) -> None:
    cell, (scale, k, _) = Given(), numbers
    made = ms.jit(cell.construct) if mode == "jit" else cell
    expected = cell.construct(x, scale, k)
    np.testing.assert_array_equal(in_mode(mode, lambda: made(X, scale, k)), expected)


def slope(x: Any) -> Any:
    return anyop.rms_norm(x, None, SINGLE).sum()


def test_numbers_of_numpy_have_no_gradient_and_disturb_none() -> None:
    expected = ms.grad(slope)(X).asnumpy()
    assert np.abs(expected).max() > 0
    np.testing.assert_array_equal(ms.jit(ms.grad(slope))(X).asnumpy(), expected)


GRAPH = anyop.graph(
    lambda x, scale, k: anyop.softmax(x[:k], scale), "f32[n, 8]", "float", "int", name="step"
)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_numbers_of_a_compiled_graph_are_taken(numbers: Any, mode: str) -> None:
    scale, k, _ = numbers
    expected = GRAPH(x, scale, k)
    np.testing.assert_array_equal(GRAPH(X, scale, k).asnumpy(), expected)
    cell = anyop.mindspore.GraphCell(GRAPH, scale=scale, k=k)
    np.testing.assert_array_equal(in_mode(mode, lambda: cell(X)), expected)


def float_for_int(x: Any) -> Any:
    return anyop.top_k(x, SINGLE)[0]


def truth_for_float(x: Any) -> Any:
    return anyop.softmax(x, YES)


def integer_for_truth(x: Any) -> Any:
    return anyop.top_k(x, 2, COUNT)[0]


def rows(x: Any) -> Any:
    return anyop.softmax(x, np.array([0.125]))


def complex_number(x: Any) -> Any:
    return anyop.softmax(x, np.complex64(1))


WRONG = {
    float_for_int: "top_k: k is 0.125, but must be an int.",
    truth_for_float: "softmax: scale is True, but must be a number.",
    integer_for_truth: "top_k: sorted is 2, but must be True or False.",
    rows: "softmax: scale is array([0.125]), but must be a number.",
    complex_number: "softmax: scale is (1+0j), but must be a number.",
}


@pytest.mark.parametrize("mode", ["numpy", *MODES])
@pytest.mark.parametrize("program", WRONG)
def test_what_is_no_such_number_is_refused_in_the_same_words(program: Any, mode: str) -> None:
    with pytest.raises(anyop.WrongType) as caught:
        program(x) if mode == "numpy" else run(program, mode)
    assert str(caught.value).split("\n")[0] == WRONG[program]


def tensor_for_float(x: Any) -> Any:
    return anyop.softmax(x, T_SCALE)


def tensor_for_int(x: Any) -> Any:
    return anyop.top_k(x, T_COUNT)[0]


@pytest.mark.parametrize("program", [tensor_for_float, tensor_for_int])
def test_a_tensor_is_read_in_pynative_and_refused_in_graphs(program: Any) -> None:
    np.testing.assert_array_equal(run(program, "pynative"), program(x))
    start = "softmax: scale" if program is tensor_for_float else "top_k: k"
    name = start.split()[1]
    for mode in ("jit", "graph"):
        with pytest.raises(anyop.WrongType) as caught:
            run(program, mode)
        assert str(caught.value).split("\n")[0] == (
            f"{start} is a MindSpore tensor, but must be a number that is known when the graph is "
            f"compiled, because it becomes part of the node. Try a Python number: {name}.item() "
            "outside of the graph."
        )


def beyond(x: Any) -> Any:
    return anyop.top_k(x, 2**63)[0]


def below(x: Any) -> Any:
    return anyop.top_k(x, -(2**70))[0]


def beyond_for_float(x: Any) -> Any:
    return anyop.softmax(x, 2**70)


def huge(x: Any) -> Any:
    return anyop.softmax(x, 10**400)


@pytest.mark.parametrize("program", [beyond, below, beyond_for_float, huge])
def test_ints_beyond_64_bits_do_not_become_others(program: Any) -> None:
    start = "top_k: k" if program in (beyond, below) else "softmax: scale"
    if program is beyond_for_float:
        np.testing.assert_array_equal(run(program, "pynative"), program(x))
    else:
        with pytest.raises(anyop.InvalidArgument, match=f"{start} is .*, but must be a"):
            run(program, "pynative")
    for mode in ("jit", "graph"):
        with pytest.raises(anyop.InvalidArgument) as caught:
            run(program, mode)
        assert str(caught.value).split("\n")[0] == (
            f"{start} is -9223372036854775808, which MindSpore makes of every int beyond 64 bits "
            "in a graph, but must be the number that is meant. Try a float, or a smaller int."
        )
