# SPDX-License-Identifier: Apache-2.0
"""torch as an opponent: it gets its best settings."""

from __future__ import annotations

import pytest
import torch
from anyop.bench import TorchSide


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 1])
def test_inductor_packs_the_weights_that_it_is_told_of(place: int) -> None:
    x, weight = torch.randn(4, 32), torch.randn(48, 32)
    args = [x, x]
    args[place] = weight

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b.T

    expected = product(*args)
    call = TorchSide(compiled=True).call(product, *args, weights=(weight,))
    torch.testing.assert_close(call(), expected, rtol=1e-4, atol=1e-4)
    if place == 1:  # what was packed stays; a left factor is not packed
        weight.zero_()
    torch.testing.assert_close(call(), expected, rtol=1e-4, atol=1e-4)
    x.zero_()
    assert call().abs().max() == 0


def test_without_a_compiler_weights_are_arguments() -> None:
    x, weight = torch.ones(2, 3), torch.ones(4, 3)
    call = TorchSide(compiled=False).call(torch.nn.functional.linear, x, weight, weights=(weight,))
    assert call().tolist() == [[3.0] * 4] * 2
