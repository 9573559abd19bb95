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

from examples.smollm2 import gguf_fields, gguf_header, tokenizer, weights  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFileError, load  # noqa: E402

HIDDEN, FFN, VOCAB = 32, 64, 4
MOST_SECONDS = 20.0  # that any file may take, on a busy machine


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: Any) -> bytes:
    """A model of one layer, with a list of each kind that real files have."""
    return made(tmp_path_factory.mktemp("gguf") / "tiny.gguf", lambda writer: None)


def made(
    path: Path,
    extra: Callable[[Any], None],
    last: tuple[str, dict[str, Any]] | None = None,
    **options: Any,
) -> bytes:
    """extra: adds to the file. last: fields in place of those that it has."""
    writer = gguf.GGUFWriter(path, "llama", **options)
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
    if last:
        add(writer, *last)
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
    return b"" if options else path.read_bytes()


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


@pytest.mark.parametrize(
    ("fields", "factor"),
    [
        ({"scaling.factor": 4.0}, 4),  # without a type, as llama.cpp takes it
        ({"scale_linear": 4.0}, 4),  # its name in older files
        ({"scale_linear": 2.0, "scaling.factor": 4.0}, 4),
        ({"scaling.type": "none", "scaling.factor": 4.0}, 1),
        ({"scaling.type": "linear", "scaling.factor": 4.0, "scaling.attn_factor": 1.0}, 4),
        ({"scaling.original_context_length": 64, "scaling.finetuned": True}, 1),
    ],
)
def test_scaling_is_read_by_old_names_too(
    tmp_path: Path, fields: dict[str, Any], factor: float
) -> None:
    made(tmp_path / "scaled.gguf", lambda writer: add(writer, "llama.rope", fields))
    config = load(tmp_path / "scaled.gguf").config
    assert config.rope_rescale == ((factor,) * 8 if factor != 1 else ())


def test_both_rescalings_of_a_file_count(tmp_path: Path) -> None:
    def extra(writer: Any) -> None:
        writer.add_tensor("rope_freqs.weight", np.full(8, 4, np.float32))
        add(writer, "llama.rope", {"scaling.factor": 2.0})

    made(tmp_path / "both.gguf", extra)
    assert load(tmp_path / "both.gguf").config.rope_rescale == (8.0,) * 8


def add(writer: Any, prefix: str, fields: dict[str, Any]) -> None:
    """Fields of the type that their values have in Python."""
    for name, value in fields.items():
        kind = gguf.GGUFValueType.get_type(value)
        if kind == gguf.GGUFValueType.INT32 and value >= 1 << 31:
            kind = gguf.GGUFValueType.INT64
        of = gguf.GGUFValueType.get_type(value[0]) if isinstance(value, list) and value else None
        writer.kv_data[0].pop(f"{prefix}.{name}", None)
        writer.add_key_value(f"{prefix}.{name}", value, kind, of)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("rope.scaling.factor", 0.0, "is 0.0, but must be a number above 0."),
        ("rope.scaling.factor", float("nan"), "is nan, but must be a number above 0."),
        ("rope.scaling.factor", "4", "is '4', but must be a number above 0."),
        ("rope.scale_linear", 0.0, "is 0.0, but must be a number above 0."),
        ("rope.scaling.attn_factor", 1.25, "is 1.25, but must be 1."),
        ("rope.scaling.type", 3, "is 3, but must be a text."),
        ("attention.sliding_window", 4096, "is 4096, but must be 0."),
        ("attention.causal", False, "is False, but must be True."),
        ("expert_count", 8, "is 8, but must be 0."),
        ("tensor_data_layout", "other", "is 'other', but must be 'Meta AI original pth' or"),
    ],
)
def test_a_field_that_changes_the_mathematics_is_refused_by_name(
    tmp_path: Path, name: str, value: Any, why: str
) -> None:
    path = tmp_path / "other.gguf"
    made(path, lambda writer: add(writer, "llama", {name: value}))
    with pytest.raises(ModelFileError) as refused:
        load(path)
    assert str(refused.value).startswith(f"llama.{name} {why}")
    assert str(refused.value).endswith(" Try another GGUF file.")


@pytest.mark.parametrize(
    "name", ["llama.logit_scale", "llama.attention.scale", "llama.a.b", "tokenizer.ggml.x"]
)
def test_a_field_that_nobody_knows_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "other.gguf"
    prefix, _, last = name.rpartition(".")
    made(path, lambda writer: add(writer, prefix, {last: 3}))
    with pytest.raises(ModelFileError) as refused:
        load(path)
    assert str(refused.value) == (
        f"The file has the field '{name}', 3, which is not known here and may change what the "
        "model computes. Try another GGUF file."
    )


def test_fields_that_are_not_the_models_are_read_past(tmp_path: Path) -> None:
    path = tmp_path / "signed.gguf"
    made(path, lambda writer: add(writer, "general", {"author": "a", "quantized_by": "b"}))
    assert load(path).config.layers == 1
    made(path, lambda writer: add(writer, "quantize.imatrix", {"file": "a.dat"}))
    assert load(path).config.layers == 1


WRONG = (True, 1, -1, 2**40, 1.5, float("inf"), "text", [1], ["text"], [1.5])


@pytest.mark.parametrize("name", sorted(gguf_fields.KNOWN))
def test_a_field_of_another_kind_is_refused_by_name(tmp_path: Path, tiny: bytes, name: str) -> None:
    """Every field that is known, as every type that a file has: read, or refused by its name."""
    (tmp_path / "tiny.gguf").write_bytes(tiny)
    reader = gguf.GGUFReader(tmp_path / "tiny.gguf")
    fields = {n: f.contents() for n, f in reader.fields.items()}
    for value in WRONG:
        changed = {**fields, name.replace("*", "x"): value}
        if not gguf_fields.KNOWN[name][0](value):
            with pytest.raises(gguf_fields.FieldError) as refused:
                gguf_fields.check(changed)
            assert str(refused.value).startswith(f"{name} is {value!r:.40}, but must be ")
            continue
        try:
            gguf_fields.check(changed)
            weights._config(changed)
            weights._ends(changed)
            tokenizer.of_file(changed)
        except (gguf_fields.FieldError, ModelFileError, tokenizer.UnknownTokenizerError):
            pass


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: put(d, 4, "<I", 9), "it is of GGUF version 9, but 2 and 3 are read."),
        (lambda d: put(d, 4, ">I", 3), "its numbers are big-endian, but little-endian ones are"),
        (lambda d: put(d, 4, "<I", 1), "it is of GGUF version 1, but 2 and 3 are read."),
    ],
)
def test_a_whole_file_of_another_kind_is_called_that(
    tmp_path: Path, tiny: bytes, change: Callable[[bytes], bytes], why: str
) -> None:
    assert refusal(tmp_path / "kind.gguf", change(tiny)).startswith(
        f"{tmp_path / 'kind.gguf'}: {why}"
    )


def test_a_model_in_parts_is_read_from_its_first_part(tmp_path: Path, tiny: bytes) -> None:
    """As llama-gguf-split makes them: the fields in the first part, tensors in all."""
    whole, parts = tmp_path / "whole.gguf", tmp_path / "parts.gguf"
    whole.write_bytes(tiny)
    made(parts, lambda writer: None, split_max_tensors=4)
    files = sorted(tmp_path.glob("parts-*.gguf"))
    assert [f.name for f in files] == [f"parts-0000{k}-of-00003.gguf" for k in (1, 2, 3)]
    model, one = load(files[0]), load(whole)
    assert model.tensors.keys() == one.tensors.keys()
    assert model.config == one.config
    assert model.blocks.keys() == one.blocks.keys()
    for name in one.tensors:
        np.testing.assert_array_equal(model.tensors[name], one.tensors[name])
    model.release()

    def why(path: Path) -> str:
        with pytest.raises(ModelFileError) as refused:
            load(path)
        return str(refused.value)

    assert why(files[1]) == (
        f"{files[1]}: it is part 2 of 3 of a model. Try the first one, as it was named: "
        "*-00001-of-00003.gguf."
    )
    kept = files[2].read_bytes()
    files[2].write_bytes(files[1].read_bytes())
    assert why(files[0]) == (
        f"{files[0]}: parts-00003-of-00003.gguf is another part than its name says."
    )
    files[2].write_bytes(b"GGUF")
    assert "damaged or cut short" in why(files[0])
    files[2].unlink()
    assert why(files[0]) == (
        f"{files[0]}: it is the first of 3 parts of a model, but parts-00003-of-00003.gguf is not "
        "there. Try downloading it too."
    )
    files[2].write_bytes(kept)
    assert len(load(files[0]).tensors) == 11
    with pytest.raises(gguf_header.KindError, match="part 1 of 3 of a model. Try llama-gguf-split"):
        gguf_header.read(files[0])


def test_files_of_other_kinds_are_called_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "part.gguf"
    made(path, lambda writer: add(writer, "general", {"type": "adapter"}))
    with pytest.raises(ModelFileError, match="^general.type is 'adapter', but must be 'model'."):
        load(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="pipe: it is no regular file."):
        load(tmp_path / "pipe")


def test_many_fields_are_refused_at_once(tmp_path: Path, tiny: bytes) -> None:
    names = [f"x.{i}".encode() for i in range(1_000_000)]
    fields = b"".join(struct.pack("<Q", len(n)) + n + struct.pack("<IB", 0, 1) for n in names)
    begin = time.process_time()
    text = refusal(tmp_path / "many.gguf", put(tiny[:24], 16, "<Q", len(names)) + fields)
    assert "there are 1000000 fields, but a model has at most 8192" in text
    assert time.process_time() - begin < 2


def test_a_frequency_of_0_is_refused(tmp_path: Path) -> None:
    made(
        tmp_path / "zero.gguf",
        lambda w: w.add_tensor("rope_freqs.weight", np.array([1, 0] * 4, np.float32)),
    )
    with pytest.raises(ModelFileError, match="^rope_freqs.weight holds 0.0, but must hold numbers"):
        load(tmp_path / "zero.gguf")


def test_an_end_by_its_text_is_no_text(tmp_path: Path) -> None:
    """A file that says it is a plain token: it ends an answer, and is not shown."""
    path = tmp_path / "ends.gguf"
    tokens = ["a", "b", "ab", "<|eot_id|>", "<|eom_id|>"]
    lists = {"tokens": tokens, "token_type": [1] * 5, "eos_token_id": 0, "eot_token_id": 2}
    made(path, lambda writer: None, last=("tokenizer.ggml", lists))
    model = load(path)
    assert model.end_ids == {0, 2, 3, 4}
    assert model.encode("ab<|eot_id|>") == [2, 3]
    assert model.tokenizer.decode([2, 3, 4]) == "ab"


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
