# SPDX-License-Identifier: Apache-2.0
"""Products whose negative elements become zero are one operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import floats  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called, host_calls  # noqa: E402

W, B = floats(8, 16, seed=1), floats(8, seed=2)
TAKEN: dict[str, Callable[..., Any]] = {
    "with a bias": lambda x: torch.relu(F.linear(x, W, B)),
    "without": lambda x: F.relu(F.linear(x, W)),
    "in place": lambda x: F.relu_(F.linear(x, W)),
    "of a product": lambda x: torch.relu(x @ W.t()),
    "twice": lambda x: torch.relu(F.linear(torch.relu(F.linear(x, W, B)), W.t().contiguous())),
}
LEFT: dict[str, Callable[..., Any]] = {
    "both are read": lambda x: (lambda y: (torch.relu(y), y))(F.linear(x, W, B)),
    "of no product": lambda x: torch.relu(x),
    "scaled": lambda x: torch.relu(torch.addmm(B, x.reshape(-1, 16), W.t(), alpha=2)),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("shape", [(3, 16), (2, 3, 16), (1, 1, 16)], ids=str)
@pytest.mark.parametrize("name", TAKEN)
def test_products_with_relu(name: str, shape: tuple[int, ...], how: str) -> None:
    x = floats(*shape)
    x[..., 0, :3] = torch.tensor([math.nan, -0.0, math.inf])
    for values in (x, floats(*shape), torch.zeros(shape)):
        function = assert_as_torch(how, TAKEN[name], (values,))
        assert host_calls(how, function) == 0
        assert "anyop.linear" in called(how, function)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_with_relu_in_16_bits(dtype: Any) -> None:
    weight = W.to(dtype)
    function = assert_as_torch(
        "capture", lambda x: torch.relu(F.linear(x, weight)), (floats(4, 16).to(dtype),),
        rtol=1e-2, atol=1e-2,
    )  # fmt: skip
    assert host_calls("capture", function) == 0


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", LEFT)
def test_others_stay_with_torch(name: str, how: str) -> None:
    assert host_calls(how, assert_as_torch(how, LEFT[name], (floats(3, 16),))) == 1
