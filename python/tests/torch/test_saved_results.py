# SPDX-License-Identifier: Apache-2.0
"""Results of several tensors go through files and to other processes."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")


def made(x: Any) -> Any:
    return anyop.top_k(x, 2)


class Rows(torch.utils.data.Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 3

    def __getitem__(self, i: int) -> Any:
        return made(torch.arange(6.0) * (i + 1))


def assert_same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    for x, y in zip(a, b, strict=True):
        assert torch.equal(x, y)


def test_a_saved_result_is_loaded_as_what_it_was() -> None:
    result = made(torch.tensor([3.0, 1.0, 2.0]))
    for other in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert_same(other, result)
    file = io.BytesIO()
    torch.save({"result": result}, file)
    file.seek(0)
    assert_same(torch.load(file)["result"], result)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_of_a_loader_return_results(start: str) -> None:
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=None, num_workers=1, multiprocessing_context=start
    )
    for i, result in enumerate(loader):
        assert_same(result, Rows()[i])


def test_a_batch_of_results_is_a_result() -> None:
    batch = next(iter(torch.utils.data.DataLoader(Rows(), batch_size=3)))
    assert type(batch) is type(Rows()[0])
    assert batch[0].shape == (3, 2)
