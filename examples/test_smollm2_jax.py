# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 over JAX's arrays: the tokens of the other hosts, and caches that are never copied."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
if find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

from examples.smollm2.weights import ModelFile  # noqa: E402

# JAX is for as long as a process: it gets one of its own.
CODE = """
import json, sys
import numpy as np
from examples.smollm2.generate import Sampling, tokens
from examples.smollm2.jax_model import JaxModel
from examples.smollm2.model import Model
from examples.smollm2.weights import load
file = load()
prompt = file.tokenizer.encode(file.chat("Name three colours of the rainbow."),
                               add_special_tokens=False).ids
found = {}
for dtype in ("f32", "bf16"):
    for name, model in (("jax", JaxModel(file, dtype)), ("numpy", Model(file, dtype))):
        found[f"{name} {dtype}"] = list(tokens(model, prompt, 12, Sampling(), file.end_ids))
        if name == "jax":
            at = [k.unsafe_buffer_pointer() for k, _ in model.caches]
            model.forward(np.array([1]))
            found[f"in place {dtype}"] = at == [k.unsafe_buffer_pointer() for k, _ in model.caches]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_tokens_are_those_of_numpy_and_caches_stay_in_place(file: ModelFile) -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=root, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for dtype in ("f32", "bf16"):
        assert len(found[f"numpy {dtype}"]) > 4
        assert found[f"jax {dtype}"] == found[f"numpy {dtype}"]
        assert found[f"in place {dtype}"]
