# SPDX-License-Identifier: Apache-2.0
"""What the tests of the model share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def file() -> Any:
    """The model's file; its tests are skipped where that is not installed."""
    pytest.importorskip("gguf")
    from examples.smollm2.weights import ModelFileError, load

    try:
        return load()
    except ModelFileError as error:
        pytest.skip(str(error))
