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


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_an_operator_with_indices_takes_the_integers_of_jax() -> None:
    root = Path(__file__).parents[1]
    library = root / "build" / "release" / "tests" / "my_ops.so"
    if not library.exists():
        pytest.skip("the C++ tests are not built")
    command = [sys.executable, str(root / "examples" / "take_rows_jax.py"), str(library)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    rows = "[[6. 7. 8.]\n [0. 0. 0.]\n [0. 1. 2.]]\n"
    assert done.stdout == rows, done.stderr
