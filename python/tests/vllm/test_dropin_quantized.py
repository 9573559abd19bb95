# SPDX-License-Identifier: Apache-2.0
"""Dense layers with weights of 4 bits under vLLM's names."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import anyop  # noqa: E402
from anyop.vllm import _dropin  # noqa: E402

_dropin.load("0.32.0")
C = torch.ops._C
AWQ = (0, 4, 1, 5, 2, 6, 3, 7)


def words(
    elements: torch.Tensor, dim: int, places: tuple[int, ...] = tuple(range(8))
) -> torch.Tensor:
    """Eight neighbours along `dim` in an int32; place p is bits 4p to 4p + 3."""
    parts = elements.long().unflatten(dim, (-1, 8)).unbind(dim + 1)
    made = sum(part << 4 * place for part, place in zip(parts, places, strict=True))
    return torch.where(made >= 1 << 31, made - (1 << 32), made).int().contiguous()


class Layer:
    """Elements, zero points and scales of a layer, and what they decode to."""

    def __init__(self, outputs: int, inputs: int, groups: int, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.q = torch.randint(0, 16, (outputs, inputs))
        self.zero = torch.randint(0, 16, (outputs, groups))
        self.scale = torch.rand(outputs, groups) + 0.5

    def decoded(self, zero: torch.Tensor | None = None) -> torch.Tensor:
        groups = self.scale.shape[1]
        parts = self.q.unflatten(1, (groups, -1)).double()
        zeros = (self.zero if zero is None else zero).double()[..., None]
        return ((parts - zeros) * self.scale.double()[..., None]).flatten(1)

    def blocks(self) -> torch.Tensor:
        """What vLLM's Python makes: a word of 8 outputs, two of them beside each other."""
        in_words = words(self.q.t(), 1)  # [inputs, outputs / 8]
        inputs, count = in_words.shape
        return in_words.view(inputs, count // 2, 2).permute(1, 0, 2).reshape(count // 2, -1)


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("rows", [1, 5, 40])
def test_a_layer_of_4_bits(rows: int, has_zeros: bool, dtype: torch.dtype) -> None:
    layer = Layer(48, 64, 2)
    layer.scale = layer.scale.to(dtype)
    x, bias = torch.randn(rows, 64).to(dtype), torch.randn(48).to(dtype)
    zeros = words(layer.zero.t(), 1) if has_zeros else None
    output = torch.empty(rows, 48, dtype=dtype)
    with anyop.strict():
        scales = layer.scale.t().contiguous()
        C.cpu_gemm_wna16(x, layer.blocks(), output, scales, zeros, bias, 8, "vec")
    weight = layer.decoded(None if has_zeros else torch.full((48, 2), 8))
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}[dtype]
    close(output, x.double() @ weight.t() + bias.double(), tolerance * 10)


@pytest.mark.parametrize("method", ["awq", "gptq"])
def test_bytes_by_4_bits(method: str) -> None:
    """x that is bytes already gives the exact sums; a zero point of GPTQ is stored less 1."""
    layer = Layer(48, 64, 2)
    if method == "awq":
        weight, zeros = words(layer.q.t(), 1, AWQ), words(layer.zero.t(), 1, AWQ)
        zero = layer.zero
    else:
        weight, zeros = words(layer.q.t(), 0), words(layer.zero.t(), 1)
        zero = layer.zero + 1  # 16 among them
    packed, z, s = C.convert_weight_packed_scale_zp(
        weight, zeros, layer.scale.t().contiguous(), 0 if method == "awq" else 1
    )
    assert s.size(0) * s.size(-1) == 48, "what vLLM takes for the number of outputs"
    x = torch.randint(-127, 128, (3, 64)).float()
    x[:, 0] = 127
    bias = torch.randn(48)
    y = C.int4_scaled_mm_cpu(x, packed, z, s, bias)
    close(y, x.double() @ layer.decoded(zero).t() + bias.double(), 1e-3)


def refused(text: str, call: object, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


def test_words_of_another_number_of_bits_are_refused() -> None:
    layer = Layer(32, 64, 2)
    output, scales = torch.empty(1, 32), layer.scale.t().contiguous()
    refused(
        "_C.cpu_gemm_wna16: pack_factor is 4, but must be 8: weights of 4 bits are all that "
        "kernels are for.",
        lambda: C.cpu_gemm_wna16(
            torch.randn(1, 64), layer.blocks(), output, scales, None, None, 4, "vec"
        ),
        NotImplementedError,
    )
    refused(
        "_C.cpu_gemm_wna16: q_weight has rows of 3 words, but must be dense with a multiple of 2 "
        "in a row: those of one input for 16 outputs.",
        lambda: C.cpu_gemm_wna16(
            torch.randn(1, 64), torch.zeros(2, 3).int(), output, scales, None, None, 8, "vec"
        ),
    )


def test_parts_of_different_layers_are_refused() -> None:
    layer = Layer(32, 64, 2)
    refused(
        "_C.convert_weight_packed_scale_zp: qweight has 32 outputs, qzeros has 32 of 2 groups, and "
        "scales is [1, 32], but must be [groups, outputs] of the same numbers.",
        lambda: C.convert_weight_packed_scale_zp(
            words(layer.q.t(), 1, AWQ), words(layer.zero.t(), 1, AWQ), torch.ones(1, 32), 0
        ),
    )
