# SPDX-License-Identifier: Apache-2.0
"""Programs of torch with tensors of a device: `torch.compile(backend="anyop")` and captures leave
them to torch, say so, and give what the program gives without them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import anyop
import anyop.torch
import anyop.torch.nn
import far_torch
import pytest
import torch

FAR = torch.device("far:0")
anyop.load(far_torch.LIBRARY)
WHY = (
    "tensors on far:0 are left to torch: a graph of anyop's has tensors of the CPU here, and torch "
    "calls operators on a device one by one"
)


def norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.ops.anyop.rms_norm(x, w) * 2 + x.sin()


def on_the_way(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return norm(x.to(FAR) + 1, w.to(FAR)).cpu() * 3


def update(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    torch.ops.anyop.add_(x, w)
    return norm(x, w)


def arguments(places: tuple[str, str]) -> list[torch.Tensor]:
    shapes = (3, 8), (8,)
    of = torch.Generator().manual_seed(1)
    return [torch.randn(s, generator=of).to(p) for s, p in zip(shapes, places, strict=True)]


def compiled(program: Callable[..., Any], _: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(program, backend="anyop")


def captured(program: Callable[..., Any], values: Any) -> Any:
    return anyop.torch.capture(program, *values)


PROGRAMS = [
    (norm, ("far:0", "far:0")),
    (update, ("far:0", "far:0")),
    (on_the_way, ("cpu", "cpu")),
    (lambda x, w: norm(x.to(FAR), w), ("cpu", "far:0")),
]


@pytest.mark.parametrize("how", [compiled, captured])
@pytest.mark.parametrize(("program", "places"), PROGRAMS)
def test_a_program_is_right_and_says_who_runs_it(how: Any, program: Any, places: Any) -> None:
    wanted_values, values = arguments(places), arguments(places)
    wanted = program(*wanted_values)
    made = how(program, [v.clone() for v in values])
    found = made(*values)
    assert found.device == wanted.device
    assert torch.equal(found.cpu(), wanted.cpu())
    for ours, theirs in zip(values, wanted_values, strict=True):  # what it writes
        assert torch.equal(ours.cpu(), theirs.cpu())
    rows = anyop.torch.report(made if how is captured else None)
    rows = [r for r in rows if r["program"] == rows[-1]["program"]]  # of the last that was compiled
    # Between the two, operators on the CPU may be anyop's.
    assert {r["kind"] for r in rows} <= ({"torch"} if "far:0" in places else {"host", "operator"})
    assert any(WHY in r["why"] for r in rows), rows


def test_a_model_whose_parameters_lie_on_a_device() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.SiLU(), torch.nn.Linear(8, 4))
    x = torch.randn(3, 8)
    wanted = model(x)
    model.to(FAR)
    for how in (compiled, captured):
        with torch.no_grad():
            made = how(model, [x.to(FAR)])
            torch.testing.assert_close(made(x.to(FAR)).cpu(), wanted.detach())


class Rotated(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ropes = torch.nn.ModuleList(anyop.torch.nn.get_rope(8, 32) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for rope in self.ropes:
            x = rope(torch.arange(len(x), device=x.device), x)[0]
        return x

    def tables(self) -> set[int]:
        return {id(rope.cos_sin_cache) for rope in self.ropes}


def test_a_model_that_goes_to_a_device_changes_no_other() -> None:
    one, two, stays = Rotated(), Rotated(), Rotated()
    x = torch.randn(4, 2, 8)
    wanted = stays(x)
    one.to("far")
    two.to(FAR, torch.bfloat16)
    for model, tables in ((stays, stays), (Rotated(), stays), (one, two), (two, one)):
        place = model.ropes[0].cos_sin_cache.device
        torch.testing.assert_close(model(x.to(place)).cpu(), wanted)
        assert model.tables() == tables.tables() and len(model.tables()) == 1
    with torch.device("far"):
        assert Rotated().tables() == one.tables()
    copied = copy.deepcopy(one)
    two.to_empty(device="far:1")
    for model in (one.cpu(), copied.to("cpu")):
        assert model.tables() == stays.tables()
    assert torch.equal(two.ropes[0].cos_sin_cache.cpu(), stays.ropes[0].cos_sin_cache)


def test_a_program_of_a_device_is_refused_where_nothing_may_be_slow() -> None:
    values = arguments(("far:0", "far:0"))
    with anyop.strict(), pytest.raises(NotImplementedError) as error:
        anyop.torch.capture(norm, *values)
    assert f"it runs through torch: {WHY}. Try it without anyop.strict()." in str(error.value)


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.anyop.rms_norm(x, self.w)


@pytest.mark.parametrize("place", ["far:0", "cpu"])
@pytest.mark.parametrize("how", [compiled, captured])
def test_parameters_on_a_device_are_left_to_torch_with_the_same_reason(
    how: Any, place: str
) -> None:
    """Whether or not the arguments lie there, too; the reason stands once, with one full stop."""
    values = [torch.ones(4, 8, device=place)]
    model: Any = Norm().to(FAR)
    program = model if place == "far:0" else lambda x: model(x.to(FAR)).cpu()
    found = how(program, values)
    assert found(*values).device == torch.device(place)
    row = anyop.torch.report(found if how is captured else None)[-1]
    assert row["kind"] == "torch" and row["why"].count(WHY) == 1, row
    assert row["why"].endswith(WHY) and row["program"] not in row["why"], row
    with anyop.strict(), pytest.raises(NotImplementedError) as error:
        how(program, values)(*values)
    text = str(error.value)
    assert text.endswith(f"{WHY}. Try it without anyop.strict().") and text.count(WHY) == 1
    if place == "far:0":
        assert text.partition(": ")[2].startswith("it runs through torch: tensors on far:0"), text
