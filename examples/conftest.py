# SPDX-License-Identifier: Apache-2.0
"""What the tests of the model share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For models so small that threads wait for each other longer than they compute."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def file() -> Any:
    """The model's file; its tests are skipped where that is not installed."""
    pytest.importorskip("gguf")
    from examples.smollm2.weights import ModelFileError, load

    try:
        return load()
    except ModelFileError as error:
        pytest.skip(str(error))
