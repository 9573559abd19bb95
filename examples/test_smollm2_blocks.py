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


def random_blocks(kind: str, rows: int, columns: int, seed: int) -> np.ndarray:
    """Rows of blocks whose elements are small."""
    random = np.random.default_rng(seed)
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    blocks = random.integers(0, 256, (rows, columns // elements, size), dtype=np.uint8)
    small = 2e-5 if kind.endswith("K") else 3e-3
    first = size - 2 if kind == "Q6_K" else 0
    count = 2 if kind in ("Q4_0", "Q5_0", "Q6_K", "Q8_0") else 4
    numbers = random.uniform(small / 2, small, (*blocks.shape[:2], count // 2)).astype(np.float16)
    blocks[..., first : first + count] = numbers.view(np.uint8)
    return blocks.reshape(rows, -1)


# What llama.cpp's quantizer writes, by name of the mix: what matters most has more bits, in layer 0
# (the first of what `use_more_bits` says) and not in layer 1. "": the rest. Widths that are no
# multiple of 256 fall back to blocks of 32.
MIXES = {
    "Q4_K_M": {
        "": "Q4_K", "token_embd": "Q6_K", "blk.0.attn_v": "Q6_K", "blk.0.ffn_down": "Q6_K",
    },
    "Q5_K_M": {
        "": "Q5_K", "output": "Q6_K", "blk.0.attn_v": "Q6_K", "blk.0.ffn_down": "Q6_K",
    },
    "Q6_K": {"": "Q6_K"},
    "Q4_K_M, 288 wide": {
        "": "Q5_0", "token_embd": "Q8_0", "blk.0.attn_v": "Q8_0", "blk.1.ffn_down": "Q5_1",
    },
}  # fmt: skip
HEADS, KV_HEADS, VOCAB = 4, 2, 67


def write_model(path: Path, mix: str) -> None:
    """Two layers of random weights."""
    hidden, ffn = (288, 320) if "288" in mix else (256, 512)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_embedding_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_feed_forward_length(ffn)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b", "ab", *(chr(0x3B1 + i) for i in range(VOCAB - 3))])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1] * VOCAB)
    writer.add_eos_token_id(3)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    kv = hidden // HEADS * KV_HEADS
    layer = {
        "attn_q": (hidden, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden),
        "attn_output": (hidden, hidden), "ffn_gate": (ffn, hidden), "ffn_up": (ffn, hidden),
        "ffn_down": (hidden, ffn),
    }  # fmt: skip
    shapes = {"token_embd": (VOCAB, hidden)}
    if "output" in MIXES[mix]:
        shapes["output"] = (VOCAB, hidden)
    norms = ["output_norm"]
    for i in range(2):
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
        norms += [f"blk.{i}.attn_norm", f"blk.{i}.ffn_norm"]
    for seed, (name, shape) in enumerate(shapes.items()):
        kind = MIXES[mix].get(name, MIXES[mix][""])
        data = random_blocks(kind, *shape, seed)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=gguf.GGMLQuantizationType[kind])
    for name in norms:
        writer.add_tensor(f"{name}.weight", np.linspace(0.5, 1.5, hidden, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
    assert {b.format.upper() for b in file.blocks.values()} == set(MIXES[mix].values())
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
    assert [p.format for p in model.layers[0].qkv.parts] == ["q4_K", "q4_K", "q6_K"]
    assert model.layers[1].qkv.format == "q4_K"
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
