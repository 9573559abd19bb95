# SPDX-License-Identifier: Apache-2.0
"""Each converter of a single ATen operator on torch's own samples: it computes what torch does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # torch's samples need it
import opinfo_cases  # noqa: E402

SOME = 1  # case for each operator and type

# Those of which torch's database has only samples that a converter leaves to torch.
LEFT_TO_TORCH = {
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten.index_copy_.default",
    "aten.rms_norm.default",
}
# Functionalization makes them, rows of backend_cases.py try them; zeros takes no tensor, and
# test_patterns_caches.py tries it.
WITHOUT_SAMPLES = {"aten.copy.default", "aten.lift_fresh_copy.default", "aten.zeros.default"}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """More of them wait for one another over a few elements."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def check(most: int | None, dtypes: Sequence[torch.dtype]) -> Counter[str]:
    """How many calls of each operator became part of a graph."""
    n, lowered, found = Counter[str](), Counter[str](), list[str]()
    for case in opinfo_cases.cases(most, dtypes):
        made = opinfo_cases.run(case)
        n[str(case.target)] += 1
        lowered[str(case.target)] += made.is_lowered
        if made.why:
            found.append(f"{case.key()}: {made.why}")
    print(f"{n.total()} calls, {lowered.total()} lowered")
    assert not found, "\n".join(found)
    assert set(n) == {str(t) for t in opinfo_cases.targets()} - WITHOUT_SAMPLES
    return +lowered


@pytest.mark.slow
def test_converters_compute_what_torch_computes() -> None:
    check(SOME, (torch.float32, torch.int64))


@pytest.mark.exhaustive
def test_converters_compute_what_torch_computes_for_each_sample() -> None:
    lowered = check(None, opinfo_cases.DTYPES)
    known = {str(t) for t in opinfo_cases.targets()} - WITHOUT_SAMPLES
    assert known - set(lowered) == LEFT_TO_TORCH
