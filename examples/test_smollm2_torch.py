# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 over torch tensors: the logits of the NumPy host, bit for bit, eager and compiled."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

anyop = pytest.importorskip("anyop")
torch = pytest.importorskip("torch")
pytest.importorskip("gguf")
pytest.importorskip("tokenizers")

from examples.smollm2.generate import Sampling, tokens  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.torch_model import TorchModel  # noqa: E402
from examples.smollm2.weights import ModelFile  # noqa: E402

PROMPT = [1, 9690, 198, 2683, 359, 253]
LATER = [28, 105, 7, 28]
LOGIT_BOUND = 1e-3


def logits(model: Model | TorchModel) -> NDArray[np.float32]:
    """Of the end of the prompt and of each later token."""
    model.reset()
    steps = [model.forward(np.array(PROMPT))] + [model.forward(np.array([i])) for i in LATER]
    return np.concatenate([np.asarray(step) for step in steps])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_torch_tensors_give_the_bits_of_numpy_arrays(file: ModelFile, dtype: str) -> None:
    want = logits(Model(file, dtype, max_tokens=64))
    model = Model(file, dtype, max_tokens=64, host="torch")
    assert type(model.layers[0].key_cache) is torch.Tensor
    np.testing.assert_array_equal(logits(model), want)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_plain_pytorch_computes_the_same_model(file: ModelFile, dtype: str) -> None:
    want = logits(Model(file, "f32", max_tokens=64))
    got = logits(TorchModel(file, dtype, max_tokens=64))
    # bf16: torch's own rounding, which is another one with tiles (up to 1.2).
    has_tiles = "amx_bf16" in anyop._anyop.machine()["features"]
    bf16_bound = 2.0 if has_tiles else 1.0
    assert np.abs(got - want).max() <= (LOGIT_BOUND if dtype == "f32" else bf16_bound)
    np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))


@pytest.mark.slow
def test_a_compiled_decode_is_one_graph_with_the_same_bits(file: ModelFile) -> None:
    few = replace(file, config=replace(file.config, layers=2))
    want = logits(Model(few, "bf16", max_tokens=64))
    model = Model(few, "bf16", max_tokens=64, host="torch", compiled=True)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    np.testing.assert_array_equal(logits(model), want)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
def test_the_backend_anyop_compiles_a_decode_with_the_same_bits(file: ModelFile) -> None:
    few = replace(file, config=replace(file.config, layers=2))
    want = logits(Model(few, "bf16", max_tokens=64))
    torch._dynamo.reset()
    model = Model(few, "bf16", max_tokens=64, host="torch", compiled="anyop")
    addresses = [layer.key_cache.data_ptr() for layer in model.layers]
    np.testing.assert_array_equal(logits(model), want)
    assert addresses == [layer.key_cache.data_ptr() for layer in model.layers]
    assert {row["kind"] for row in anyop.torch.report()} == {"operator", "view"}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_the_backend_anyop_compiles_plain_pytorch(file: ModelFile, dtype: str) -> None:
    few = replace(file, config=replace(file.config, layers=2))
    want = logits(TorchModel(few, dtype, max_tokens=64))
    torch._dynamo.reset()
    got = logits(TorchModel(few, dtype, max_tokens=64, compiled="anyop"))
    assert np.abs(got - want).max() <= (LOGIT_BOUND if dtype == "f32" else 1.0)
    np.testing.assert_array_equal(got.argmax(-1), want.argmax(-1))
    kinds = {row["operator"]: row["kind"] for row in anyop.torch.report()}
    assert kinds["aten.mm.default"] == kinds["anyop.rms_norm.default"] == "operator"


def test_sampling_is_the_same_on_both_hosts(file: ModelFile) -> None:
    warm = Sampling(temperature=1.0, top_k=50, top_p=0.95, seed=5)
    numpy, torch_ = (
        list(tokens(Model(file, "bf16", max_tokens=64, host=h), PROMPT, 8, warm, frozenset()))
        for h in ("numpy", "torch")
    )
    assert numpy == torch_


def test_numpy_has_no_compiler() -> None:
    command = [sys.executable, "-m", "examples.smollm2", "--compile", "--tokens", "1", "Hello"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == 1
    assert "NumPy has no compiler. Try host torch." in done.stderr
