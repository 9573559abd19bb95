# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 with the blocks of its file as weights: close to f32, packed or in rows, in a graph."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

anyop = pytest.importorskip("anyop")
gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2 import random_file  # noqa: E402
from examples.smollm2.decoder_graphs import Shape  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFile, ModelFileError, load  # noqa: E402

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
def test_blocks_of_other_formats_have_the_bits_of_the_package_gguf(format: str) -> None:
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


# What llama.cpp's quantizer writes (test_smollm2_quantizer.py): of two layers the second gets more
# bits. Widths that are no multiple of 256 fall back to blocks of 32.
WIDE, NARROW = Shape(2, 256, 4, 2, 64, 512, 67), Shape(2, 288, 4, 2, 72, 320, 67)
MIXES = {
    "Q4_K_M": ("q4_K_M", WIDE, True, {"q4_K", "q6_K"}),
    "Q5_K_M, a head of its own": ("q5_K_M", WIDE, False, {"q5_K", "q6_K"}),
    "Q6_K": ("q6_K", WIDE, True, {"q6_K"}),
    "Q4_K_M, 288 wide": ("q4_K_M", NARROW, True, {"q5_0", "q8_0"}),
    "Q5_K_M, 288 wide": ("q5_K_M", NARROW, True, {"q5_1", "q8_0"}),
}


def write_model(path: Path, mix: str) -> None:
    """Two layers of random weights."""
    name, shape, is_tied, _ = MIXES[mix]
    random_file.write(random_file.Kind("", shape, is_tied, 64, 10000.0), name, path, spread=0)


def follow(model: Model, ids: list[int], tokens: list[int]) -> np.ndarray:
    """The logits after the prompt `ids` and after each of the tokens that follow."""
    rows = [model.forward(np.array(step)) for step in (ids, *([token] for token in tokens))]
    return np.concatenate([np.asarray(row, np.float32)[-1:] for row in rows])


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("dtype", ["q4", "q4-rows"])
@pytest.mark.parametrize("captured", [False, True])
def test_files_of_the_quantizer_say_what_their_numbers_say(
    tmp_path: Path, mix: str, dtype: str, captured: bool
) -> None:
    write_model(tmp_path / "mixed.gguf", mix)
    file = load(tmp_path / "mixed.gguf")
    assert {b.format for b in file.blocks.values()} == MIXES[mix][-1]
    ids = [5, 9, 33, 2, 66, 0]
    tokens = [11, 40, 3, 27, 66, 1, 50, 8]
    want = follow(Model(file, "f32", max_tokens=32), ids, tokens)
    got = follow(Model(file, dtype, max_tokens=32, captured=captured), ids, tokens)
    error = np.abs(got - want).max()
    assert error < 0.05 * np.ptp(want)  # of activations in bf16
    second, first = np.sort(want, 1)[:, -2:].T
    is_clear = first - second > 2 * error
    assert is_clear.sum() >= 4
    assert (got.argmax(1) == want.argmax(1))[is_clear].all(), "the same tokens"


def test_a_model_in_blocks_holds_no_numbers_of_its_matrices(tmp_path: Path) -> None:
    """Neither of those whose formats differ, nor of the rows of tokens."""
    write_model(tmp_path / "mixed.gguf", "Q4_K_M")
    file = load(tmp_path / "mixed.gguf")
    model = Model(file, "q4", max_tokens=32)
    assert model.layers[0].qkv.format == "q4_K"
    assert [p.format for p in model.layers[1].qkv.parts] == ["q4_K", "q4_K", "q6_K"]
    assert model.embedding.format == model.quantized_head.format == "q6_K"
    assert all("norm" in name for name in file.tensors.decoded)


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
