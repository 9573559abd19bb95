# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 on anyop against a plain implementation without a cache, written here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

anyop = pytest.importorskip("anyop")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2.generate import Sampling, generate, tokens  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFile, ModelFileError, find_model, load  # noqa: E402

PROMPT = "Name three colours of the rainbow."
NEW_TOKENS = 24
LOGIT_BOUND = 1e-3
CLEAR_MARGIN = 2e-3


@pytest.fixture(scope="module")
def f32_model(file: ModelFile) -> Model:
    return Model(file, "f32")


def reference_logits(file: ModelFile, ids: list[int]) -> NDArray[np.float32]:
    """[t, vocab] for the whole sequence at once: no cache, pairs rotated as complex numbers."""
    c, w = file.config, file.tensors
    t, hd = len(ids), c.head_dim
    frequency = c.rope_base ** (-2 * np.arange(hd // 2) / hd)
    turn = np.exp(1j * np.arange(t)[:, None] * frequency).astype(np.complex64)[:, None]

    def norm(x: Any, weight: Any) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c.eps) * weight

    def rotate(x: Any) -> Any:
        return (np.ascontiguousarray(x).view(np.complex64) * turn).view(np.float32)

    x = w["token_embd.weight"][ids].astype(np.float32)
    future = np.triu(np.full((t, t), -np.inf, np.float32), 1)
    for i in range(c.layers):
        p = {k.split(".")[2]: v for k, v in w.items() if k.startswith(f"blk.{i}.")}
        z = norm(x, p["attn_norm"]).astype(np.float32)
        q = rotate((z @ p["attn_q"].T).reshape(t, c.heads, hd))
        k = rotate((z @ p["attn_k"].T).reshape(t, c.kv_heads, hd))
        v = (z @ p["attn_v"].T).reshape(t, c.kv_heads, hd)
        heads = []
        for h in range(c.heads):
            g = h * c.kv_heads // c.heads
            s = q[:, h] @ k[:, g].T / np.sqrt(hd) + future
            e = np.exp(s - s.max(-1, keepdims=True))
            heads.append(e / e.sum(-1, keepdims=True) @ v[:, g])
        x = x + np.concatenate(heads, -1).astype(np.float32) @ p["attn_output"].T
        z = norm(x, p["ffn_norm"]).astype(np.float32)
        gate = z @ p["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (z @ p["ffn_up"].T)) @ p["ffn_down"].T
    logits: NDArray[np.float32] = norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T
    return logits


def test_f32_reproduces_the_plain_implementation(file: ModelFile, f32_model: Model) -> None:
    prompt = file.tokenizer.encode(file.chat(PROMPT), add_special_tokens=False).ids
    ids = prompt + list(tokens(f32_model, prompt, NEW_TOKENS, Sampling(), file.end_ids))
    assert len(ids) > len(prompt) + 4
    want = reference_logits(file, ids)
    f32_model.reset()
    got = [f32_model.forward(np.array(prompt), all_logits=True)]
    got += [f32_model.forward(np.array([i])) for i in ids[len(prompt) :]]
    error = np.abs(np.concatenate(got) - want).max()
    print(f"largest difference of a logit: {error:.2e}")
    assert error <= LOGIT_BOUND
    best = np.sort(want, -1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > CLEAR_MARGIN
    step = np.arange(len(prompt) - 1, len(ids) - 1)
    same = want.argmax(-1)[step] == np.array(ids[len(prompt) :])
    assert clear[step].sum() > 4
    assert same[clear[step]].all()


def test_a_prompt_in_chunks_gives_the_logits_of_the_whole(
    file: ModelFile, f32_model: Model
) -> None:
    ids = np.array(file.tokenizer.encode("The quick brown fox jumps over it. " * 4).ids)
    f32_model.reset()
    whole = f32_model.forward(ids, all_logits=True).copy()
    f32_model.reset()
    parts = [
        f32_model.forward(ids[s : s + 7], all_logits=True).copy() for s in range(0, len(ids), 7)
    ]
    assert np.abs(np.concatenate(parts) - whole).max() <= LOGIT_BOUND


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_bits_do_not_depend_on_the_number_of_threads(file: ModelFile, dtype: str) -> None:
    model = Model(file, dtype, max_tokens=64)
    ids = np.arange(100, 133)
    logits = []
    for threads in (1, 2):
        before = anyop.get_num_threads()
        anyop.set_num_threads(threads)
        model.reset()
        model.forward(ids)
        logits.append(model.forward(np.array([7])).copy())
        anyop.set_num_threads(before)
    assert logits[0].tobytes() == logits[1].tobytes()


def test_bf16_answers_sensibly_and_streams_what_it_returns(file: ModelFile) -> None:
    model = Model(file, "bf16", max_tokens=256)
    shown: list[str] = []
    result = generate(file, model, "What is the capital of France?", 32, show=shown.append)
    assert "Paris" in result.text
    assert "".join(shown) == result.text
    assert result.tokens_per_s > 0


def test_sampling_depends_on_the_seed_only(file: ModelFile, f32_model: Model) -> None:
    def run(seed: int) -> list[int]:
        warm = Sampling(temperature=1.0, top_k=50, top_p=0.95, seed=seed)
        return list(tokens(f32_model, [1, 9690, 198], 12, warm, frozenset()))

    assert run(3) == run(3)
    assert run(3) != run(4)


def test_digits_are_split_one_by_one_and_text_survives(file: ModelFile) -> None:
    ids = file.tokenizer.encode("in 2024, naïve café 🙂", add_special_tokens=False).ids
    pieces = [file.tokenizer.id_to_token(i) for i in ids]
    assert [p for p in pieces if p.isdigit()] == list("2024")
    assert file.tokenizer.decode(ids) == "in 2024, naïve café 🙂"


def test_a_sequence_longer_than_the_cache_is_refused(file: ModelFile) -> None:
    model = Model(file, "bf16", max_tokens=32)
    with pytest.raises(ValueError, match="would be 33 tokens long, but the cache holds 32"):
        model.forward(np.zeros(33, np.int64))


@pytest.mark.slow
def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = find_model().read_bytes()
    for name, data in {
        "empty": b"",
        "garbage": b"no model at all" * 99,
        "cut_in_header": whole[:5000],
        "cut_in_weights": whole[: len(whole) // 2],
        "flipped": whole[:8] + b"\xff" * 8 + whole[16:],
    }.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match="damaged|lacks|must"):
            load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "missing.gguf")


@pytest.mark.slow
def test_the_command_ends_with_a_line_of_json() -> None:
    command = [sys.executable, "-m", "examples.smollm2", "--raw", "--dtype", "f32", "--tokens", "5"]
    done = subprocess.run(
        [*command, "--threads", "1", "--json", "Once upon a time"],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    line = json.loads(done.stdout.splitlines()[-1])
    assert set(line) == {"prompt_ids", "ids", "text", "first_token_s", "tokens_per_s"}
    assert len(line["ids"]) == 5
    assert line["text"] in done.stdout
