# SPDX-License-Identifier: Apache-2.0
"""torch's operators compiled, on torch's own samples in f32 and bf16, with gradients: as torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's samples need it
import opinfo_programs  # noqa: E402

# What differs from torch though torch's own way to compile does not, and why.
KNOWN: dict[str, str] = {
    f"{name} {dtype}": "its elements are what the memory held before"
    for name in ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
                 "new_empty_strided")
    for dtype in opinfo_programs.DTYPES
}  # fmt: skip

SHARES = 24
PARTS = 20


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(ops: list[object], most: int | None) -> None:
    found = {n: why for n, why in opinfo_programs.failures(ops, most) if n not in KNOWN}
    assert not found, "\n".join(f"{name}: {why}" for name, why in found.items())


@pytest.mark.slow
def test_some_operators_compute_what_torch_computes() -> None:
    check(opinfo_programs.operators()[::SHARES], 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_each_operator_computes_what_torch_computes(part: int) -> None:
    check(opinfo_programs.operators()[part::PARTS], None)


def test_what_is_known_is_of_operators_that_there_are() -> None:
    names = {opinfo_programs.name_of(op) for op in opinfo_programs.operators()}
    assert {name.partition(" ")[0] for name in KNOWN} <= names


def test_what_differs_from_torch_is_noticed() -> None:
    op = next(op for op in opinfo_programs.operators() if op.name == "sin")
    sample = next(opinfo_programs.samples(op, torch.bfloat16, 1))

    def off(module: object, examples: object) -> object:
        return lambda *args: [t * 1.5 for t in module(*args)]  # type: ignore[operator]

    assert sample.differs("eager") == ""
    assert "not close" in sample.differs(off)  # type: ignore[arg-type]
