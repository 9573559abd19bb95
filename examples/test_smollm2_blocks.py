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


# As llama.cpp mixes them: what matters most has more bits.
KINDS = {
    "token_embd": "Q6_K", "blk.0.attn_q": "Q4_K", "blk.0.attn_k": "Q4_K", "blk.0.attn_v": "Q6_K",
    "blk.0.attn_output": "Q5_K", "blk.0.ffn_gate": "Q5_0", "blk.0.ffn_up": "Q5_0",
    "blk.0.ffn_down": "Q5_1",
}  # fmt: skip


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer whose weights are superblocks and blocks of 5 bits."""
    path = Path(tmp_path_factory.mktemp("gguf")) / "mixed.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    hidden, ffn, vocab, kv = 256, 288, 67, 128
    writer.add_block_count(1)
    writer.add_embedding_length(hidden)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_feed_forward_length(ffn)
    writer.add_vocab_size(vocab)
    writer.add_context_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b", "ab", *(chr(0x3B1 + i) for i in range(vocab - 3))])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1] * vocab)
    writer.add_eos_token_id(3)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    shapes = {
        "token_embd": (vocab, hidden), "blk.0.attn_q": (hidden, hidden),
        "blk.0.attn_k": (kv, hidden), "blk.0.attn_v": (kv, hidden),
        "blk.0.attn_output": (hidden, hidden), "blk.0.ffn_gate": (ffn, hidden),
        "blk.0.ffn_up": (ffn, hidden), "blk.0.ffn_down": (hidden, ffn),
    }  # fmt: skip
    for seed, (name, shape) in enumerate(shapes.items()):
        kind = gguf.GGMLQuantizationType[KINDS[name]]
        data = random_blocks(KINDS[name], *shape, seed)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.linspace(0.5, 1.5, hidden, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("dtype", ["q4", "q4-rows"])
@pytest.mark.parametrize("captured", [False, True])
def test_superblocks_and_mixed_formats_say_what_their_numbers_say(
    mixed: Path, dtype: str, captured: bool
) -> None:
    file = load(mixed)
    assert {b.format for b in file.blocks.values()} == {"q4_K", "q5_K", "q6_K", "q5_0", "q5_1"}
    ids = [5, 9, 33, 2, 66, 0]
    model = Model(file, dtype, max_tokens=32, captured=captured)
    kinds = [w.format for w in (model.layers[0].qkv, model.layers[0].output, model.layers[0].down)]
    assert kinds == ["", "q5_K", "q5_1"], "q, k and v are of two formats: numbers"
    got = log_probabilities(model, ids)
    want = log_probabilities(Model(file, "f32", max_tokens=32), ids)
    assert np.abs(got - want).max() < 0.05 * np.ptp(want)  # of activations in bf16
    assert np.ptp(want) > 0.5


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
