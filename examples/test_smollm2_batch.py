# SPDX-License-Identifier: Apache-2.0
"""Continuous batching: what each request gets does not depend on its neighbours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

anyop = pytest.importorskip("anyop")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2.batch import PROMPTS, Batch, Request, generate_batch  # noqa: E402
from examples.smollm2.generate import Sampling, tokens  # noqa: E402
from examples.smollm2.model import BLOCK, Model  # noqa: E402
from examples.smollm2.weights import ModelFile  # noqa: E402

TEXTS = ("Once upon a time", "The sea", "In 1969 two people walked on the moon and one day " * 6)
WARM = Sampling(temperature=1.0, top_k=50, top_p=0.95, seed=5)


def requests(file: ModelFile) -> list[Request]:
    """Of different lengths, limits and ways to sample."""
    made = []
    for i, text in enumerate(TEXTS * 2):
        ids = file.tokenizer.encode(text, add_special_tokens=False).ids
        made.append(Request(ids, 3 + 4 * i, WARM if i % 2 else Sampling()))
    return made


def alone(model: Model, request: Request, end_ids: frozenset[int], block: int) -> list[int]:
    return list(tokens(model, request.prompt_ids, request.limit, request.sampling, end_ids, block))


def run(batch: Batch, wanted: list[Request], arrivals: int) -> int:
    """Steps until all are done; `arrivals` requests come before each step."""
    coming, steps = list(wanted), 0
    while coming or batch.waiting or batch.running:
        for request in coming[:arrivals]:
            batch.add(request)
        coming = coming[arrivals:]
        batch.step()
        steps += 1
        held = sum(len(r.blocks) for r in batch.running)
        assert held + len(batch.free) == batch.model.cache_blocks
        assert len(set(batch.free)) == len(batch.free)
    return steps


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("host", ["numpy", "torch"])
def test_a_request_gets_the_tokens_that_it_gets_alone(
    file: ModelFile, captured: bool, host: str
) -> None:
    if host == "torch":
        pytest.importorskip("torch")
    single = Model(file, "bf16", max_tokens=128)
    shared = Model(file, "bf16", max_tokens=128, host=host, captured=captured, cache_tokens=320)
    with anyop.batch_invariant():
        wanted = requests(file)
        expected = [alone(single, r, file.end_ids, 512) for r in wanted]
        run(Batch(shared, file.end_ids, concurrent=4, prefill_block=24), wanted, arrivals=2)
    assert [r.ids for r in wanted] == expected
    assert all(r.done and not r.blocks for r in wanted)


def test_a_cache_for_one_request_serves_them_in_turn(file: ModelFile) -> None:
    model = Model(file, "bf16", max_tokens=96, cache_tokens=96)
    batch = Batch(model, frozenset(), concurrent=8)
    wanted = [Request([1, 9690, 198], 80) for _ in range(2)]
    steps = run(batch, wanted, arrivals=2)
    assert steps == 160
    assert wanted[0].ids == wanted[1].ids
    assert len(wanted[0].ids) == 80


def test_a_block_of_prefill_is_shared_by_short_prompts(file: ModelFile) -> None:
    model = Model(file, "bf16", max_tokens=64, cache_tokens=256)
    batch = Batch(model, frozenset(), prefill_block=10)
    wanted = [Request([1, 9690, 198, 28], 2) for _ in range(3)]
    for request in wanted:
        batch.add(request)
    assert batch.step() == wanted[:2]
    assert [r.cached for r in wanted] == [4, 4, 2]
    assert batch.step() == wanted
    assert [len(r.ids) for r in wanted] == [2, 2, 1]


def test_an_impossible_request_is_refused(file: ModelFile) -> None:
    batch = Batch(Model(file, "bf16", max_tokens=64), frozenset())
    with pytest.raises(ValueError, match="would be 70 tokens long, but the cache holds 64"):
        batch.add(Request([1] * 60, 10))
    with pytest.raises(ValueError, match="The prompt is empty"):
        Request([], 4)
    assert batch.step() == []
    none = Request([1], 0)
    batch.add(none)
    assert none.done
    assert len(batch.free) == 64 // BLOCK


@pytest.mark.parametrize("captured", [False, True])
def test_a_cache_of_f8_answers_sensibly(file: ModelFile, captured: bool) -> None:
    """In f32: with bf16, too, it takes little to lose the answer, and processors round apart."""
    model = Model(file, "f32", max_tokens=128, captured=captured, cache="f8e4m3")
    prompts = ["What is the capital of France?"]
    result = generate_batch(file, model, prompts, 24)
    assert "Paris" in file.tokenizer.decode(result.requests[0].ids)
    assert result.tokens_per_s > 0
    assert model.layers[0].key_cache.dtype.itemsize == 1


def test_a_prompt_in_blocks_gives_the_tokens_of_the_whole(file: ModelFile) -> None:
    model = Model(file, "bf16", max_tokens=128)
    request = requests(file)[2]
    with anyop.batch_invariant():
        whole, parts = (alone(model, request, frozenset(), block) for block in (512, 7))
    assert whole == parts


@pytest.mark.slow
def test_the_command_answers_a_file_of_prompts(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(PROMPTS[:3]) + "\n")
    command = [sys.executable, "-m", "examples.smollm2", "--batch", str(path), "--tokens", "5"]
    for more in ([], ["--capture", "--prefill-block", "16", "--cache", "f8e4m3"]):
        done: Any = subprocess.run(
            [*command, *more, "--json"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent.parent,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()[-4:]]
        assert [line["prompt"] for line in lines[:3]] == list(PROMPTS[:3])
        assert lines[3]["tokens"] == sum(len(line["ids"]) for line in lines[:3])
        assert lines[3]["tokens_per_s"] > 0
