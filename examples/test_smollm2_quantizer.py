# SPDX-License-Identifier: Apache-2.0
"""Files that llama.cpp's own quantizer writes: which formats it takes, and that anyop reads and
runs them as llama.cpp does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

anyop = pytest.importorskip("anyop")
gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2 import random_file  # noqa: E402
from examples.smollm2.decoder_graphs import Shape  # noqa: E402
from examples.smollm2.llama import QUANTIZER, LlamaModel, quantize, without_llama  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.random_file import Kind, format_of, matrices  # noqa: E402
from examples.smollm2.weights import load  # noqa: E402

pytestmark = pytest.mark.skipif(bool(without_llama()), reason=without_llama())

# Eight layers: the first, the last and every third between get more bits. 288 is no multiple of
# the 256 elements of a superblock.
KINDS = {
    "256 wide": Kind("", Shape(8, 256, 4, 2, 64, 512, 96), True, 64, 1e4),
    "288 wide, a head of its own": Kind("", Shape(8, 288, 4, 2, 72, 320, 96), False, 64, 1e4),
}
IDS = [5, 9, 33, 2, 66, 0, 11, 40, 3, 27, 95, 1, 50, 8]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def source(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "bf16.gguf"
    random_file.write(kind, "bf16", path, spread=0)
    return path


@pytest.mark.parametrize("mix", QUANTIZER)
def test_a_file_of_the_quantizer_is_read_and_run_as_llama_cpp_does(
    kind: Kind, source: Path, mix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{mix}.gguf"
    quantize(source, path, mix)
    file = load(path)
    formats = {name: blocks.format.upper() for name, blocks in file.blocks.items()}
    assert formats == {name: format_of(mix, name, kind).upper() for name in matrices(kind)}
    for name, blocks in file.blocks.items():
        got = np.asarray(anyop.dequantize_blocks(np.asarray(blocks.rows), blocks.format))
        np.testing.assert_array_equal(got.view(np.uint32), file.tensors[name].view(np.uint32))

    ids = np.array(IDS)
    exact, rounded, ours = (
        np.asarray(Model(file, dtype, max_tokens=32).forward(ids, all_logits=True), np.float64)
        for dtype in ("f32", "bf16", "q4")
    )
    theirs = np.array(LlamaModel(path, max_tokens=32).logits(IDS))
    # Ours rounds activations to bf16, and inputs of products to bytes as llama.cpp does: errors
    # that do not depend on each other.
    by_bytes = deviation(theirs - exact)
    assert by_bytes < 0.05 * deviation(exact), "llama.cpp"
    assert deviation(ours - exact) < 1.25 * np.hypot(deviation(rounded - exact), by_bytes)
    both = np.hypot(deviation(ours - exact), by_bytes)
    assert np.abs(ours - theirs).max() < 6 * both
    second, first = np.sort(exact, 1)[:, -2:].T
    is_clear = first - second > 2 * np.abs(ours - exact).max()
    assert is_clear.sum() >= 4
    assert (ours.argmax(1) == exact.argmax(1))[is_clear].all()


def deviation(numbers: np.ndarray) -> float:
    return float(np.sqrt(np.mean(numbers**2)))
