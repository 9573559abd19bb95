# SPDX-License-Identifier: Apache-2.0
"""Captured programs that ask for elements of the tensors that they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.5))
        self.register_buffer("row", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("count", torch.tensor(2))
        self.norm = torch.nn.BatchNorm1d(8, momentum=None)


PROGRAMS: dict[str, Callable[[Holder, Any], Any]] = {
    "float": lambda m, x: x * float(m.scale),
    "item": lambda m, x: anyop.softmax(x, m.scale.item()),
    "int": lambda m, x: x[:, : int(m.count)],
    "bool": lambda m, x: x + 1 if m.count else x - 1,
    "an element": lambda m, x: x * m.row[1].item(),
    "a list": lambda m, x: x * sum(m.row.tolist()),
    "a computed number": lambda m, x: x * float(m.scale * 2 + 1),
}
REFUSED: dict[str, Callable[[Holder, Any], Any]] = {
    "an array": lambda m, x: x * float(m.row.numpy()[1]),
    "a comparison": lambda m, x: x + 1 if m.scale > 1 else x - 1,
    "a sum": lambda m, x: x * float((m.row * 2).sum() + m.scale),
    "equal": lambda m, x: x if torch.equal(m.row, m.row.flip(0)) else -x,
}


def change_in_place(m: Holder) -> None:
    m.scale.fill_(2.0)
    m.row.mul_(2)
    m.count.add_(1)


def change_by_loading(m: Holder) -> None:
    m.load_state_dict({**m.state_dict(), "scale": torch.tensor(3.0), "row": torch.ones(3)})


def change_buffers(m: Holder) -> None:
    m.scale.data = torch.tensor(4.0)
    m.row.data = torch.tensor([4.0, 4.0, 4.0])
    m.count.data = torch.tensor(1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_reads_of_its_tensors_is_what_they_hold_now(name: str) -> None:
    module, program = Holder(), PROGRAMS[name]
    captured = anyop.torch.capture(lambda x: program(module, x), X)
    torch.testing.assert_close(captured(X), program(module, X))
    for change in (change_in_place, change_by_loading, change_buffers):
        change(module)
        for _ in range(2):
            torch.testing.assert_close(captured(X), program(module, X))


@pytest.mark.parametrize("name", REFUSED)
def test_what_tracing_cannot_read_is_refused(name: str) -> None:
    module = Holder()
    with pytest.raises(ValueError, match="asks for the elements of a tensor, but a graph is made"):
        anyop.torch.capture(lambda x: REFUSED[name](module, x), X)


def test_a_number_that_the_program_itself_writes_is_read_at_each_call() -> None:
    ours, theirs = Holder(), Holder()
    captured = anyop.torch.capture(ours.norm, X)
    for _ in range(3):
        torch.testing.assert_close(captured(X), theirs.norm(X))
    for a, b in zip(ours.norm.buffers(), theirs.norm.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_what_is_only_computed_with_is_no_reason_to_trace_again() -> None:
    module, traces = Holder(), []

    def program(x: Any) -> Any:
        traces.append(1)
        return x * module.scale + module.row.sum()

    captured = anyop.torch.capture(program, X)
    n = len(traces)
    change_in_place(module)
    made = captured(X)
    assert len(traces) == n
    torch.testing.assert_close(made, program(X))
