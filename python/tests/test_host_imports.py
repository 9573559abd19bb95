# SPDX-License-Identifier: Apache-2.0
"""import anyop.<framework> where the framework is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from anyop.hosting import not_installed

ADVICE = {"torch": "torch", "jax": "jax", "mindspore": 'mindspore "numpy<2"'}


@pytest.mark.parametrize("name", ADVICE)
def test_a_framework_that_is_not_installed_is_named(name: str) -> None:
    program = (
        f"import sys; sys.modules['{name}'] = None\n"
        f"try: import anyop.{name}\n"
        "except ImportError as e: print(e.name, '|', e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    why = f"anyop.{name}: {name} is not installed. Try: pip install {ADVICE[name]}"
    assert done.stdout.strip() == f"{name} | {why}"


def test_what_else_is_missing_is_told_by_python() -> None:
    error = ModuleNotFoundError("No module named 'jaxlib'", name="jaxlib")
    assert not_installed(error, "jax", "jax") is error
