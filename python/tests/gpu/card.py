# SPDX-License-Identifier: Apache-2.0
"""What the tests on an NVIDIA card share; without one they are skipped with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyop
import pytest

LIBRARY = Path(anyop.__file__).parent / "anyop_cuda.so"


def why_not() -> str:
    """Why these tests cannot run here; empty where they can."""
    if not LIBRARY.exists():
        return "this build has no device library of CUDA (-DANYOP_CUDA=ON)"
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "torch finds no CUDA card"


_WHY_NOT = why_not()
ON_CARD = pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT)


@pytest.fixture(autouse=True, scope="session")
def library() -> Any:
    """The device library, loaded, and torch's operators with it."""
    if _WHY_NOT:
        return None
    return anyop.load(LIBRARY)


@pytest.fixture(autouse=True)
def quiet(library: Any) -> Iterator[None]:
    """No test leaves a late error behind."""
    yield
    if library is not None:
        anyop.synchronize("cuda:0")
