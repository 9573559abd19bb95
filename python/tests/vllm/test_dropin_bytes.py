# SPDX-License-Identifier: Apache-2.0
"""Dense layers whose inputs and weights are bytes (W8A8) under vLLM's names."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import anyop  # noqa: E402
from anyop.vllm import _dropin  # noqa: E402

_dropin.load("0.32.0")
C = torch.ops._C
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 4e-3, torch.float16: 5e-4}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)


def close(got: torch.Tensor, expected: torch.Tensor) -> None:
    tolerance = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance * 20)


def refused(text: str, call: object, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


class Layer:
    """A weight of bytes, its scales and its handle."""

    def __init__(self, outputs: int, inputs: int, n_scales: int, use_azp: bool = True) -> None:
        self.weight = draw(outputs, inputs, seed=1)
        self.scale = torch.rand(n_scales, 1) / 1000 + 0.001
        made = C.create_onednn_scaled_mm_handler(
            self.weight.t(), self.scale, torch.float32, True, use_azp, 32
        )
        self.handle = torch.tensor(made)

    def product(
        self, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None
    ) -> torch.Tensor:
        steps = x.double() - (0 if zero is None else zero.double())
        return steps @ self.weight.double().t() * self.scale.double().flatten() * scale.double()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", ["rows", "one", "number"])
@pytest.mark.parametrize("has_zero", [False, True])
@pytest.mark.parametrize("n_scales", [1, 40])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_product(rows: int, n_scales: int, has_zero: bool, form: str, dtype: torch.dtype) -> None:
    layer, x = Layer(40, 67, n_scales, has_zero), draw(rows, 67)
    shape = {"rows": (rows, 1), "one": (1,), "number": ()}[form]
    scale = torch.rand(shape) / 10 + 0.05
    zero = torch.randint(-128, 128, shape, dtype=torch.int32) if has_zero else None
    bias, c = torch.randn(40).to(dtype), torch.empty(rows, 40, dtype=dtype)
    # What a kernel of vLLM's subtracts for zero points, which ours does not read.
    wrong = torch.full((1, 40), float("nan")) if has_zero else None
    with anyop.strict():
        C.onednn_scaled_mm(c, x, scale, zero, wrong, bias, layer.handle)
    close(c, layer.product(x, scale, zero) + bias.double())


def test_a_large_zero_point_costs_no_digits() -> None:
    """In f32 the product and its part of the zero point are rounded before they cancel."""
    layer = Layer(8, 4096, 8)
    x = torch.full((3, 4096), 100, dtype=torch.int8)
    x[:, ::2] = 101
    scale, zero = torch.full((3, 1), 0.5), torch.full((3, 1), 100, dtype=torch.int32)
    c = torch.empty(3, 8)
    C.onednn_scaled_mm(c, x, scale, zero, None, None, layer.handle)
    torch.testing.assert_close(c.double(), layer.product(x, scale, zero), rtol=1e-6, atol=0)


def test_weights_and_scales_are_copied() -> None:
    weight, scale = draw(16, 32), torch.full((1,), 2.0)
    handle = torch.tensor(
        C.create_onednn_scaled_mm_handler(weight.t(), scale, torch.float32, False, False, 32)
    )
    scale.fill_(float("nan"))
    expected = 2 * weight.double().sum(1)
    weight.zero_()
    c = torch.empty(1, 16)
    C.onednn_scaled_mm(
        c, torch.ones(1, 32, dtype=torch.int8), torch.ones(1), None, None, None, handle
    )
    assert torch.equal(c[0].double(), expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("zero", [None, -7, 127])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_static_quantization(shape: tuple[int, ...], zero: int | None, dtype: torch.dtype) -> None:
    x = (torch.randn(5, 130) * 4).to(dtype)[:, :65]
    out, scale = torch.empty(5, 65, dtype=torch.int8), torch.full(shape, 0.03)
    azp = None if zero is None else torch.full(shape, zero, dtype=torch.int32)
    with anyop.strict():
        C.static_scaled_int8_quant(out, x, scale, azp)
    steps = (x.float() * (1 / scale)).round() + (zero or 0)
    assert torch.equal(out, steps.clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("has_zero", [False, True])
def test_dynamic_quantization(has_zero: bool, dtype: torch.dtype) -> None:
    """Rows of zeros and of one value, too."""
    x = (torch.randn(6, 130) * 4 + 1).to(dtype)[:, :65]
    x[1], x[2], x[3] = 0, 2.5, -2.5
    out, scale = torch.empty(6, 65, dtype=torch.int8), torch.full((6, 1), float("nan"))
    azp = torch.full((6, 1), 1 << 30, dtype=torch.int32) if has_zero else None
    with anyop.strict():
        C.dynamic_scaled_int8_quant(out, x, scale, azp)
    zero = 0 if azp is None else azp
    back = (out.double() - zero) * scale.double()
    assert bool((back - x.double()).abs().le(0.5001 * scale.double()).all())
    exact = slice(1, 4)
    torch.testing.assert_close(back[exact], x[exact].double(), rtol=1e-6, atol=0)
    assert bool((scale > 0).all())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 20)])
def test_a_layer_that_quantizes(
    shape: tuple[int, ...], is_packed: bool, dtype: torch.dtype
) -> None:
    weight, scale = draw(40, 67), torch.rand(40, 1) / 1000
    x, bias = torch.randn(*shape, 67).to(dtype), torch.randn(40)
    packed = C.convert_weight_packed(weight) if is_packed else weight
    assert packed.size(0) == 40, "what vLLM takes for the number of outputs"
    y = C.int8_scaled_mm_with_quant(x, packed, scale, bias, dtype, is_packed)
    q, x_scale, _ = torch.ops.anyop.quantize_int8_dynamic(x)
    product = q.double() @ weight.double().t() * scale.double().flatten() * x_scale.double()
    assert y.dtype == dtype
    close(y, product + bias.double())


def test_handles_of_floats_and_of_bytes_are_told_apart() -> None:
    floats, layer = (
        torch.tensor(C.create_onednn_mm_handler(torch.randn(67, 40), 32)),
        Layer(40, 67, 1),
    )
    x, c = draw(2, 67), torch.empty(2, 40)
    one = torch.ones(1)

    def multiply(handle: torch.Tensor) -> object:
        return lambda: C.onednn_scaled_mm(c, x, one, None, None, None, handle)

    refused(
        f"_C.onednn_scaled_mm: the handle is {floats}, but that is a matrix of "
        "create_onednn_mm_handler. Try one of create_onednn_scaled_mm_handler.",
        multiply(floats),
    )
    refused(
        f"_C.onednn_mm: the handle is {layer.handle}, but that is a matrix of "
        "create_onednn_scaled_mm_handler. Try one of create_onednn_mm_handler.",
        lambda: C.onednn_mm(c, torch.randn(2, 67), None, layer.handle),
    )
    C.release_dnnl_matmul_handler(layer.handle.item())
    refused(
        f"_C.onednn_scaled_mm: the handle is {layer.handle}, but that one was released. Try one "
        "of create_onednn_scaled_mm_handler that is still held.",
        multiply(layer.handle),
    )
    C.release_dnnl_matmul_handler(floats.item())


def test_what_a_matrix_cannot_be() -> None:
    def create(weight: torch.Tensor, scale: torch.Tensor, use_azp: bool = False) -> object:
        return lambda: C.create_onednn_scaled_mm_handler(
            weight.t(), scale, torch.float32, True, use_azp, 32
        )

    name = "_C.create_onednn_scaled_mm_handler: "
    refused(f"{name}b is Float, but must be Char.", create(torch.randn(4, 8), torch.ones(4)))
    refused(
        f"{name}b_scales has 3 numbers of Float, but must have one of Float, or 4: one for each "
        "feature.",
        create(draw(4, 8), torch.ones(3)),
    )
    refused(
        f"{name}b has 65536 inputs, but must have at most 65535 where inputs have zero points.",
        create(draw(1, 65536), torch.ones(1), True),
        NotImplementedError,
    )
    refused(
        f"{name}b has 131072 inputs, but must have at most 131071.",
        create(draw(1, 131072), torch.ones(1)),
        NotImplementedError,
    )


def test_numbers_for_another_number_of_rows_are_refused() -> None:
    layer = Layer(40, 67, 1)
    refused(
        "_C.onednn_scaled_mm: a_scales has 2 numbers, but must have one for each of the 3 rows.",
        lambda: C.onednn_scaled_mm(
            torch.empty(3, 40), draw(3, 67), torch.ones(2, 1), None, None, None, layer.handle
        ),
    )
    refused(
        "_C.int8_scaled_mm_with_quant: mat2 must be what convert_weight_packed made of a weight "
        "whose inputs are the 67 elements of a row of mat1.",
        lambda: C.int8_scaled_mm_with_quant(
            torch.randn(3, 67), draw(40, 67), torch.ones(40), None, torch.float32, True
        ),
    )
    refused(
        "_C.int8_scaled_mm_with_quant: out_dtype is Half, but must be that of mat1, which is "
        "Float.",
        lambda: C.int8_scaled_mm_with_quant(
            torch.randn(3, 67), draw(40, 67), torch.ones(40), None, torch.float16, False
        ),
        NotImplementedError,
    )
