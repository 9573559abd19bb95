# SPDX-License-Identifier: Apache-2.0
"""Rows of a cache are written where torch writes them, also those counted from the end; a cache
that grows is gathered."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import IDS, floats  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called, graph_of, host_calls, made  # noqa: E402

CACHE, ROWS = torch.zeros(1, 2, 7, 16), floats(1, 2, 2, 16)


def put(cache: Any, at: Any, x: Any) -> Any:
    cache[:, :, at] = x
    return torch.sigmoid(cache)


def copied(cache: Any, at: Any, x: Any) -> Any:
    cache.index_copy_(2, at, x)
    return torch.sigmoid(cache)


@pytest.mark.parametrize(
    ("how", "dtype"),
    [(how, torch.int64) for how in HOWS] + [("capture", torch.int32)],
)
@pytest.mark.parametrize("at", [(-1, 0), (-7, -2), (3, 6)])
def test_indices_from_the_end(at: tuple[int, ...], how: str, dtype: torch.dtype) -> None:
    function = assert_as_torch(how, put, (CACHE, torch.tensor(at, dtype=dtype), ROWS))
    assert "anyop.reshape_and_cache" in called(how, function)
    assert host_calls(how, function) == 0


@pytest.mark.parametrize("how", HOWS)
def test_an_index_from_the_end_that_is_known(how: str) -> None:
    def program(cache: Any, x: Any) -> Any:
        cache[:, :, torch.tensor([-1, 2])] = x
        return torch.sigmoid(cache)

    assert_as_torch(how, program, (CACHE, ROWS))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("program", [put, copied])
@pytest.mark.parametrize("at", [(0, 7), (-8, 0), (0, -1)])
def test_indices_that_are_no_rows_are_errors(program: Any, at: tuple[int, ...], how: str) -> None:
    if program is put and at == (0, -1):
        return
    index = torch.tensor(at)
    with pytest.raises((IndexError, RuntimeError)) as torchs:
        program(CACHE.clone(), index, ROWS)
    cache = CACHE.clone()
    with torch.no_grad():
        function = made(how, program, (cache, torch.tensor([0, 1]), ROWS))
        function(cache, torch.tensor([0, 1]), ROWS)
        before = cache.clone()
        with pytest.raises(torchs.type, match="out of bounds"):
            function(cache, index, ROWS)
    torch.testing.assert_close(cache, before)


@pytest.mark.parametrize("how", HOWS)
def test_an_index_that_is_written_between_two_writes(how: str) -> None:
    def program(cache: Any, at: Any, x: Any) -> Any:
        cache[:, :, at] = x
        at.sub_(2)
        cache[:, :, at] = x + 1
        return torch.sigmoid(cache)

    assert_as_torch(how, program, (CACHE, torch.tensor([2, 5]), ROWS), calls=1)


@pytest.mark.parametrize("how", HOWS)
def test_one_check_serves_all_layers(how: str) -> None:
    def program(a: Any, b: Any, at: Any, x: Any) -> Any:
        for cache in (a, b):
            cache[:, :, at] = x
            x = torch.sigmoid(x)
        return torch.sigmoid(a), torch.sigmoid(b)

    args = (CACHE, CACHE + 1, torch.tensor([-1, 3]), ROWS)
    function = assert_as_torch(how, program, args)
    assert host_calls(how, function) == 0


def layers(a: Any, b: Any, at: Any, x: Any) -> Any:
    """Caches of two layers, in torch's order of dimensions and in another."""
    a[:, :, at] = x
    b.index_copy_(1, at.abs(), torch.sigmoid(x).transpose(1, 2))
    return torch.sigmoid(a), torch.sigmoid(b)


@pytest.mark.parametrize("batch", [2, 3, 20])
def test_caches_of_a_batch_that_varies(batch: int) -> None:
    """The host computes where they begin, once, beside abs."""
    args = floats(2, 2, 7, 16), floats(2, 7, 2, 16), torch.tensor([-1, 3]), floats(2, 2, 2, 16)
    function = assert_as_torch("dynamic", layers, args)
    assert host_calls("dynamic", function) == 1
    assert "aten.index" not in str(graph_of("dynamic", function))
    with torch.no_grad():
        for n, t in ((batch, 7), (batch, 9)):
            mine = [floats(n, 2, t, 16), floats(n, t, 2, 16), torch.tensor([1 - t, 3, 2, -1]),
                    floats(n, 2, 4, 16)]  # fmt: skip
            theirs = [x.clone() for x in mine]
            for got, want in zip(function(*mine), layers(*theirs), strict=True):
                torch.testing.assert_close(got, want)
            torch.testing.assert_close(mine, theirs)
            for at in ([-t - 1, 0], [0, t]):
                before = [x.clone() for x in mine]
                with pytest.raises((IndexError, ValueError), match="but must be|out of bounds"):
                    function(mine[0], mine[1], torch.tensor(at), mine[3][:, :, :2])
                torch.testing.assert_close(mine, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_zeros_of_sizes_that_vary(dtype: Any) -> None:
    def program(x: Any) -> Any:
        kept = torch.zeros(x.shape[0], 3, x.shape[1], dtype=dtype)
        kept[:, 1] = 1
        return torch.zeros((2, x.shape[0]), dtype=dtype), kept, torch.sigmoid(x)

    function = assert_as_torch("dynamic", program, (floats(4, 5),))
    for n in (3, 1, 0):
        torch.testing.assert_close(function(floats(n, 6)), program(floats(n, 6)))
    if dtype != torch.int64:
        assert "aten.zeros" not in str(graph_of("dynamic", function))


@pytest.mark.parametrize("how", HOWS)
def test_rows_of_another_shape_are_spread(how: str) -> None:
    assert_as_torch(how, put, (CACHE, torch.tensor([2, -1]), floats(2, 1, 16)))
    assert_as_torch(how, put, (CACHE, torch.tensor([2, -1]), floats(1)[0]))
    mask = torch.arange(7) > 4
    assert_as_torch(how, put, (CACHE, mask, floats(1)[0]))


def grown(keys: Any, values: Any, more: Any) -> Any:
    """A step of a decoder whose caches grow."""
    keys, values = torch.cat([keys, more], 2), torch.cat([values, torch.sigmoid(more)], -2)
    return F.scaled_dot_product_attention(more, keys, values), keys, values


@pytest.mark.parametrize("how", HOWS)
def test_caches_that_grow_are_gathered(how: str) -> None:
    args = (floats(2, 4, 7, 16), floats(2, 4, 7, 16, seed=1), floats(2, 4, 1, 16))
    function = assert_as_torch(how, grown, args)
    assert "anyop.embedding" in called(how, function)
    assert host_calls(how, function) == (1 if how == "dynamic" else 0)
    with torch.no_grad():
        for n in (8, 3) if how == "dynamic" else ():
            args = (floats(2, 4, n, 16), floats(2, 4, n, 16, seed=1), floats(2, 4, 1, 16))
            for given, wanted in zip(function(*args), grown(*args), strict=True):
                torch.testing.assert_close(given, wanted)


NOT_GATHERED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a longer second": (lambda x, y: torch.cat([x, y], 1), (floats(2, 1, 8), floats(2, 6, 8))),
    "whole numbers": (lambda x, y: torch.cat([x, y], 1), (IDS[None], IDS[None])),
    "three": (lambda x, y: torch.cat([x, y, x], 1), (floats(2, 3, 8), floats(2, 3, 8))),
    "the last dimension": (lambda x, y: torch.cat([x, y], 2), (floats(2, 3, 8), floats(2, 3, 8))),
}


@pytest.mark.parametrize("name", NOT_GATHERED)
def test_other_joins_stay_with_torch(name: str) -> None:
    program, args = NOT_GATHERED[name]
    assert host_calls("capture", assert_as_torch("capture", program, args)) == 1


def test_a_cache_that_may_be_empty_is_not_gathered_from() -> None:
    function = anyop.torch.capture(
        lambda x, y: torch.cat([x, y], 1), floats(2, 3, 8), floats(2, 1, 8), dynamic=[{1: "n"}, {}]
    )
    for n in (3, 0, 5):
        x, y = floats(2, n, 8), floats(2, 1, 8)
        torch.testing.assert_close(function(x, y), torch.cat([x, y], 1))
