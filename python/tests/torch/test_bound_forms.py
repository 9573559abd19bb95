# SPDX-License-Identifier: Apache-2.0
"""Tensors that a captured program holds get another form at the same address: it is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from torch import nn  # noqa: E402

X = floats(3, 6)

# What is done to a weight f32[6, 6] with room behind it, and what keeps its sizes.
FORMS: dict[str, Callable[[Any], Any]] = {
    "t_": lambda w: w.t_(),
    "data transposed": lambda w: setattr(w, "data", w.data.t()),
    "set_": lambda w: w.set_(w.untyped_storage(), w.storage_offset(), w.shape, (1, 6)),
    "as_strided_": lambda w: w.as_strided_((6, 6), (6, 1), 1),
    "fewer columns": lambda w: setattr(w, "data", w.data[:, :4]),
    "resize_": lambda w: w.resize_(4, 6),
    "unsqueeze_": lambda w: w.unsqueeze_(0),
    "another type": lambda w: setattr(w, "data", w.data.view(torch.int32)),
}


def weight() -> Any:
    return floats(50).set_(floats(50).untyped_storage(), 0, (6, 6), (6, 1))


def part() -> Any:
    """A view, of which torch's fakes know its base."""
    return floats(50)[:36].view(6, 6)


def mapped(w: Any) -> Callable[[Any], Any]:
    return lambda x: torch.softmax(x, -1).sum() * w.float() + 1


def product(w: Any) -> Callable[[Any], Any]:
    return lambda x: x @ w.float().reshape(-1, 6).mT + x.shape[0]


def through_the_host(w: Any) -> Callable[[Any], Any]:
    return lambda x: (torch.erf(w.float()) * 2, x + 1)


def through_torch(w: Any) -> Callable[[Any], Any]:
    """All of it: a tensor of numbers that no graph holds."""
    return lambda x: torch.view_as_real(torch.complex(w.float(), w.float())) * x.sum()


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", [mapped, product, through_the_host, through_torch])
def test_another_form_at_the_same_address_is_seen(make: Any, form: str, is_part: bool) -> None:
    w = part() if is_part else weight()
    freeze = is_part
    program = make(w)
    captured = anyop.torch.capture(program, X, freeze=freeze)
    torch.testing.assert_close(captured(X), program(X))
    FORMS[form](w)
    for _ in range(2):
        torch.testing.assert_close(captured(X), program(X))
    w.fill_(3)
    torch.testing.assert_close(captured(X), program(X))


@pytest.mark.parametrize("form", ["t_", "data transposed", "as_strided_"])
def test_another_form_of_a_parameter_is_seen(form: str) -> None:
    for way in ("compile", "capture"):
        layer = nn.Linear(6, 6).requires_grad_(False)
        layer.weight = nn.Parameter(weight(), requires_grad=False)
        torch._dynamo.reset()
        made = (anyop.torch.capture(layer, X) if way == "capture"
                else torch.compile(layer, backend="anyop"))  # fmt: skip
        torch.testing.assert_close(made(X), layer(X))
        FORMS[form](layer.weight)
        for _ in range(2):
            torch.testing.assert_close(made(X), layer(X))


def test_what_a_program_then_refuses_is_what_torch_refuses() -> None:
    w = weight()
    captured = anyop.torch.capture(lambda x: x @ w, X)
    w.resize_(4, 6)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            captured(X)
    w.resize_(6, 6)
    torch.testing.assert_close(captured(X), X @ w)
