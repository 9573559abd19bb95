# SPDX-License-Identifier: Apache-2.0
"""Adapters in a batch give what merged weights give, and the program says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("anyop")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.lora.__main__ import ASKED, CONFIG, PROMPTS  # noqa: E402
from examples.lora.adapters import (  # noqa: E402
    AdaptedModel,
    merged,
    random_adapter,
    random_model,
)
from examples.smollm2.model import Model  # noqa: E402


def test_two_adapters_and_none_in_a_batch_say_what_merged_weights_say() -> None:
    file = random_model(CONFIG)
    adapters = [
        random_adapter(file, 4, 1, "attn_q", "attn_v"),
        random_adapter(file, 8, 2, "attn_k", "attn_output", "ffn_gate", "ffn_down"),
    ]
    batch = AdaptedModel(file, adapters, len(PROMPTS))
    plain = [Model(merged(file, adapters[i]) if i >= 0 else file, "f32", 64) for i in ASKED]
    ids = PROMPTS
    for step in range(6):
        got = batch.step(ids, ASKED)
        want = np.concatenate(
            [np.asarray(m.forward(np.array(one))) for m, one in zip(plain, ids, strict=True)]
        )
        assert np.abs(got - want).max() < 1e-4 * np.abs(want).max()
        # Of one prompt: an adapter changes what is said.
        assert step > 0 or np.abs(got[3] - got[4]).max() > 0.1 * np.abs(want).max()
        ids = [[int(token)] for token in want.argmax(-1)]


def test_the_program_runs() -> None:
    root = Path(__file__).resolve().parent.parent
    made = subprocess.run(
        [sys.executable, "-m", "examples.lora"], cwd=root, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout.endswith("gives the tokens of merged weights\n")
