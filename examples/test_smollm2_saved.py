# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 saved, and run by a program without Python: the tokens of the captured model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

anyop = pytest.importorskip("anyop")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from anyop.cli.run import program  # noqa: E402

from examples.smollm2.generate import Sampling, tokens  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.save import save  # noqa: E402
from examples.smollm2.weights import ModelFile  # noqa: E402

PROMPT = [1, 9690, 198, 2683, 359, 253]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def folder(file: ModelFile, tmp_path_factory: Any) -> Path:
    """Kept where the sanitizers' builds find it."""
    build = ROOT / "build"
    path = (build if build.is_dir() else tmp_path_factory.mktemp("saved")) / "smollm2.anyop"
    save(file, path, "bf16", max_tokens=640)
    return Path(path)


def run(*arguments: Any, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [program(), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def expected(file: ModelFile, dtype: str, ids: list[int], n: int) -> list[int]:
    model = Model(file, dtype, max_tokens=640, captured=True)
    return list(tokens(model, ids, n, Sampling(), file.end_ids))


@pytest.mark.parametrize("threads", [1, 2])
def test_it_prints_the_tokens_of_the_captured_model(
    file: ModelFile, folder: Path, threads: int
) -> None:
    done = run(folder, "--ids", ",".join(map(str, PROMPT)), "--tokens", 24, "--threads", threads)
    assert [int(line) for line in done.stdout.split()] == expected(file, "bf16", PROMPT, 24)
    assert "tokens/s" in done.stderr


def test_a_long_prompt_goes_in_chunks(file: ModelFile, folder: Path) -> None:
    ids = np.random.default_rng(0).integers(100, 40000, 600).tolist()
    done = run(folder, "--ids", ",".join(map(str, ids)), "--tokens", 5, "--json")
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["prompt_ids"] == ids
    assert facts["ids"] == expected(file, "bf16", ids, 5)
    assert set(facts) == {"prompt_ids", "ids", "load_s", "first_token_s", "tokens_per_s"}
    full = run(folder, "--ids", ",".join(map(str, ids)), "--tokens", 99999)
    assert len(full.stdout.split()) <= 641 - 600


@pytest.mark.slow
def test_f32_is_saved_too(file: ModelFile, tmp_path: Path) -> None:
    save(file, tmp_path / "f32.anyop", "f32", max_tokens=640)
    done = run(tmp_path / "f32.anyop", "--ids", ",".join(map(str, PROMPT)), "--tokens", 12)
    assert [int(line) for line in done.stdout.split()] == expected(file, "f32", PROMPT, 12)


def test_generate_streams_the_text(file: ModelFile, folder: Path) -> None:
    pytest.importorskip("jinja2")
    command = [sys.executable, "-m", "anyop", "generate", str(folder)]
    question = "What is the capital of France?"
    done = subprocess.run(
        [*command, "--prompt", question, "--tokens", "16", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    facts = json.loads(done.stdout.splitlines()[-1])
    prompt = file.tokenizer.encode(file.chat(question), add_special_tokens=False).ids
    assert facts["prompt_ids"] == prompt
    assert facts["ids"] == expected(file, "bf16", prompt, 16)
    assert "Paris" in facts["text"]
    assert done.stdout.startswith(facts["text"])


def test_the_command_ends_with_an_error_that_says_why(folder: Path, tmp_path: Path) -> None:
    assert "is no saved graph" in run(tmp_path / "none", "--ids", 1, code=1).stderr
    assert "--ids is missing" in run(folder, code=1).stderr
    assert "--ids is 'x', but must be a whole number" in run(folder, "--ids", "x", code=1).stderr
    assert "'--idz' is no option" in run(folder, "--idz", "1", code=1).stderr
    assert "from 1 to 256" in run(folder, "--ids", 1, "--threads", 0, code=1).stderr
    too_long = ",".join(["5"] * 641)
    assert "but the model holds 640" in run(folder, "--ids", too_long, code=1).stderr
    assert "ids" in run(folder, "--ids", "49152", code=1).stderr
    assert run("--help").stdout.startswith("Usage: anyop-run MODEL")
    graph = anyop.graph(lambda x: anyop.softmax(x), "f32[n]", name="other")
    graph.save(tmp_path / "other.anyop")
    assert 'says nothing of a "decoder"' in run(tmp_path / "other.anyop", "--ids", 1, code=1).stderr


def test_the_installed_command_is_the_program() -> None:
    command = Path(sys.executable).parent / "anyop-run"
    if not command.exists():
        pytest.skip("anyop is not installed")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: anyop-run MODEL")
