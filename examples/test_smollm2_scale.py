# SPDX-License-Identifier: Apache-2.0
"""Random weights in the shapes of known models: the files, the memory of a model, and what a long
context costs."""

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

from examples.smollm2 import random_file  # noqa: E402
from examples.smollm2.decoder_graphs import Shape  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.random_file import KINDS, Kind, Pool, format_of, matrices  # noqa: E402
from examples.smollm2.weights import ModelFile, load  # noqa: E402

HERE = Path(__file__).parent / "smollm2"
TINY = Kind("Tiny", Shape(2, 256, 4, 2, 64, 512, 96), True, 1 << 17, 5e5, True)


def made(folder: Path, mix: str, spread: float = 0) -> ModelFile:
    random_file.write(TINY, mix, folder / "random.gguf", spread)
    return load(folder / "random.gguf")


@pytest.mark.parametrize("mix", random_file.MIXES)
def test_weights_are_as_wide_as_they_should_be_and_no_rows_are_equal(
    tmp_path: Path, mix: str
) -> None:
    file = made(tmp_path, mix)
    for name, (rows, columns) in matrices(TINY).items():
        numbers = file.tensors[name]
        assert numbers.shape == (rows, columns)
        assert numbers.std() == pytest.approx(columns**-0.5, rel=0.1)
        assert abs(numbers.mean()) < 0.15 * numbers.std()
        assert len(np.unique(numbers, axis=0)) == rows
    assert {b.format.upper() for b in file.blocks.values()} == {
        format_of(mix, name, TINY).upper() for name in matrices(TINY) if mix != "bf16"
    }


@pytest.mark.parametrize("mix", ["bf16", "q8_0", "q4_1", "q4_K_M"])
def test_the_rows_of_the_head_are_multiples_by_powers_of_two(tmp_path: Path, mix: str) -> None:
    name = "token_embd.weight"
    plain, wide = (made(tmp_path, mix, spread).tensors[name] for spread in (0, 1))
    ratios = wide.std(1) / plain.std(1)
    powers = np.rint(np.log2(ratios))
    assert set(powers) >= {-1, 0, 1}
    np.testing.assert_allclose(ratios, np.exp2(powers), rtol=0.01)


def test_a_tensor_that_is_larger_than_its_pool_has_no_equal_rows() -> None:
    rows = Pool("Q4_0", random_file.POOL * 64, np.random.default_rng(0)).tensor(100_000, 64)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_rope_is_rescaled_as_in_llama_3_2() -> None:
    """Rotations of less than 2048 tokens stay, those of more than 8192 take 32 times as long."""
    factors = random_file.rescale_factors(64, 5e5)
    periods = 2 * np.pi * 5e5 ** (np.arange(0, 64, 2) / 64)
    assert (factors[periods < 2048] == 1).all() and (factors[periods > 8192] == 32).all()
    between = factors[(periods >= 2048) & (periods <= 8192)]
    assert len(between) and ((between > 1) & (between < 32)).all() and (np.diff(factors) >= 0).all()


def test_sizes_are_those_of_the_models() -> None:
    def parameters(name: str) -> int:
        return sum(rows * columns for rows, columns in matrices(KINDS[name]).values())

    assert parameters("llama-3.2-1b") == pytest.approx(1.2358e9, rel=1e-3)
    assert parameters("llama-3-8b") == pytest.approx(8.0303e9, rel=1e-3)
    assert parameters("smollm2-135m") == pytest.approx(1.3452e8, rel=1e-3)


@pytest.mark.parametrize(
    ("mix", "dtype"), [("q4_1", "q4"), ("q4_K_M", "q4-rows"), ("bf16", "bf16")]
)
def test_a_model_has_the_bytes_of_its_weights_and_nothing_decoded(
    tmp_path: Path, mix: str, dtype: str
) -> None:
    file = made(tmp_path, mix)
    model = Model(file, dtype, max_tokens=32)
    stored = {name: b.rows.nbytes for name, b in file.blocks.items()}
    stored |= {name: numbers.nbytes for name, numbers in file.bf16.items()}
    assert set(stored) == set(matrices(TINY))
    linears = [x for layer in model.layers for x in (layer.output, layer.gate_up, layer.down)]
    for layer in model.layers:
        linears += getattr(layer.qkv, "parts", [layer.qkv])
    held = sum(x.packed.nbytes for x in linears)
    assert held == pytest.approx(sum(stored.values()) - stored["token_embd.weight"], rel=0.02)
    assert not set(file.tensors.decoded) & set(stored)


def test_bf16_weights_are_read_as_by_way_of_f32(tmp_path: Path) -> None:
    file = made(tmp_path, "bf16")
    ids = np.array([5, 9, 33, 2])
    got = Model(file, "bf16", max_tokens=32).forward(ids)
    file.bf16.clear()
    np.testing.assert_array_equal(got, Model(file, "bf16", max_tokens=32).forward(ids))


def test_a_step_takes_memory_in_proportion_to_its_context(tmp_path: Path) -> None:
    """No scores of all tokens by all keys, at any number of new tokens."""
    file = made(tmp_path, "q4_0")
    sizes = [16384, 32768, 65536]
    graphs = [Model(file, "q4", max_tokens=n, captured=True).graph for n in sizes]
    assert len({graph.stats().nodes for graph in graphs}) == 1
    for t in (1, 4, 64, 512):
        peaks = [graph.memory(t=t).peak_bytes for graph in graphs]
        first, second = np.diff(peaks)
        assert 0 < second <= 2 * first + 4096, t
        scores = 4 * t * TINY.shape.heads * sizes[-1]
        assert t < 64 or peaks[-1] < scores / 4, t


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        (("--prefill", "16"), {"decode q4_1", "prefill q4_1"}),
        (("--context", "24,8"), {"decode after 8 q4_1", "decode after 24 q4_1"}),
    ],
)
def test_a_shape_is_measured_without_the_model(options: tuple[str, ...], rows: set[str]) -> None:
    command = [sys.executable, "-m", "anyop", "bench", "model", str(HERE), "--json"]
    short = ("--steps", "8", "--rounds", "1", "--threads", "1", "--against", "none")
    chosen = ("--shape", "smollm2-135m", "--weights", "q4_1", "--ours", "captured", *options)
    done = subprocess.run([*command, *short, *chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    assert {row["sizes"].split(",")[0] for row in found} == rows
    assert {row["operator"] for row in found} == {"SmolLM2-135M, random"}
    for row in found:
        weights = 135e6 * (20 + 0.1) / 32  # blocks of 20 bytes; a head in 8 bits has more
        cached = (
            30 * 2 * 3 * 64 * 2 * int(row["sizes"].split()[2] if "after" in row["sizes"] else 0)
        )
        assert weights < row["moved"] - cached < 1.2 * weights
        assert "memory: " in row["note"] and "of weights and cache" in row["note"]
