# SPDX-License-Identifier: Apache-2.0
"""Rotations, dense layers, norms, activations, experts and tokens under vLLM's names."""

from __future__ import annotations

import math
import re

import pytest

torch = pytest.importorskip("torch")

import anyop  # noqa: E402
from anyop.vllm import _dropin  # noqa: E402

_dropin.load("0.32.0")
C = torch.ops._C
F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


def close(got: torch.Tensor, expected: torch.Tensor, factor: float = 1) -> None:
    tolerance = TOLERANCE[got.dtype] * factor
    torch.testing.assert_close(got.double(), expected.double(), rtol=tolerance, atol=tolerance)


def refused(text: str, call: object, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == text


def rotated(
    positions: torch.Tensor,
    heads: torch.Tensor,  # [tokens, heads, size]
    table: torch.Tensor,
    neox: bool,
    offset: int = 0,
    inverse: bool = False,
) -> torch.Tensor:
    x = heads.double().clone()
    width = table.shape[1]
    cos, sin = table.double()[positions.flatten()][:, None].chunk(2, -1)
    sin = -sin if inverse else sin
    part = x[..., offset : offset + width]
    if neox:
        a, b = part[..., : width // 2].clone(), part[..., width // 2 :].clone()
        part[..., : width // 2], part[..., width // 2 :] = a * cos - b * sin, b * cos + a * sin
    else:
        a, b = part[..., 0::2].clone(), part[..., 1::2].clone()
        part[..., 0::2], part[..., 1::2] = a * cos - b * sin, b * cos + a * sin
    return x


def rope_table(width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    angles = torch.arange(50.0)[:, None] * 10000 ** (-torch.arange(0, width, 2) / width)
    return torch.cat([angles.cos(), angles.sin()], -1).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize(("size", "width"), [(64, 64), (80, 80), (112, 32), (128, 64)])
def test_rotation_of_rows(dtype: torch.dtype, neox: bool, size: int, width: int) -> None:
    """What a joint projection gives: rows of query and key with strides."""
    torch.manual_seed(0)
    joint = torch.randn(7, (4 + 2 + 2) * size).to(dtype)
    query, key, value = joint.split([4 * size, 2 * size, 2 * size], -1)
    positions, table = torch.randint(50, (7,)), rope_table(width, dtype)
    expected_query = rotated(positions, query.reshape(7, 4, size), table, neox)
    expected_key = rotated(positions, key.reshape(7, 2, size), table, neox)
    kept = value.clone()
    with anyop.strict():
        C.rotary_embedding(positions, query, key, size, table, neox)
    close(query.reshape(7, 4, size), expected_query)
    close(key.reshape(7, 2, size), expected_key)
    assert torch.equal(value, kept)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("neox", [True, False])
def test_rotation_of_a_slice_of_heads(neox: bool, inverse: bool) -> None:
    """What DeepSeek does without MLA: a slice in three dimensions, and a key of one head."""
    torch.manual_seed(0)
    whole, latent = torch.randn(5, 3, 48 + 16), torch.randn(5, 40 + 16)
    query, key = whole[..., 48:], latent[:, None, 40:]
    positions, table = torch.randint(50, (5,)), rope_table(16)
    expected = rotated(positions, query, table, neox, 0, inverse)
    expected_key = rotated(positions, key, table, neox, 0, inverse)
    kept = whole[..., :48].clone()
    with anyop.strict():
        C.rotary_embedding(positions, query, key, 16, table, neox, 0, inverse)
    close(query, expected)
    close(key, expected_key)
    assert torch.equal(whole[..., :48], kept)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("neox", [True, False])
def test_rotation_of_the_end_of_a_head(neox: bool, inverse: bool) -> None:
    torch.manual_seed(0)
    query = torch.randn(5, 3, 64)
    positions, table = torch.randint(50, (5,)), rope_table(16)
    expected = rotated(positions, query, table, neox, 48, inverse)
    C.rotary_embedding(positions, query, None, 64, table, neox, 48, inverse)
    close(query, expected)


@pytest.mark.parametrize("heads_apart", [True, False])
def test_rotation_of_sequences(heads_apart: bool) -> None:
    """Positions of two dimensions."""
    torch.manual_seed(0)
    flat = torch.randn(2, 5, 3 * 32)
    positions, table = torch.randint(50, (2, 5)), rope_table(32)
    expected = rotated(positions, flat.view(10, 3, 32), table, True)
    query = flat.view(2, 5, 3, 32) if heads_apart else flat
    C.rotary_embedding(positions, query, None, 32, table, True)
    close(flat.view(10, 3, 32), expected)


def test_rotation_of_nothing() -> None:
    query = torch.empty(0, 64)
    C.rotary_embedding(torch.empty(0, dtype=torch.int64), query, None, 32, rope_table(32), True)


def test_wrong_rotations() -> None:
    table = rope_table(32)
    refused(
        "_C.rotary_embedding: query is [4, 65], but must be [tokens, heads * size] or "
        "[tokens, heads, size] with 3 tokens, as positions has, and heads of 32.",
        lambda: C.rotary_embedding(torch.arange(3), torch.randn(4, 65), None, 32, table, True),
    )
    refused(
        "_C.rotary_embedding: query has 65 elements in dimension 1, but must have a multiple of "
        "32, which is the size of a head.",
        lambda: C.rotary_embedding(torch.arange(4), torch.randn(4, 65), None, 32, table, True),
    )
    refused(
        "_C.rotary_embedding: positions, query or key is a view whose tokens are no single "
        "dimension, but they are counted one after the other. Try contiguous().",
        lambda: C.rotary_embedding(
            torch.zeros(2, 3, dtype=torch.int64),
            torch.randn(3, 2, 64).transpose(0, 1),
            None,
            32,
            table,
            True,
        ),
    )
    refused(
        "rotary_embedding: positions[1] is 50, but must be less than 50 (p).",
        lambda: C.rotary_embedding(
            torch.tensor([0, 50]), torch.randn(2, 64), None, 32, table, True
        ),
    )
    refused(
        "rotary_embedding: offset + r <= d must hold, but offset is 8, d is 32 (query is "
        "f32[2, 2, 32]), r is 32 (cos_sin_cache is f32[50, 32]).",
        lambda: C.rotary_embedding(
            torch.arange(2), torch.randn(2, 64), None, 32, table, True, 8, False
        ),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (31, 33), (64, 48), (100, 2)])
def test_dense_layer(dtype: torch.dtype, n: int, k: int) -> None:
    torch.manual_seed(0)
    weight, bias = (torch.randn(n, k) / math.sqrt(k)).to(dtype), torch.randn(n).to(dtype)
    handle = torch.tensor(C.create_onednn_mm_handler(weight.t(), 32))
    expected_weight = weight.double()
    weight.zero_()  # vLLM gives the weight's memory back
    for rows in [(5,), (2, 3), ()]:
        x = torch.randn(*rows, k).to(dtype)
        for given in (bias, None):
            out = torch.full((*rows, n), float("nan"), dtype=dtype)
            C.onednn_mm(out, x.reshape(-1, k), given, handle)
            expected = F.linear(
                x.double(), expected_weight, None if given is None else bias.double()
            )
            close(out, expected)
    C.release_dnnl_matmul_handler(handle.item())


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_layer_without_a_handle(dtype: torch.dtype) -> None:
    weight, bias = (torch.randn(50, 48) / 7).to(dtype), torch.randn(50).to(dtype)
    x, out = torch.randn(3, 48).to(dtype), torch.empty(3, 50, dtype=dtype)
    packed = C.convert_weight_packed(weight)
    for given in (bias.float(), bias, None):
        C.weight_packed_linear(out, x, packed, given, True)
        close(out, F.linear(x.double(), weight.double(), None if given is None else bias.double()))
    text = "linear_packed: k2 == ceil_div(k, 2) must hold"
    with pytest.raises(ValueError, match="^" + re.escape(text)):
        C.weight_packed_linear(out, torch.randn(3, 40).to(dtype), packed, None, True)


def test_handles() -> None:
    weight = torch.randn(4, 6)
    first, second = (C.create_onednn_mm_handler(weight.t(), 32) for _ in range(2))
    x, out = torch.randn(3, 6), torch.empty(3, 4)

    def multiply(handle: object, x: torch.Tensor = x) -> object:
        return lambda: C.onednn_mm(out, x, None, torch.tensor(handle))

    C.release_dnnl_matmul_handler(first)
    released = "that one was released. Try one of create_onednn_mm_handler that is still held."
    refused(f"_C.onednn_mm: the handle is {first}, but {released}", multiply(first))
    refused(
        f"_C.release_dnnl_matmul_handler: the handle is {first}, but {released}",
        lambda: C.release_dnnl_matmul_handler(first),
    )
    refused(
        "_C.onednn_mm: the handle is -3, but no matrix has that one. Try one of "
        "create_onednn_mm_handler that is still held.",
        multiply(-3),
    )
    refused(
        "_C.onednn_mm: handler_tensor must be one number of Long, which create_onednn_mm_handler "
        "gave.",
        multiply(1.5),
    )
    refused(
        "_C.onednn_mm: a has rows of 5 elements, but the matrix behind the handle takes 6.",
        multiply(second, torch.randn(3, 5)),
    )
    multiply(second)()
    close(out, x @ weight.T)
    C.release_dnnl_matmul_handler(second)


def test_released_weights_are_freed() -> None:
    import resource

    weight = torch.zeros(1 << 10, 1 << 12)  # 16 MiB
    for _ in range(40):
        C.release_dnnl_matmul_handler(C.create_onednn_mm_handler(weight.t(), 32))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(40):
        C.release_dnnl_matmul_handler(C.create_onednn_mm_handler(weight.t(), 32))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10


ACTIVATIONS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_quick": lambda x: x * torch.sigmoid(1.702 * x),
}
GATES = {
    "silu_and_mul": F.silu,
    "gelu_and_mul": F.gelu,
    "gelu_tanh_and_mul": lambda x: F.gelu(x, approximate="tanh"),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*ACTIVATIONS, *GATES])
def test_activations(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for rows in [(3,), (2, 3), (0,)]:
        x = torch.randn(*rows, 38).to(dtype)
        out = torch.empty(*rows, 38 if name in ACTIVATIONS else 19, dtype=dtype)
        getattr(C, name)(out, x)
        if name in ACTIVATIONS:
            close(out, ACTIVATIONS[name](x.double()))
        else:
            close(out, GATES[name](x[..., :19].double()) * x[..., 19:].double())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [True, False])
def test_norms(dtype: torch.dtype, weighted: bool) -> None:
    torch.manual_seed(0)
    x, residual = torch.randn(2, 3, 40).to(dtype), torch.randn(2, 3, 40).to(dtype)
    weight = torch.randn(40).to(dtype) if weighted else None
    gain = weight.double() if weighted else 1
    out = torch.empty_like(x)
    C.rms_norm(out, x, weight, 1e-5)
    close(out, F.rms_norm(x.double(), (40,), eps=1e-5) * gain)
    total = x + residual
    C.fused_add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(residual, total)
    close(x, F.rms_norm(total.double(), (40,), eps=1e-5) * gain)


MOE_ACTIVATIONS = {
    "silu": lambda z: F.silu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "gelu": lambda z: F.gelu(z.chunk(2, -1)[0]) * z.chunk(2, -1)[1],
    "gelu_tanh": lambda z: F.gelu(z.chunk(2, -1)[0], approximate="tanh") * z.chunk(2, -1)[1],
    "swigluoai": lambda z: (
        (z[..., 1::2].clamp(-7, 7) + 1)
        * z[..., 0::2].clamp(max=7)
        * torch.sigmoid(1.702 * z[..., 0::2].clamp(max=7))
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("act", MOE_ACTIVATIONS)
@pytest.mark.parametrize(("width", "features"), [(64, 32), (40, 24)])
def test_experts(act: str, dtype: torch.dtype, width: int, features: int) -> None:
    """Also widths that are no multiples of 32, which vLLM's own kernels refuse."""
    torch.manual_seed(0)
    x = torch.randn(6, width).to(dtype)
    w13 = (torch.randn(4, 2 * features, width) / 4).to(dtype)
    w2 = (torch.randn(4, width, features) / 4).to(dtype)
    b13, b2 = torch.randn(4, 2 * features).to(dtype), torch.randn(4, width).to(dtype)
    weights, ids = torch.rand(6, 2), torch.randint(4, (6, 2), dtype=torch.int32)
    packed13, packed2 = torch.empty_like(w13), torch.empty_like(w2)
    C.prepack_moe_weight(w13, packed13, "vec")
    C.prepack_moe_weight(w2, packed2, "vec")
    for biases, skip in [((b13, b2), False), ((None, None), False), ((None, None), True)]:
        out = torch.empty_like(x)
        C.cpu_fused_moe(out, x, packed13, packed2, *biases, weights, ids, skip, act, "vec")
        expected = torch.zeros(6, width, dtype=torch.float64)
        for i in range(6):
            for a in range(2):
                g = int(ids[i, a])
                z = w13[g].double() @ x[i].double() + (0 if biases[0] is None else b13[g].double())
                o = w2[g].double() @ MOE_ACTIVATIONS[act](z).to(dtype).double()
                o = o + (0 if biases[1] is None else b2[g].double())
                expected[i] += o * (1 if skip else float(weights[i, a]))
        close(out, expected, 4)


def test_wrong_experts() -> None:
    x, w13, w2 = torch.randn(2, 64), torch.randn(2, 64, 64), torch.randn(2, 64, 32)
    weights, ids = torch.rand(2, 1), torch.zeros(2, 1, dtype=torch.int32)

    def run(w13: torch.Tensor, w2: torch.Tensor, act: str, ids: torch.Tensor = ids) -> object:
        return lambda: C.cpu_fused_moe(
            torch.empty_like(x), x, w13, w2, None, None, weights, ids, False, act, "vec"
        )

    refused(
        "_C.cpu_fused_moe: act is 'relu2', but must be silu, gelu, gelu_tanh or swigluoai, because "
        "no kernel has another.",
        run(w13, w2, "relu2"),
        NotImplementedError,
    )
    refused(
        "_C.cpu_fused_moe: w13 has experts of [64, 64], w2 of [48, 32], but both must be packed or "
        "neither. Try widths that are multiples of 32.",
        run(w13, torch.randn(2, 48, 32), "silu"),
    )
    refused(
        "fused_moe_packed: ids[0, 0] is 5, but must be less than 2 (e).",
        run(w13, w2, "silu", ids + 5),
    )
    refused(
        "_C.prepack_moe_weight: packed_weight must be dense, of the sizes and dtype of weight. Try "
        "torch.empty_like(weight, memory_format=torch.contiguous_format).",
        lambda: C.prepack_moe_weight(w13, torch.empty(2, 64, 63), "vec"),
    )


def test_greedy_tokens() -> None:
    logits = torch.randn(5, 1000)
    logits[1, 7] = logits[1, 900] = 50
    assert torch.equal(C.greedy_argmax(logits), logits.argmax(-1))
    assert C.greedy_argmax(logits)[1] == 7


def gumbel_noise(seed: int, width: int) -> list[float]:
    """SplitMix64 (Steele, Lea and Flood, 2014) of a mixed seed: 53 bits for each number."""

    def mix(z: int) -> int:
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    key = mix(seed % 2**64)
    bits = [mix((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 11 for i in range(width)]
    return [-math.log(-math.log((b + 0.5) / 2**53)) for b in bits]


@pytest.mark.parametrize(("rows", "width", "spread"), [(64, 300, 3), (2, 20000, 1), (20, 50, 300)])
def test_drawn_tokens(rows: int, width: int, spread: float) -> None:
    """The tokens that vLLM's own kernel draws of the same seeds."""
    torch.manual_seed(0)
    logits = torch.randn(rows, width) * spread
    logits[1] = float("-inf")
    logits[1, 3] = 0
    seeds = torch.randint(2**31, (rows,))
    expected = []
    for row, seed in zip(logits.tolist(), seeds.tolist(), strict=True):
        sums = [x + g for x, g in zip(row, gumbel_noise(seed, width), strict=True)]
        expected.append(sums.index(max(sums)))
    assert C.fused_gumbel_argmax(logits, seeds).tolist() == expected
    assert expected[1] == 3
    apart = torch.stack([logits, logits], 2)[..., 0], torch.stack([seeds, seeds], 1)[:, 0]
    assert C.fused_gumbel_argmax(*apart).tolist() == expected


def test_tokens_that_cannot_be_drawn() -> None:
    inf, nan = float("inf"), float("nan")
    logits = torch.tensor([[-inf] * 4, [nan, -inf, 1, -inf], [0, inf, -inf, inf]])
    drawn = [C.fused_gumbel_argmax(logits, torch.full((3,), seed)).tolist() for seed in range(20)]
    assert {tokens[0] for tokens in drawn} == {0}
    assert {tokens[1] for tokens in drawn} == {2}
    assert {tokens[2] for tokens in drawn} == {1, 3}


def test_drawn_tokens_have_their_probabilities() -> None:
    logits = torch.tensor([0.5, 0.25, 0.125, 0.125]).log().expand(20000, 4)
    drawn = C.fused_gumbel_argmax(logits, torch.arange(20000)).bincount(minlength=4) / 20000
    torch.testing.assert_close(drawn, torch.tensor([0.5, 0.25, 0.125, 0.125]), rtol=0, atol=0.015)


def test_wrong_seeds() -> None:
    refused(
        "_C.fused_gumbel_argmax: seeds must be Long, one for each of the 2 rows of logits.",
        lambda: C.fused_gumbel_argmax(torch.randn(2, 4), torch.arange(3)),
    )
    refused(
        "_C.fused_gumbel_argmax: logits must be Float.",
        lambda: C.fused_gumbel_argmax(torch.randn(2, 4).double(), torch.arange(2)),
    )
    refused(
        "argmax: d >= 1 must hold, but d is 0 (x is f32[2, 0]).",
        lambda: C.fused_gumbel_argmax(torch.randn(2, 0), torch.arange(2)),
    )
