# SPDX-License-Identifier: Apache-2.0
"""The program that docs/jax.md is cut out of."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_the_operator_of_the_guide_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.jax_operator"],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.stdout == "jitted, differentiated, batched and exported\n", done.stderr
