# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 as one graph: the logits of the eager model, bit for bit, for any number of tokens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

anyop = pytest.importorskip("anyop")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2.generate import Sampling, tokens  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import ModelFile  # noqa: E402

PROMPT = [1, 9690, 198, 2683, 359, 253]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_graph_gives_the_bits_of_the_eager_model(
    file: ModelFile, dtype: str, threads: int
) -> None:
    eager = Model(file, dtype, max_tokens=96)
    captured = Model(file, dtype, max_tokens=96, captured=True)
    with anyop.threads(threads):
        for ids in (PROMPT, list(range(100, 133)), [7], [28], [105, 3], [9], [7]):
            want = eager.forward(np.array(ids)).tobytes()
            assert captured.forward(np.array(ids)).tobytes() == want
    for mine, theirs in zip(captured.layers, eager.layers, strict=True):
        assert mine.key_cache.tobytes() == theirs.key_cache.tobytes()
    assert captured.graph is not None
    assert captured.graph.stats().calls == 7


def test_a_graph_over_torch_tensors_gives_the_same_bits(file: ModelFile) -> None:
    torch = pytest.importorskip("torch")
    eager = Model(file, "bf16", max_tokens=64)
    captured = Model(file, "bf16", max_tokens=64, host="torch", captured=True)
    for ids in (PROMPT, [7], [28]):
        got = captured.forward(np.array(ids))
        assert type(got) is torch.Tensor
        np.testing.assert_array_equal(got.numpy(), eager.forward(np.array(ids)))


def test_its_memory_is_planned_at_the_lower_bound(file: ModelFile) -> None:
    graph = Model(file, "bf16", captured=True).graph
    assert graph is not None
    for t in (1, 512):
        report = graph.memory(t=t)
        assert report.peak_bytes <= 1.02 * report.bound_bytes
        assert report.peak_bytes < report.unshared_bytes / 20


def test_it_generates_the_same_tokens(file: ModelFile) -> None:
    warm = Sampling(temperature=1.0, top_k=50, top_p=0.95, seed=5)
    for sampling in (Sampling(), warm):
        eager, captured = (
            list(
                tokens(
                    Model(file, "bf16", max_tokens=64, captured=c),
                    PROMPT,
                    12,
                    sampling,
                    frozenset(),
                )
            )
            for c in (False, True)
        )
        assert eager == captured


@pytest.mark.slow
def test_the_command_captures(file: ModelFile) -> None:
    command = [sys.executable, "-m", "examples.smollm2", "--raw", "--tokens", "5", "--json"]
    ids = []
    for more in ([], ["--capture"]):
        done = subprocess.run(
            [*command, *more, "Once upon a time"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent.parent,
        )
        ids.append(json.loads(done.stdout.splitlines()[-1])["ids"])
    assert ids[0] == ids[1]
