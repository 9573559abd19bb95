# SPDX-License-Identifier: Apache-2.0
"""Operators of which torch's fake tensors tell other types than the operators return."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from torch import nn  # noqa: E402

IDS = torch.tensor([[0, 4, 2], [2, 2, 1]])
LAYERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "LayerNorm": (lambda: nn.LayerNorm(8), floats(3, 8)),
    "LayerNorm bare": (lambda: nn.LayerNorm(8, elementwise_affine=False), floats(3, 8)),
    "RMSNorm": (lambda: nn.RMSNorm(8), floats(3, 8)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), floats(3, 4, 5)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(8), floats(3, 8)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(4), floats(3, 4, 5, 2)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(2), floats(3, 2, 2, 3, 2)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4, affine=True), floats(3, 4, 5)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, track_running_stats=True),
                       floats(3, 4, 5, 2)),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), floats(3, 4, 5)),
    "EmbeddingBag sum": (lambda: nn.EmbeddingBag(5, 8, mode="sum"), IDS),
    "EmbeddingBag mean": (lambda: nn.EmbeddingBag(5, 8, mode="mean"), IDS),
    "EmbeddingBag max": (lambda: nn.EmbeddingBag(5, 8, mode="max"), IDS),
}  # fmt: skip
# (type of the layer, type of what it is given, type of autocast or None)
TYPES = {
    "f32": (torch.float32, torch.float32, None),
    "bf16": (torch.bfloat16, torch.bfloat16, None),
    "f16": (torch.float16, torch.float16, None),
    "mixed": (torch.float32, torch.bfloat16, None),
    "autocast": (torch.float32, torch.float32, torch.bfloat16),
    "autocast of bf16": (torch.float32, torch.bfloat16, torch.bfloat16),
}


class Surrounded(nn.Module):
    """A layer between others."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        y = self.layer(x * 2 if x.is_floating_point() else x)
        return torch.tanh(y) @ torch.ones(y.shape[-1], 3, dtype=y.dtype)


def trained(module: Any, step: Any, x: Any, autocast: Any) -> list[Any]:
    """What two steps return, the gradients and the buffers."""
    found: list[Any] = []
    for i in range(2):
        given = (x * (i + 1)) if x.is_floating_point() else x
        given = given.detach().clone().requires_grad_(x.is_floating_point())
        context = torch.autocast("cpu", autocast) if autocast else contextlib.nullcontext()
        with context:
            y = step(given)
            loss = (y * y).sum()
        module.zero_grad()
        loss.backward()
        found += [y, given.grad, *(p.grad for p in module.parameters())]
        found += [b.clone() for b in module.buffers()]
    return found


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_are_trained_as_torch_trains_them(layer: str, types: str) -> None:
    make, x = LAYERS[layer]
    of_layer, of_x, autocast = TYPES[types]
    torch.manual_seed(0)
    plain = Surrounded(make().to(of_layer))
    x = x.to(of_x) if x.is_floating_point() else x
    mine = copy.deepcopy(plain)
    torch._dynamo.reset()
    step = torch.compile(mine, backend="anyop", fullgraph=True)
    try:
        wanted = trained(plain, plain, x, autocast)
    except RuntimeError as error:
        pytest.skip(f"torch: {str(error).partition(chr(10))[0]}")
    made = trained(mine, step, x, autocast)
    low = torch.bfloat16 in (of_layer, of_x, autocast) or of_layer == torch.float16
    close = {"rtol": 2e-2, "atol": 2e-2} if low else {}
    torch.testing.assert_close(made, wanted, equal_nan=True, **close)


def test_what_a_norm_saves_reaches_the_host_of_the_backward_program() -> None:
    """Statistics in f32 beside values in bf16: no program runs through torch for that."""
    from anyop.torch._compile import backend

    torch._dynamo.reset()
    backend._programs.clear()
    norm = nn.GroupNorm(2, 4).to(torch.bfloat16)
    step = torch.compile(norm, backend="anyop")
    x = floats(3, 4, 5, dtype=torch.bfloat16).requires_grad_()
    for _ in range(2):
        step(x).sum().backward()
    programs = [p for ref in backend._programs if (p := ref()) is not None]
    assert [p.why_not for p in programs] == ["", ""]
    assert "aten.native_group_norm_backward.default" in {
        row["operator"] for row in anyop.torch.report()
    }


@torch.library.custom_op("anyop_tests::mistold", mutates_args=())
def mistold(x: torch.Tensor) -> torch.Tensor:
    return x.double()


mistold.register_fake(torch.empty_like)


@pytest.mark.defects
@pytest.mark.parametrize("way", ["compile", "capture"])
def test_an_operator_that_mistells_its_type_runs_through_torch(way: str) -> None:
    def program(x: Any) -> Any:
        return torch.ops.anyop_tests.mistold(x * 2).tan()

    torch._dynamo.reset()
    x = floats(3, 8)
    made = (anyop.torch.capture(program, x) if way == "capture"
            else torch.compile(program, backend="anyop"))  # fmt: skip
    for _ in range(2):
        torch.testing.assert_close(made(x), program(x))
