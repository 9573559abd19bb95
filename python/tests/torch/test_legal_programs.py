# SPDX-License-Identifier: Apache-2.0
"""A legal program never fails and never differs: views, writes, aliases, sizes, names."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from legal import captured, check_calls, compiled  # noqa: E402


def floats(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def assign_column(x: Any) -> Any:
    x[:, 1] = 7.0
    return x


def assign_column_in_silence(x: Any) -> Any:
    x[:, 1] = 7.0
    return x.sum()


def assign_column_of_mask(x: Any) -> Any:
    mask = torch.zeros(4, 4, dtype=torch.int64)
    mask[:, 2] = 3
    return mask + (x.sum(0)[:1] * 0).long()


def assign_rows_of_transposed(x: Any) -> Any:
    x.t()[1:3] = 5.0
    return x * 2


def negate_transposed(x: Any) -> Any:
    x.neg_()
    return x + 1


def write_through_chunk(x: Any) -> Any:
    a, b = x.chunk(2)
    a.add_(1)
    return x, b * 2


def write_through_split(x: Any) -> Any:
    parts = x.split(1)
    parts[2].mul_(3)
    parts[0].copy_(parts[1])
    return x.sum(0)


def write_through_unbind(x: Any) -> Any:
    rows = x.unbind(1)
    rows[1].zero_()
    return rows[0] + rows[1], x


def copy_of_itself(x: Any) -> Any:
    x.copy_(x.reshape(-1).view(4, 4))
    return x


def made_here(x: Any) -> Any:
    y = torch.arange(6.0).view(2, 3).add_(1)
    return y + x[:2, :3]


def product_with_one(x: Any) -> Any:
    y = x + 1
    return y, y * 1.0


def results_that_share(x: Any) -> Any:
    y = (x * 2).t()
    return y, y[1:], y.reshape(2, 8)


def argument_and_view(x: Any) -> Any:
    return x, x.t(), x[1], x[:, 1:][2:]


def same_twice(x: Any) -> Any:
    y = x + 1
    return y, y


def repeated(x: Any) -> Any:
    return (x + 1)[:, :1].expand(4, 4), x.sum()


def every_second(x: Any) -> Any:
    return (x + 1)[::2], (x * 2)[:, 1]


def shift_by_one(x: Any) -> Any:
    x[1:] = x[:-1].clone()
    return x


def swap(x: Any) -> Any:
    a = x[0].clone()
    x[0] = x[1]
    x[1] = a
    return x


def view_and_write_later(x: Any) -> Any:
    y = x * 2
    z = y[1:]
    y.mul_(3)
    return z + 0, y


def clone_then_write(x: Any) -> Any:
    y = x.clone()
    x.zero_()
    return y


def flipped(x: Any) -> Any:
    return x.flip(0) + x.flip(1)


def index_with_negative(x: Any) -> Any:
    at = torch.tensor([-1, 0])
    x[at] = 2.0
    x[:, at] += 1
    return x


def diagonal(x: Any) -> Any:
    x.diagonal().fill_(9)
    return x.diagonal() * 2


def strided(x: Any) -> Any:
    x.as_strided((2, 2), (5, 1), 1).mul_(2)
    return x.as_strided((3,), (4,)) + 1


def nothing_returned(x: Any) -> None:
    x.add_(1)


def transposed_output(x: Any) -> Any:
    return torch.empty_like(x.t()).copy_(x.t()), x.t().contiguous(), x.t() + 1


PROGRAMS = [
    assign_column, assign_column_in_silence, assign_column_of_mask, assign_rows_of_transposed,
    negate_transposed, write_through_chunk, write_through_split, write_through_unbind,
    copy_of_itself, made_here, product_with_one, results_that_share, argument_and_view, same_twice,
    repeated, every_second, shift_by_one, swap, view_and_write_later, clone_then_write, flipped,
    index_with_negative, diagonal, strided, nothing_returned, transposed_output,
]  # fmt: skip
MAKERS = {"compile": lambda program, args: compiled(program), "capture": captured}
LAYOUTS = {
    "contiguous": lambda: floats(4, 4),
    "transposed": lambda: floats(4, 4).t(),
    "slice": lambda: floats(4, 6)[:, 1:5],
    "column_steps": lambda: floats(4, 8)[:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_views_and_writes(program: Any, maker: str, layout: str) -> None:
    x = LAYOUTS[layout]()
    if layout == "column_steps" and program is strided:
        pytest.skip("its elements would lie beyond the others")
    made = MAKERS[maker](program, (x,))
    check_calls(program, made, [(x,), (x * 0.5 + 1,)] if layout == "contiguous" else [(x,)])
