# SPDX-License-Identifier: Apache-2.0
"""Training over JAX's arrays has the losses of training with PyTorch's own operators."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch")
if find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

# JAX is for as long as a process: it gets one of its own.
CODE = """
from examples.finetune.corpus import batches
from examples.finetune.jax_training import JaxTrainer
from examples.finetune.training import largest_difference, train
from examples.test_finetune import IDS, LOSS_BOUND, SMALL, settings, weights
for rank in (0, 4):
    s = settings(rank)
    s.steps = 12
    batch = batches(IDS, s.sequences, s.length, s.seed)
    runs = list(train(SMALL, weights(SMALL), s, batch, JaxTrainer))[-1]
    losses = runs["anyop"].losses
    assert len(losses) == 12 and losses[-1] < losses[0] - 0.05, losses
    assert largest_difference(runs) <= 50 * LOSS_BOUND, runs
print("alike")
"""


@pytest.mark.slow
def test_the_losses_are_those_of_torch() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=root, timeout=300
    )
    assert done.stdout == "alike\n", done.stderr
