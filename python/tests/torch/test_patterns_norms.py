# SPDX-License-Identifier: Apache-2.0
"""Norms, activations, products with 1 and writes to new tensors are replaced by what is equal."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from backend_cases import B16, H, floats  # noqa: E402
from decoders import gelu_new  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called  # noqa: E402


def norm(x: Any, weight: Any = None, eps: Any = 1e-5, **mean: Any) -> Any:
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True, **mean) + eps)
    return wide.to(x.dtype) if weight is None else weight * wide.to(x.dtype)


def wide_norm(x: Any, weight: Any) -> Any:
    """As Gemma writes it."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * (1.0 + weight.float())).type_as(x)


def layer_norm(x: Any, weight: Any) -> Any:
    """As Cohere writes it."""
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    wide = (wide - mean) * torch.rsqrt((wide - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
    return (weight.float() * wide).to(x.dtype)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", [torch.float32, B16])
def test_layer_norms(dtype: torch.dtype, how: str) -> None:
    close = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    args = floats(3, 8).to(dtype), floats(8).to(dtype)
    function = assert_as_torch(how, layer_norm, args, **close)
    assert "anyop.layer_norm" in called(how, function)


def test_a_norm_of_x_less_something_else() -> None:
    def program(x: Any, y: Any) -> Any:
        return (x - y) * torch.rsqrt((x - y).pow(2).mean(-1, keepdim=True) + 1e-5)

    assert_as_torch("capture", program, (floats(3, 8), floats(3, 1)))


X, COLUMN = floats(4, 8), floats(4, 1)
NORMS: dict[str, tuple[Any, tuple[Any, ...], bool]] = {
    "plain": (norm, (X, floats(8)), True),
    "of 16 bits": (norm, (X.to(B16), floats(8).to(B16)), True),
    "of one plus": (wide_norm, (X.to(B16), floats(8).to(B16)), True),
    "of one plus, f32": (wide_norm, (X, floats(8)), True),
    "no weight": (norm, (X,), True),
    "a weight of one": (norm, (X, floats(1)), True),
    "a weight of one, wide": (wide_norm, (X, floats(1)), True),
    "a weight of rows": (norm, (X, floats(4, 8)), True),
    "a weight of columns": (norm, (X, floats(4, 1)), True),
    "more rows by the weight": (norm, (floats(1, 8), floats(3, 8)), True),
    "one channel": (norm, (COLUMN, floats(1)), True),
    "one channel, no weight": (norm, (COLUMN,), True),
    "one channel, more of weight": (norm, (COLUMN, floats(5)), True),
    "a mean in f64": (lambda x: norm(x, dtype=torch.float64), (X,), True),
    "a mean in f64, weighted": (lambda x, w: norm(x, w, dtype=torch.float64), (X, floats(8)), True),
    "a weight of another type": (norm, (X.to(B16), floats(8)), True),
    "a weight of another type, narrow": (norm, (X, floats(8).to(B16)), True),
    "eps 0": (lambda x: norm(x, eps=0.0), (X,), True),
    "eps whole": (lambda x: norm(x, eps=1), (X,), True),
    "eps negative": (lambda x: norm(x, eps=-1e-9), (X,), False),
    "f16": (norm, (X.to(H), floats(8).to(H)), True),
    "no dimension": (norm, (floats(1)[0],), False),
    "no rows": (norm, (torch.zeros(0, 8), floats(8)), True),
    "no channels": (norm, (torch.zeros(3, 0), torch.zeros(0)), False),
    "transposed": (lambda x, w: norm(x.t(), w), (X, floats(4)), True),
    "zeros": (norm, (torch.zeros(4, 8), floats(8)), True),
    "alpha": (lambda x: x * torch.rsqrt(torch.add(x.pow(2).mean(-1, True), 0.1, alpha=3)), (X,),
              False),
}  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, how: str) -> None:
    program, args, is_ours = NORMS[name]
    close = {} if args[0].dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    function = assert_as_torch(how, program, args, **close)
    if how == "capture":
        assert ("anyop.rms_norm" in called(how, function)) == is_ours


ALIASES: dict[str, Any] = {
    "both are returned": lambda x: (lambda y: (y, y * 1.0))(x.cos()),
    "two products": lambda x: (lambda y: (y * 1.0, y * 1.0))(x.cos()),
    "a view is returned": lambda x: (lambda y: (y[0], (y * 1.0).view(-1)))(x.cos()),
    "of an argument": lambda x: x * 1.0,
    "of a view": lambda x: (x.cos().t() * 1.0, x.cos() * 1),
    "of whole numbers": lambda x: (x > 0).long() * 1.0,
    "of truth": lambda x: (x > 0) * 1,
    "chained": lambda x: (lambda y: (y, y * 1.0 * 1.0))(x.cos()),
    "in place, then read": lambda x: (lambda y: (y * 1.0, y.add_(1.0)))(x.cos()),
    "read, then in place": lambda x: (lambda y: (y, (y * 1.0).add_(1.0)))(x.cos()),
    "negative zero": lambda x: (x.cos() * 0.0 * -1.0) * 1.0,
}  # fmt: skip


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ALIASES)
def test_products_with_one_have_memory_of_their_own(name: str, how: str) -> None:
    assert_as_torch(how, ALIASES[name], (X,))


@pytest.mark.parametrize("how", HOWS)
def test_a_product_with_one_that_is_written_later(how: str) -> None:
    from pattern_cases import made

    def program(x: Any) -> Any:
        y = x.cos()
        return y, y * 1.0

    first, second = made(how, program, (X,))(X)
    first.add_(1.0)
    torch.testing.assert_close(second, X.cos())


WRITES: dict[str, Any] = {
    "add_": lambda x: x.cos().add_(1.0),
    "of another type": lambda x: x.half().cos().add_(x),
    "of whole numbers": lambda x: x.long().abs().add_(1),
    "clamp_": lambda x: x.cos().clamp_(min=0.0),
    "fill_": lambda x: x.cos().fill_(2.0),
    "masked_fill_": lambda x: x.cos().masked_fill_(x > 0, 3.0),
    "of itself": lambda x: (lambda y: y.mul_(y))(x.cos()),
    "of a transpose": lambda x: x.t().cos().add_(1.0),
    "transpose_": lambda x: x.cos().transpose_(0, 1),
    "squeeze_": lambda x: x[:, None].cos().squeeze_(1),
    "chained": lambda x: x.cos().add_(1.0).mul_(2.0).sub_(x),
    "kept": lambda x: (lambda y: (y.add_(1.0), y))(x.cos()),
    "a row": lambda x: (lambda y: (y[0].add_(1.0), y))(x.cos()),
    "comparison": lambda x: x.cos().gt_(0.5),
    "zero_": lambda x: x.cos().zero_(),
    "tril_": lambda x: x.cos().tril_(),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_what_was_made_for_them(name: str, how: str) -> None:
    assert_as_torch(how, WRITES[name], (X,))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("dtype", [torch.float32, B16, H])
def test_gelu(dtype: torch.dtype, how: str) -> None:
    close = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    x = torch.cat([floats(40), torch.linspace(-12, 12, 41), torch.tensor([0.0, 1e4, -1e4])])
    function = assert_as_torch(how, gelu_new, (x.to(dtype),), **close)
    assert "anyop.gelu" in called(how, function) or how == "dynamic"


@pytest.mark.parametrize("factor", [0.7978, 0.8])
def test_what_is_nearly_gelu(factor: float) -> None:
    def program(x: Any) -> Any:
        return 0.5 * x * (1.0 + torch.tanh(factor * (x + 0.044715 * torch.pow(x, 3.0))))

    function = assert_as_torch("capture", program, (floats(64),), rtol=1e-6, atol=1e-7)
    assert "anyop.gelu" not in called("capture", function)


@pytest.mark.parametrize("how", HOWS)
def test_a_norm_that_is_computed_in_f64_stays_so(how: str) -> None:
    def program(x: Any) -> Any:
        wide = x.to(torch.float64)
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 0.1)).to(x.dtype) * 2

    x = floats(40, 5)
    function = assert_as_torch(how, program, (x,))
    assert "anyop.rms_norm" not in called(how, function)
    assert torch.equal(function(x), program(x))
