# SPDX-License-Identifier: Apache-2.0
"""GGUF files whose header lies: refused with a text, in time, whatever the bytes.

FUZZ_SECONDS=3600 pytest examples/test_smollm2_gguf.py looks for more; FUZZ_SEED=random elsewhere.
"""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
pytest.importorskip("anyop")

from examples.smollm2 import tokenizer  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFileError, load  # noqa: E402

HIDDEN, FFN, VOCAB = 32, 64, 4
MOST_SECONDS = 20.0  # that any file may take, on a busy machine


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: Any) -> bytes:
    """A model of one layer, with a list of each kind that real files have."""
    return made(tmp_path_factory.mktemp("gguf") / "tiny.gguf", lambda writer: None)


def made(path: Path, extra: Callable[[Any], None]) -> bytes:
    """extra: adds to the file."""
    writer = gguf.GGUFWriter(path, "llama")
    extra(writer)
    writer.add_block_count(1)
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_feed_forward_length(FFN)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(64)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list(["a", "b", "ab", "<end>"])
    writer.add_token_merges(["a b"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_eos_token_id(3)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    kv = HIDDEN // 2
    shapes = {
        "token_embd": (VOCAB, HIDDEN), "output_norm": (HIDDEN,), "blk.0.attn_norm": (HIDDEN,),
        "blk.0.ffn_norm": (HIDDEN,), "blk.0.attn_q": (HIDDEN, HIDDEN),
        "blk.0.attn_k": (kv, HIDDEN), "blk.0.attn_v": (kv, HIDDEN),
        "blk.0.attn_output": (HIDDEN, HIDDEN), "blk.0.ffn_gate": (FFN, HIDDEN),
        "blk.0.ffn_up": (FFN, HIDDEN), "blk.0.ffn_down": (HIDDEN, FFN),
    }  # fmt: skip
    for name, shape in shapes.items():
        data = np.ones(shape, np.float32)
        if name == "blk.0.ffn_up":
            kind = gguf.GGMLQuantizationType.Q4_0
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def after(data: bytes, name: bytes, skip: int = 4) -> int:
    """Where the value of a field begins, `skip` bytes behind its name."""
    return data.index(name) + len(name) + skip


def put(data: bytes, at: int, kind: str, value: float) -> bytes:
    new = struct.pack(kind, value)
    return data[:at] + new + data[at + len(new) :]


def refusal(path: Path, data: bytes) -> str:
    """What the reader says of this file; "" if it reads it."""
    path.write_bytes(data)
    begin = time.monotonic()
    try:
        load(path)
    except ModelFileError as error:
        return str(error)
    finally:
        assert time.monotonic() - begin < MOST_SECONDS
    return ""


def test_a_right_file_is_read(tmp_path: Path, tiny: bytes) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny)
    model = load(path)
    assert model.config.hidden == HIDDEN
    assert model.chat("hello") == "hello"
    assert model.blocks.keys() == {"blk.0.ffn_up.weight"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: b"", "the file is empty"),
        (lambda d: b"GGML" + d[4:], "does not begin with 'GGUF'"),
        (lambda d: put(d, 4, "<I", 9), "of GGUF version 9"),
        (lambda d: put(d, 8, "<Q", 2**63), "tensors, but the file has"),
        (lambda d: put(d, 16, "<Q", 2**60), "fields, but the file has"),
        (lambda d: put(d, 24, "<Q", 2**62), "the name of a field takes 4611686018427387904 bytes"),
        # The package reads numbers past the end of the file, as many as the list is said to have.
        (lambda d: put(d, after(d, b"ggml.token_type", 8), "<Q", 2**60), "numbers or texts"),
        (lambda d: put(d, after(d, b"ggml.tokens", 8), "<Q", 2**60), "numbers or texts"),
        (lambda d: put(d, after(d, b"ggml.tokens", 12), "<I", 77), "numbers or texts"),
        (lambda d: put(d, after(d, b"ggml.token_type", 0), "<I", 99), "of type 99"),
        (lambda d: put(d, after(d, b"block_count"), "<I", 2**32 - 1), "must be a size of a model"),
        (lambda d: put(d, after(d, b"block_count"), "<I", 2**30), "of 1073741824 layers, but has"),
        (lambda d: put(d, after(d, b"attention.head_count"), "<I", 0), "must be a size of a model"),
        (lambda d: put(d, after(d, b"token_embd.weight", 0), "<I", 2**31), "dimensions, but"),
        (lambda d: put(d, after(d, b"token_embd.weight", 4), "<Q", 2**62), "the tensors take"),
        (lambda d: put(d, after(d, b"token_embd.weight", 20), "<I", 4242), "of type 4242"),
        (lambda d: put(d, after(d, b"token_embd.weight", 24), "<Q", 2**62), "the tensors take"),
        (lambda d: d[: len(d) // 2], "the tensors take"),
        (lambda d: d[:300], "takes"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_refused(
    tmp_path: Path, tiny: bytes, change: Callable[[bytes], bytes], why: str
) -> None:
    text = refusal(tmp_path / "lie.gguf", change(tiny))
    assert why in text
    if "model" not in why and "layers" not in why and "size" not in why:
        assert text.startswith(f"{tmp_path / 'lie.gguf'}: damaged or cut short: ")
        assert text.endswith(". Download it again.")


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (lambda w: w.add_key_length(8), "llama.attention.key_length is 8, but must be 16"),
        (lambda w: w.add_rope_dimension_count(8), "llama.rope.dimension_count is 8, but must"),
        (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
         "llama.rope.scaling.type is 'yarn', but must be 'none' or 'linear'."),
        (lambda w: w.add_tensor("blk.0.attn_q.bias", np.ones(HIDDEN, np.float32)),
         "The file has the weight blk.0.attn_q.bias, which a plain Llama has not."),
        (lambda w: w.add_tokenizer_model("bert"), "The tokenizer is of kind 'bert', but must be"),
        (lambda w: w.add_tokenizer_pre("qwen2"), "The tokenizer splits text as 'qwen2', but must"),
    ],
)  # fmt: skip
def test_models_that_are_no_plain_llama_are_refused(
    tmp_path: Path, extra: Callable[[Any], None], why: str
) -> None:
    path = tmp_path / "other.gguf"
    made(path, extra)
    with pytest.raises(ModelFileError) as refused:
        load(path)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("by", ["weight", "field"])
def test_frequencies_are_rescaled_as_the_file_says(tmp_path: Path, by: str) -> None:
    def extra(writer: Any) -> None:
        if by == "weight":
            writer.add_tensor("rope_freqs.weight", np.full(8, 4, np.float32))
        else:
            writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            writer.add_rope_scaling_factor(4.0)

    made(tmp_path / "plain.gguf", lambda writer: None)
    made(tmp_path / "rescaled.gguf", extra)
    plain, rescaled = (Model(load(tmp_path / f"{n}.gguf"), "f32") for n in ("plain", "rescaled"))
    np.testing.assert_allclose(
        rescaled.cos_sin[::4], plain.cos_sin[: len(plain.cos_sin) // 4], 1e-5
    )


def test_pieces_are_merged_by_their_scores() -> None:
    """As SentencePiece does: the best of the pairs first; letters that nobody knows are bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    kinds = [tokenizer.UNKNOWN, tokenizer.CONTROL, tokenizer.CONTROL, *([6] * 256)]
    scores = [0.0] * len(pieces)
    for piece, score in {"_": -9, "a": -8, "b": -8, "_a": -2, "ab": -1, "_b": -3}.items():
        pieces.append(piece.replace("_", tokenizer.SPACE))
        kinds.append(1)
        scores.append(score)
    fields = {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": kinds,
    }  # fmt: skip
    made = tokenizer.of_file(fields)
    encoded = made.encode("ab b a\u00e9</s>")
    shown = [t.replace(tokenizer.SPACE, "_") for t in encoded.tokens]
    assert shown == ["_", "ab", "_b", "_a", "<0xC3>", "<0xA9>", "</s>"]
    assert made.decode(encoded.ids) == "ab b a\u00e9"
    assert tokenizer.adds_begin(fields)
    assert not tokenizer.adds_begin({**fields, "tokenizer.ggml.add_bos_token": False})


def test_text_is_split_as_llama_3_splits_it() -> None:
    letters = sorted(tokenizer.pre_tokenizers.ByteLevel.alphabet())
    fields = {
        "tokenizer.ggml.tokens": [*letters, "12", "123", "\u0120a", "\u0120ab", "1234"],
        "tokenizer.ggml.merges": ["1 2", "12 3", "\u0120 a"],
        "tokenizer.ggml.token_type": [1] * (len(letters) + 5), "tokenizer.ggml.pre": "llama-bpe",
    }  # fmt: skip
    shown = tokenizer.of_file(fields).encode("1234 ab").tokens
    assert shown == ["123", "4", "\u0120ab"], "three digits at most; a word that is a token is one"
    assert tokenizer.adds_begin(fields)


def test_a_text_begins_with_the_token_that_the_file_says(tmp_path: Path) -> None:
    def extra(writer: Any) -> None:
        writer.add_add_bos_token(True)
        writer.add_bos_token_id(3)

    made(tmp_path / "begins.gguf", extra)
    model = load(tmp_path / "begins.gguf")
    assert model.encode("ab") == [3, 2]
    assert model.encode("<end>ab") == [3, 2], "once"


def test_tensors_share_no_bytes(tmp_path: Path, tiny: bytes) -> None:
    """Each takes memory once it is read: a small file must not take more than it has."""
    at = after(tiny, b"output_norm.weight", 4)
    text = refusal(tmp_path / "shared.gguf", put(tiny, at, "<Q", len(tiny) // 4))
    assert "the tensors take" in text


def mutate(data: bytes, chance: random.Random) -> bytes:
    new = bytearray(data)
    header = len(data) - 26000 if len(data) > 30000 else len(data) // 2
    for _ in range(chance.randint(1, 4)):
        if not new:  # cut off at its beginning
            break
        at = chance.randrange(len(new))
        if chance.random() < 0.9:
            at = chance.randrange(min(header, len(new)))
        match chance.randrange(5):
            case 0:
                new[at] = chance.randrange(256)
            case 1:
                new[at] ^= 1 << chance.randrange(8)
            case 2:
                odd = [0, 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1]
                new[at : at + 8] = struct.pack("<Q", chance.choice(odd))
            case 3:
                del new[at : at + chance.choice([1, 4, 8])]
            case _:
                if chance.random() < 0.2:
                    del new[at:]
    return bytes(new)


def test_any_bytes_are_read_or_refused(tmp_path: Path, tiny: bytes) -> None:
    given = os.environ.get("FUZZ_SEED", "1")
    seed = random.SystemRandom().randrange(1 << 32) if given == "random" else int(given)
    seconds = float(os.environ.get("FUZZ_SECONDS", 3))
    print(f"FUZZ_SEED={seed}")
    chance = random.Random(seed)
    end, tried, refused = time.process_time() + seconds, 0, 0
    while time.process_time() < end:
        data = mutate(tiny, chance)
        (tmp_path / "last.gguf").write_bytes(data)  # what a crash leaves to look at
        refused += refusal(tmp_path / "fuzz.gguf", data) != ""
        tried += 1
    assert refused > 0
    print(f"{refused} of {tried} refused")
