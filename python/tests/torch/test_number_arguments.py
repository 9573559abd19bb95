# SPDX-License-Identifier: Apache-2.0
"""Numbers of a call that are none of Python's: NumPy's, and tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

torch = pytest.importorskip("torch")

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
SCALE, SINGLE, ROW, COUNT = np.float64(0.125), np.float32(0.125), np.array(0.125), np.int64(2)
YES = np.bool_(True)


class Scaled(torch.nn.Module):
    """A number that a module holds, as a buffer or parameter or as it is."""

    def __init__(self, scale: Any, register: str = "") -> None:
        super().__init__()
        if register == "buffer":
            self.register_buffer("scale", scale)
        else:
            self.scale = torch.nn.Parameter(scale) if register else scale

    def forward(self, x: Any) -> Any:
        return anyop.softmax(x, self.scale)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "computed": lambda x: anyop.softmax(x, 1 / np.sqrt(64)),
    "of the program": lambda x: anyop.softmax(x, SCALE),
    "by keyword": lambda x: anyop.softmax(x, scale=SCALE),
    "an array": lambda x: anyop.softmax(x, ROW),
    "of a module": Scaled(SCALE),
    "an integer": lambda x: anyop.top_k(x, COUNT).values,
    "a truth value": lambda x: anyop.top_k(x, 2, YES).values,
    "a truth value as an array": lambda x: anyop.top_k(x, 2, np.array(True)).values,
    "single": lambda x: anyop.softmax(x, SINGLE),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(
    "backend", ["eager", "anyop", pytest.param("inductor", marks=pytest.mark.slow)]
)
def test_numbers_of_numpy_compile(name: str, backend: str) -> None:
    torch._dynamo.reset()
    program = PROGRAMS[name]
    # For torch a number of 32 bits that is no float of Python's is known at the call alone.
    is_whole = name in ("computed", "of the program", "by keyword", "of a module")
    compiled = torch.compile(program, backend=backend, fullgraph=is_whole)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X))


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_of_numpy_are_captured_and_recorded(name: str) -> None:
    program = PROGRAMS[name]
    torch.testing.assert_close(anyop.torch.capture(program, X)(X), program(X))
    if name not in ("an array", "a truth value as an array"):
        torch.testing.assert_close(anyop.graph(program, X)(X), program(X))


def refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError) as error:
        call()
    assert " ".join(str(error.value).split()) == text


NO_GRADIENT = (
    "but must be a number. A number has no gradient: try detach() of it, or a number of Python."
)


def test_a_number_that_needs_a_gradient_is_refused() -> None:
    p = torch.nn.Parameter(torch.tensor(0.5))
    shown = "softmax: scale is Parameter containing: tensor(0.5000, requires_grad=True),"
    for x in (X, X.clone().requires_grad_()):
        refused(lambda x=x: anyop.softmax(x, p), f"{shown} {NO_GRADIENT}")
        refused(lambda x=x: anyop.softmax(x, scale=p), f"{shown} {NO_GRADIENT}")
    torch._dynamo.reset()
    compiled = torch.compile(Scaled(torch.tensor(0.5), "parameter"), backend="eager")
    refused(lambda: compiled(X), f"{shown} {NO_GRADIENT}")
    with pytest.raises(TypeError, match="A number has no gradient"):
        torch.func.grad(lambda s: anyop.softmax(X, s).sum())(torch.tensor(0.5))
    with pytest.raises(TypeError, match="A number has no gradient"):
        torch.func.jvp(lambda s: anyop.softmax(X, s), (torch.ones(()),), (torch.ones(()),))


def test_a_number_that_needs_none_is_read() -> None:
    p = torch.nn.Parameter(torch.tensor(0.125))
    expected = anyop.softmax(X, 0.125)
    for number in (p.detach(), torch.tensor(0.125, dtype=torch.bfloat16)):
        assert torch.equal(anyop.softmax(X, number), expected)
        x = X.clone().requires_grad_()
        assert torch.equal(anyop.softmax(x, number), expected)
        with torch.device("cpu"), torch.autocast("cpu"):
            assert torch.equal(anyop.softmax(X, number), expected)
    with torch.no_grad():
        assert torch.equal(anyop.softmax(X, p), expected)
    assert torch.equal(anyop.top_k(X, torch.tensor(2)).values, anyop.top_k(X, 2).values)
    expected = anyop.top_k(X, 2, False).values
    assert torch.equal(anyop.top_k(X, 2, torch.tensor(False)).values, expected)
    assert torch.equal(anyop.top_k(X, 2, sorted=torch.tensor(False)).values, expected)


def test_a_truth_value_is_no_number_and_a_number_none() -> None:
    yes = torch.tensor(True)
    refused(lambda: anyop.softmax(X, yes), "softmax: scale is tensor(True), but must be a number.")
    refused(lambda: anyop.top_k(X, yes), "top_k: k is tensor(True), but must be an int.")
    for other in (torch.tensor(1), torch.tensor([True])):
        text = f"top_k: sorted is {other!r}, but must be True or False."
        refused(lambda other=other: anyop.top_k(X, 2, other), text)


def test_a_program_that_is_made_keeps_no_number_of_a_tensor() -> None:
    kept = "The program that is made would keep the number of now. Try a number of Python."
    module = Scaled(torch.tensor(0.5), "buffer")
    refused(
        lambda: anyop.torch.capture(module, X),
        f"softmax: scale is tensor(0.5000), but must be a number. {kept}",
    )
    refused(
        lambda: anyop.torch.capture(lambda x, s: anyop.softmax(x, s), X, torch.tensor(0.5)),
        f"softmax: scale is FakeTensor(..., size=()), but must be a number. {kept}",
    )
    refused(
        lambda: anyop.graph(module, X),
        "softmax: scale is tensor(0.5000), but must be part of the graph, which reads no array for "
        "it. Try numbers of Python: scale.item() or .tolist().",
    )
    refused(
        lambda: anyop.graph(lambda x: anyop.softmax(x, np.array(0.5)), "f32[3, 8]"),
        "softmax: scale is array(0.5), but must be part of the graph, which reads no array for it. "
        "Try numbers of Python: scale.item() or .tolist().",
    )


def test_a_compiled_program_reads_a_number_of_a_tensor_at_each_call() -> None:
    module = Scaled(torch.tensor(0.5), "buffer")
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="anyop")
    for value in (0.5, 2.0):
        module.scale.fill_(value)
        torch.testing.assert_close(compiled(X), anyop.softmax(X, value))
