# SPDX-License-Identifier: Apache-2.0
"""A mask of attention is replaced by a rule only where each of its entries says the same."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import compiled_last, floats  # noqa: E402
from pattern_cases import HOWS, assert_as_torch, called, host_calls, made  # noqa: E402

Q = floats(1, 2, 5, 16)
INF = float("-inf")
LOW = torch.finfo(torch.float32).min


def hidden(seen: torch.Tensor, low: float = INF) -> torch.Tensor:
    return torch.zeros(seen.shape).masked_fill(~seen, low)


# Masks [.., s or 1, t or 1] of 5 queries and 5 keys that depend on no argument.
KNOWN: dict[str, Any] = {
    "padding before": lambda: (torch.arange(5) >= 2).view(1, 1, 1, 5),
    "padding behind": lambda: (torch.arange(5) < 2).view(1, 1, 1, 5),
    "padding, added": lambda: hidden(torch.arange(5) >= 2).view(1, 5),
    "padding, added, finite": lambda: hidden(torch.arange(5) >= 2, LOW).view(1, 5),
    "a row of two": lambda: hidden(torch.arange(5) >= 1)[None, None, None].expand(2, 1, 1, 5),
    "a column": lambda: (torch.arange(5) >= 2).view(5, 1),
    "a column, added": lambda: hidden(torch.arange(5) >= 2).view(5, 1),
    "all of a row": lambda: torch.ones(1, 5, dtype=torch.bool),
    "one number": lambda: torch.ones(1, 1, dtype=torch.bool),
    "past": lambda: torch.ones(5, 5, dtype=torch.bool).tril(),
    "past and itself hidden": lambda: torch.ones(5, 5, dtype=torch.bool).tril(-1),
    "past of two": lambda: torch.ones(2, 1, 5, 5, dtype=torch.bool).tril(),
    "rows differ": lambda: torch.stack([torch.ones(5, 5).tril(), torch.ones(5, 5)])[:, None] > 0,
    "heads differ": lambda: torch.stack([torch.ones(5, 5).tril(), torch.ones(5, 5)])[None] > 0,
    "no key": lambda: torch.zeros(5, 5, dtype=torch.bool),
    "finite where no key": lambda: torch.full((5, 5), LOW),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", KNOWN)
def test_masks_that_depend_on_no_argument(name: str, how: str) -> None:
    def program(q: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=KNOWN[name]())

    batch = 2 if name in ("a row of two", "past of two", "rows differ") else 1
    assert_as_torch(how, program, (Q.expand(batch, -1, -1, -1).contiguous(),))


def test_a_mask_of_the_past_is_a_rule() -> None:
    function = made("capture", lambda q: F.scaled_dot_product_attention(
        q, q, q, attn_mask=KNOWN["past"]()), (Q,))  # fmt: skip
    function(Q)
    assert "anyop.attention" in called("capture", function)


MASKS_BY_SIZE: dict[str, Any] = {
    "past": lambda i, j: j <= i,
    "a hole far away": lambda i, j: (j <= i) & (j != 11),
    "a window": lambda i, j: (j <= i) & (j > i - 3),
    "a window that is wide": lambda i, j: (j <= i) & (j > i - 12),
    "the first keys too": lambda i, j: ((j <= i) & (j > i - 3)) | (j < 2),
    "all but the last": lambda i, j: j < i.shape[0] - 1 + 0 * i,
    "no later than a number": lambda i, j: (j <= i) & (j < 9),
}


@pytest.mark.parametrize("name", MASKS_BY_SIZE)
def test_masks_of_sizes_that_vary(name: str) -> None:
    def program(q: Any) -> Any:
        n = torch.arange(q.shape[2])
        return F.scaled_dot_product_attention(q, q, q, MASKS_BY_SIZE[name](n[:, None], n[None]))

    function = made("dynamic", program, (Q,))
    with torch.no_grad():
        for n in (5, 2, 17, 13, 3):
            q = floats(1, 2, n, 16)
            torch.testing.assert_close(function(q), program(q), equal_nan=True)


POSITIONS: dict[str, Any] = {
    "before": lambda i, j, at: j < i + at,
    "past": lambda i, j, at: j <= i + at,
    "window": lambda i, j, at: (j <= i + at) & (j > i + at - 3),
    "past, added": lambda i, j, at: hidden(j <= i + at),
    "past, added, finite": lambda i, j, at: hidden(j <= i + at, LOW),
    "not the first": lambda i, j, at: (j <= i + at) & (j >= at),
}


@pytest.mark.parametrize(
    ("how", "dtype"),
    [("capture", torch.int64), ("capture", torch.int32), ("compile", torch.int64)],
)
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_beyond_all_keys_and_before_them(
    name: str, queries: int, how: str, dtype: torch.dtype
) -> None:
    def program(q: Any, k: Any, at: Any) -> Any:
        i, j = torch.arange(queries)[:, None], torch.arange(k.shape[2])[None]
        return F.scaled_dot_product_attention(q, k, k, POSITIONS[name](i, j, at))

    q, k = floats(2, 4, queries, 16), floats(2, 4, 5, 16)
    with torch.no_grad():
        function = made(how, program, (q, k, torch.tensor(2, dtype=dtype)))
        for at in (2, 0, 4, 5, 6, 7, 8, 20, 1000, -1, -2, -9):
            at = torch.tensor(at, dtype=dtype)
            torch.testing.assert_close(function(q, k, at), program(q, k, at), equal_nan=True)


@pytest.mark.parametrize("how", HOWS)
def test_a_position_that_is_no_whole_number(how: str) -> None:
    def program(q: Any, at: Any) -> Any:
        i, j = torch.arange(5)[:, None], torch.arange(5)[None]
        return F.scaled_dot_product_attention(q, q, q, j <= i + at)

    assert_as_torch(how, program, (Q, torch.tensor(-0.5)))


def padded(i: Any, j: Any, kept: Any) -> Any:
    return (j <= i) & kept[:, None, None, :]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("is_added", [False, True])
def test_padding_that_is_an_argument(how: str, queries: int, is_added: bool) -> None:
    def program(q: Any, k: Any, kept: Any) -> Any:
        i, j = torch.arange(queries)[:, None] + 5 - queries, torch.arange(5)[None]
        mask = padded(i, j, kept)
        return F.scaled_dot_product_attention(q, k, k, hidden(mask) if is_added else mask)

    q, k = floats(2, 4, queries, 16), floats(2, 4, 5, 16)
    function = made(how, program, (q, k, torch.ones(2, 5, dtype=torch.bool)))
    for seed in range(4):
        kept = torch.rand(2, 5, generator=torch.Generator().manual_seed(seed)) > 0.4
        with torch.no_grad():
            torch.testing.assert_close(function(q, k, kept), program(q, k, kept), equal_nan=True)


@pytest.mark.parametrize("how", ["capture", "compile"])
def test_padding_is_ours_for_any_number_of_queries(how: str) -> None:
    """The same keys are hidden for each query, as in encoders."""
    kept = torch.arange(70).repeat(2, 1) < torch.tensor([[70], [41]])
    q = floats(2, 2, 70, 16)

    def program(q: Any, kept: Any) -> Any:
        seen = kept[:, None, None, :].expand(2, 1, 70, 70)
        y = F.scaled_dot_product_attention(q, q, q, attn_mask=seen)
        return F.scaled_dot_product_attention(y, y, q, attn_mask=seen)

    function = assert_as_torch(how, program, (q, kept))
    assert "anyop.paged_attention" in called(how, function) and host_calls(how, function) == 1


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("how", ["capture", "compile"])
def test_a_bias_of_each_head_is_added(how: str, scale: float | None) -> None:
    """As of relative positions; one query sees no key."""
    seen = torch.ones(5, 5, dtype=torch.bool).tril().logical_and(torch.arange(5)[:, None] != 3)
    q, bias = floats(2, 2, 5, 16), floats(1, 2, 5, 5)

    def program(q: Any, bias: Any, seen: Any) -> Any:
        mask = torch.where(seen, bias, INF)
        y = F.scaled_dot_product_attention(q, q, q, attn_mask=mask, scale=scale)
        return F.scaled_dot_product_attention(y, q, y, attn_mask=mask, scale=scale)

    function = assert_as_torch(how, program, (q, bias, seen))
    assert "anyop.batch_matmul" in called(how, function) and host_calls(how, function) == 1


def test_sizes_of_a_mask_that_is_an_argument_are_known_before_it_is_prepared() -> None:
    def program(q: Any, mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    sizes = ({0: "b"}, {0: "b"})
    function = anyop.torch.capture(program, floats(3, 2, 5, 16), floats(3, 2, 5, 5), dynamic=sizes)
    for b in (3, 2, 4):
        args = floats(b, 2, 5, 16), floats(b, 2, 5, 5)
        torch.testing.assert_close(function(*args), program(*args))
    assert "anyop.batch_matmul" in called("capture", function)


def test_a_mask_that_is_smaller_than_the_products_stays_torchs() -> None:
    q, mask = floats(1, 2, 7, 16), floats(7, 7)
    function = assert_as_torch(
        "capture", lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), (q, mask)
    )
    assert "anyop.batch_matmul" not in called("capture", function)


def test_layers_that_add_one_mask_prepare_it_once() -> None:
    """Each makes numbers of its own of it. Keys and values are arguments whose lengths vary."""

    def program(q: Any, k: Any, v: Any, more_k: Any, more_v: Any, seen: Any) -> Any:
        q, *keys = (x.view(*x.shape[:2], 4, 16).transpose(1, 2)
                    for x in (q, k, v, more_k, more_v))  # fmt: skip
        q = torch.sigmoid(F.scaled_dot_product_attention(q, *keys[:2], attn_mask=seen))
        return F.scaled_dot_product_attention(q, *keys[2:], attn_mask=seen)

    function = made("dynamic", program, ())
    with torch.no_grad():
        for b, t in ((2, 7), (3, 5)):
            rows = [floats(b, n, 64, seed=i) for i, n in enumerate((1, t, t, t, t))]
            args = (*rows, floats(b, 4, 1, t) < 0.5)
            torch.testing.assert_close(function(*args), program(*args), equal_nan=True)
    assert host_calls("dynamic", function) == 1
    assert "anyop.batch_matmul" in called("dynamic", function)
    names = [row.operator for row in compiled_last().lowered.rows]
    assert names.count("added_mask") == names.count("aten.where.self") == 1


def test_lengths_that_differ_are_torchs_error_or_result() -> None:
    def program(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    function = made("dynamic", program, ())
    q, k = floats(2, 4, 3, 16), floats(2, 4, 7, 16)
    with torch.no_grad():
        torch.testing.assert_close(function(q, k, k), program(q, k, k))
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            for call in (program, function):
                with pytest.raises(RuntimeError, match="Expected size"):
                    call(q, k, k[:, :, 1:])
