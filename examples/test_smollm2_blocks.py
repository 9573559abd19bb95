# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 with the blocks of its file as weights: close to f32, packed or in rows, in a graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

anyop = pytest.importorskip("anyop")
gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFile, ModelFileError  # noqa: E402

PROMPT = [1, 9690, 198, 2683, 359, 253]
TEXT = "The sky is blue because the molecules of the air scatter blue light more than red light."


def log_probabilities(model: Model, ids: list[int]) -> np.ndarray:
    logits = np.asarray(model.forward(np.array(ids), all_logits=True), np.float64)
    logits -= logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True))


def test_blocks_say_nearly_what_f32_says(file: ModelFile) -> None:
    ids = file.tokenizer.encode(TEXT).ids
    want = log_probabilities(Model(file, "f32", max_tokens=64), ids)
    got = log_probabilities(Model(file, "q4", max_tokens=64), ids)
    divergence = (np.exp(want) * (want - got)).sum(1)
    assert divergence.mean() < 0.02  # 0.004 over 372 tokens of English


def test_rows_and_packed_blocks_and_a_graph_give_the_same_bits(file: ModelFile) -> None:
    packed = Model(file, "q4", max_tokens=64)
    others = [
        Model(file, "q4-rows", max_tokens=64),
        Model(file, "q4", max_tokens=64, captured=True),
        Model(file, "q4-rows", max_tokens=64, captured=True),
    ]
    for ids in (PROMPT, [7], [105, 3], [28]):
        want = np.asarray(packed.forward(np.array(ids)))
        for other in others:
            np.testing.assert_array_equal(np.asarray(other.forward(np.array(ids))), want)


def test_the_operators_decode_as_the_package_gguf_does(file: ModelFile) -> None:
    for name in ("blk.0.attn_k.weight", "token_embd.weight"):
        blocks = file.blocks[name]
        rows = np.asarray(blocks.rows)[:64]
        decoded = anyop.dequantize_blocks(rows, blocks.format)
        np.testing.assert_array_equal(decoded, file.tensors[name][:64])


@pytest.mark.parametrize("format", ["q5_0", "q5_1", "q4_K", "q5_K", "q6_K"])
def test_formats_that_are_only_decoded_have_the_bits_of_the_package_gguf(format: str) -> None:
    random = np.random.default_rng(1)
    kind = gguf.GGMLQuantizationType[format.upper()]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (19, 3, size), dtype=np.uint8)
    numbers = random.standard_normal((19, 3, 2)).astype(np.float16).view(np.uint8)
    first, count = {"q5_0": (0, 2), "q6_K": (size - 2, 2)}.get(format, (0, 4))
    blocks[..., first : first + count] = numbers[..., :count]
    rows = blocks.reshape(19, 3 * size)
    want = gguf.quants.dequantize(rows, kind)
    got = np.asarray(anyop.dequantize_blocks(rows, format))
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    x = random.standard_normal((2, 3 * elements), np.float32)
    terms = np.abs(x) @ np.abs(want).T
    error = np.abs(anyop.linear_blocks(x, rows, format=format) - x.astype(np.float64) @ want.T)
    assert (error <= 1e-6 * terms).all()


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_quantizing_gives_the_bytes_of_the_package_gguf(kind: str) -> None:
    x = np.random.default_rng(0).standard_normal((37, 96), np.float32)
    x[3, :32] = 0
    x[4, 32:64] = 1e-6
    want = gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(anyop.quantize_blocks(x, kind.lower()), want)


def test_a_file_without_blocks_is_refused(file: ModelFile) -> None:
    plain = dataclasses.replace(file, blocks={})
    with pytest.raises(ModelFileError, match="must be in blocks of one of the formats"):
        Model(plain, "q4")
