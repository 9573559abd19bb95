# SPDX-License-Identifier: Apache-2.0
"""A legal program never fails and never differs: views, writes, aliases, sizes, names."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from legal import captured, check_calls, compiled  # noqa: E402
from torch import nn  # noqa: E402


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


def test_modules_whose_names_are_numbers() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    made = captured(model, (floats(4, 4),))
    assert made.details.why_not == ""
    check_calls(model, made, [(floats(4, 4),)])


def named_as_sizes(s47: Any, s0: Any) -> Any:
    return s47 + s0 * 2


def flipped_both(x: Any) -> Any:
    return x.flip(0) + x.flip(1)


def halves(x: Any) -> Any:
    parts = x.chunk(2)
    return parts[0] * 2, parts[-1] + 1


def scaled_and_cut(x: Any) -> Any:
    x.mul_(2)
    return x[:, :2].t(), x.shape[0]


@pytest.mark.parametrize(
    ("program", "n"), [(named_as_sizes, 2), (flipped_both, 1), (halves, 1), (scaled_and_cut, 1)]
)
def test_sizes_that_vary(program: Any, n: int) -> None:
    calls = [(floats(a, b),) * n for a, b in ((4, 6), (5, 3), (1, 8), (7, 2))]
    calls = [tuple(x.clone() for x in row) for row in calls]
    check_calls(program, compiled(program, dynamic=True), calls)


def test_a_size_that_only_a_result_has_reaches_the_host() -> None:
    """ceil(n / 2), of a part of the program, is what a later part is called with."""
    made = captured(halves, (floats(3, 4),), dynamic={"x": {0: "n"}})
    check_calls(halves, made, [(floats(3, 4),)])


def add_and_double(a: Any, b: Any) -> Any:
    a.add_(1)
    b.mul_(2)
    return a + b


def test_arguments_that_a_graph_cannot_write() -> None:
    """Their memory has gaps, or is shared; the graph was made of others."""
    made = anyop.torch.capture(add_and_double, floats(4, 4), floats(4, 4))
    for make in (
        lambda: (floats(4, 8)[:, ::2], floats(4, 4)),
        lambda: (floats(4, 4), floats(4, 4).t()),
        lambda: (lambda x: (x[:4], x[1:5]))(floats(6, 4)),
    ):
        mine, theirs = make(), make()
        torch.testing.assert_close(made(*mine), add_and_double(*theirs))
        torch.testing.assert_close(mine, theirs)
        with anyop.strict(), pytest.raises(anyop.Error):
            made(*make())
    with pytest.raises(anyop.InvalidArgument, match="a is f32"):
        made(floats(5, 4), floats(5, 4))


def test_bound_tensors_that_share_memory() -> None:
    memory = torch.zeros(4, 4)
    part = memory[1:3]

    def program(x: Any) -> Any:
        part.add_(x)
        return memory * 2, part

    made = anyop.torch.capture(program, torch.ones(2, 4))
    assert "share memory" in made.details.why_not
    doubled, same = made(torch.ones(2, 4))
    assert memory[1, 0] == 1 and doubled[1, 0] == 2 and same is part


def test_the_number_of_an_example_is_not_the_programs() -> None:
    def program(x: Any, i: Any) -> Any:
        return x[i] * 2

    with pytest.raises(anyop.InvalidArgument, match="asks for the elements of a tensor"):
        anyop.torch.capture(lambda x, i: x[int(i)], floats(3, 4), torch.tensor(1))
    check_calls(program, torch.compile(program, backend="anyop"),
                [(floats(3, 4), torch.tensor(i)) for i in (1, 0, -1)])  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_an_id_below_zero_is_an_error(maker: str) -> None:
    def program(ids: Any, table: Any) -> Any:
        return nn.functional.embedding(ids, table)

    table = floats(10, 4)
    made = MAKERS[maker](program, (torch.tensor([1, 2]), table))
    check_calls(program, made, [(torch.tensor([0, 9]), table)])
    for wrong in (-1, 10):
        with pytest.raises((IndexError, ValueError)):
            program(torch.tensor([1, wrong]), table)
        with pytest.raises((IndexError, ValueError), match=f"{wrong}|out of range"):
            made(torch.tensor([1, wrong]), table)


def test_strict_shows_what_is_not_lowered() -> None:
    def program(x: Any) -> Any:
        return torch.erf(x) * 2

    with anyop.strict():
        with pytest.raises(anyop.Unsupported, match=r"aten.erf.default at .*no converter"):
            captured(program, (floats(3, 4),))
        with pytest.raises(anyop.Unsupported, match=r"aten.erf.default at .*no converter"):
            compiled(program)(floats(3, 4))
        captured(lambda x: x * 2, (floats(3, 4),))


@pytest.mark.defects
def test_a_defect_is_logged_and_the_program_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from anyop.torch._lower import lower
    from anyop.torch.patterns import aten_patterns

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("of no use")

    for place in ((aten_patterns, "fuse"), (lower.Lowering, "add_outputs")):
        monkeypatch.setattr(*place, broken)
        for make in (lambda: compiled(assign_column), lambda: captured(assign_column, (X,))):
            check_calls(assign_column, make(), [(X,)])
    assert [r.message for r in caplog.records if "defect" in r.message and "of no use" in r.message]
    with anyop.strict(), pytest.raises(ZeroDivisionError):
        captured(assign_column, (X,))


X = floats(4, 4)


def test_writes_to_bound_tensors_are_counted() -> None:
    """torch's version counter tells autograd, and frozen weights, that a tensor was written."""
    buffer = floats(4, 4)

    def program(x: Any) -> Any:
        buffer.mul_(0.5)
        return x + buffer

    made = captured(program, (X,))
    before = buffer._version
    made(X)
    assert buffer._version > before

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(4, 4))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x)
            return x * 2

    model = Counting()
    with torch.no_grad():
        step = compiled(model)
        step(X)
        before = model.seen._version
        step(X)
    assert model.seen._version > before


def test_bound_tensors_with_gaps_are_written() -> None:
    memory = torch.zeros(4, 8)
    part = memory[:, ::2]

    def program(x: Any) -> Any:
        part.add_(x)
        return part * 2

    made = captured(program, (X,))
    torch.testing.assert_close(made(X), X * 2)
    torch.testing.assert_close(memory[:, ::2], X)
    assert not memory[:, 1::2].any() and made.details.why_not == ""


def test_an_argument_that_is_part_of_a_bound_tensor() -> None:
    memory = torch.zeros(4, 8)

    def program(x: Any) -> Any:
        x.copy_(torch.ones(4, 4))
        return memory * 2

    made = captured(program, (torch.zeros(4, 8)[:, ::2],))
    assert made(memory[:, ::2]).sum() == 32


def test_sizes_are_returned_as_torch_returns_them() -> None:
    def program(x: Any) -> Any:
        return (x @ x.t()).shape, {"size": x.size(0), "shape": x.shape[1:]}

    made = captured(program, (floats(3, 4),), dynamic={"x": {0: "n"}})
    for n in (3, 5):
        given, wanted = made(floats(n, 4)), program(floats(n, 4))
        assert given == wanted and type(given[0]) is type(wanted[0]) is torch.Size


def test_what_torch_makes_no_functional_program_of_is_no_defect() -> None:
    """Its functionalization refuses to write elements that lie on one another, even where the part
    that is written has none, and views of varying sizes among the arguments."""

    def write_a_row(x: Any) -> Any:
        x[-1, None, :1] += 2
        return x * 2

    def write_a_view(x: Any, y: Any) -> Any:
        y[:] *= x
        return y + 1

    made = captured(write_a_row, (floats(1, 6).expand(2, 6),))
    given, wanted = floats(1, 6).expand(2, 6), floats(1, 6).expand(2, 6)
    torch.testing.assert_close(made(given), write_a_row(wanted))
    torch.testing.assert_close(given, wanted)
    x = floats(2)
    made = captured(write_a_view, (x, x.view(2)), dynamic=[{0: "n"}, {0: "m"}])
    for n in (2, 6):
        mine, theirs = floats(n), floats(n)
        torch.testing.assert_close(made(mine, mine[:]), write_a_view(theirs, theirs[:]))
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("maker", MAKERS)
def test_random_numbers_are_drawn_in_torchs_order_of_memory(maker: str) -> None:
    def program(x: Any) -> Any:
        return torch.rand_like(x.t() * 2), nn.functional.dropout(x.t() * 2)

    made = MAKERS[maker](program, (floats(3, 4),))
    torch.manual_seed(1)
    given = made(floats(3, 4))
    torch.manual_seed(1)
    torch.testing.assert_close(given, program(floats(3, 4)))


def attended(x: Any) -> Any:
    """In a graph it is a view of memory that lies in another order than torch's."""
    return nn.functional.scaled_dot_product_attention(x, x, x)


MEMORY_PROGRAMS = {
    "rand_like": lambda x: torch.rand_like(attended(x)),
    "dropout of more": lambda x: nn.functional.dropout(torch.tan(attended(x))),
    "exponential_": lambda x: attended(x).exponential_(),
    "as_strided": lambda x: attended(x).as_strided((4, 3), (16, 2), 1).clone(),
    "as_strided of more": lambda x: torch.tan(attended(x)).as_strided((4, 3), (16, 2), 1).clone(),
    "as_strided of a view": lambda x: torch.tan(
        torch.tan(attended(x)).transpose(1, 2).as_strided((4, 3), (16, 3), 1)
    ),
    "as_strided_scatter": lambda x: torch.tan(attended(x)).as_strided_scatter(
        torch.zeros(4, 3), (4, 3), (16, 3), 1
    ),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("program", MEMORY_PROGRAMS.values(), ids=MEMORY_PROGRAMS)
def test_what_reads_memory_in_its_order_reads_torchs(program: Any, maker: str) -> None:
    x = floats(1, 4, 2, 8)
    made = MAKERS[maker](program, (x,))
    torch.manual_seed(1)
    given = made(x)
    torch.manual_seed(1)
    torch.testing.assert_close(given, program(x))


@pytest.mark.parametrize("maker", MAKERS)
def test_a_cache_is_written_where_it_lies_though_a_view_of_it_is_no_view_of_a_graph(
    maker: str,
) -> None:
    """The host reads such views at their place among the writes."""

    def program(cache: Any, at: Any, rows: Any) -> Any:
        cache.index_copy_(0, at, rows)
        repeated = cache[:, None].expand(3, 2, 4)
        first, every_other = repeated * 2, cache[::2] * 2
        cache.index_copy_(0, at, rows * 3)
        return first, every_other, repeated * 2, cache[::2] * 2, repeated.reshape(6, 4)

    args = (floats(3, 4), torch.tensor([2, 0]), floats(2, 4))
    made = MAKERS[maker](program, args)
    check_calls(program, made, [args])
    report = anyop.torch.report(made) if maker == "capture" else anyop.torch.report()
    kinds = {row["operator"]: row["kind"] for row in report}
    assert kinds["aten.index_copy_.default"] == "operator"
