# SPDX-License-Identifier: Apache-2.0
"""Fresh results are tensors like torch's own, small ones too, whose memory is allocated by ours."""

from __future__ import annotations

import copy
import gc
import io
import resource
import threading
from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

SIZES = (0, 1, 3, 16, 239, 240, 241, 1000, 100_000)  # 240 f32 are the last that count as small


def _direct(x: Any) -> Any:
    return anyop.add(x, x)


def _dispatched(x: Any) -> Any:
    return torch.ops.anyop.add(x, x)


ROUTES = pytest.mark.parametrize("add", [_direct, _dispatched])


@ROUTES
@pytest.mark.parametrize("n", SIZES)
def test_a_result_is_aligned_and_may_grow_shrink_and_be_saved(
    add: Callable[[Any], Any], n: int
) -> None:
    x = torch.arange(n, dtype=torch.float32)
    y = add(x)
    assert torch.equal(y, x + x)
    assert y.data_ptr() % 64 == 0 and y.untyped_storage().nbytes() == 4 * n
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    assert torch.equal(torch.load(file), x + x)
    assert torch.equal(copy.deepcopy(y), x + x)
    assert torch.equal(y.clone().share_memory_(), x + x)
    y.resize_(2 * n + 300)
    assert torch.equal(y[:n], x + x) and y.data_ptr() % 64 == 0
    y.untyped_storage().resize_(0)
    assert y.untyped_storage().nbytes() == 0


@ROUTES
def test_results_outlive_the_call_and_the_thread_that_made_them(add: Callable[[Any], Any]) -> None:
    made: list[Any] = []

    def work(i: int) -> None:
        made.extend(add(torch.full((k,), float(i))) for k in range(1, 300))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 4 * 299
    assert all((y == 2 * (y[0] / 2)).all() for y in made)
    addresses = [(y.data_ptr(), y.data_ptr() + 4 * y.numel()) for y in made]
    addresses.sort()
    assert all(end <= begin for (_, end), (begin, _) in zip(addresses, addresses[1:], strict=False))


@ROUTES
def test_the_memory_of_results_is_given_back(add: Callable[[Any], Any]) -> None:
    x = torch.ones(200)
    for _ in range(1000):
        add(x)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100_000):
        add(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # of 80,000 KB


def test_the_profiler_counts_the_memory_of_results() -> None:
    x = torch.ones(100)
    with torch.profiler.profile(profile_memory=True) as profile:
        y = anyop.add(x, x)
    assert sum(event.self_cpu_memory_usage for event in profile.events()) == 400
    del y


@ROUTES
def test_a_lazy_clone_shares_a_result_until_one_is_written(add: Callable[[Any], Any]) -> None:
    y = add(torch.ones(8))
    clone = y._lazy_clone()
    clone += 1
    assert (y == 2).all() and (clone == 3).all()
