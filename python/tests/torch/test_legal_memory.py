# SPDX-License-Identifier: Apache-2.0
"""Legal programs in which it matters where elements lie in memory, and which lie on one another."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from legal import captured, check_calls, compiled  # noqa: E402


def floats(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


MAKERS = {"compile": lambda p, a: compiled(p), "capture": captured}


def behind_others(*shape: int) -> Any:
    """A tensor whose memory has others before it."""
    return torch.cat([floats(*shape), floats(*shape) + 5])[shape[0] :]


def before_what_is_written(x: Any) -> Any:
    x[3] = x[0] * 2
    return x.as_strided((2, 3), (3, 3), 20) * 1


def before_what_is_written_twice(x: Any) -> Any:
    x[3] = x[0] * 2
    x[:] *= 2
    return x.as_strided((2, 3), (3, 3), 20) * 1


def before_what_is_replaced(x: Any) -> Any:
    y = torch.select_scatter(x, x[1] * 2, 0, 2)
    return torch.tan(y).sum() + torch.tan(y.as_strided((2, 3), (3, 1), 20))


def of_complex_numbers(x: Any) -> Any:
    y = torch.view_as_real(torch.view_as_complex(x.reshape(-1, 2)) * 1j)
    return y * y.as_strided((2, 1, 2), (3, 1, 0), 0)


def of_part_of_complex_numbers(x: Any) -> Any:
    y = torch.view_as_real(torch.view_as_complex(x.reshape(-1, 2)) * 1j)
    return torch.tan(y[:1].as_strided((2, 3), (3, 1), 2))


def behind_a_part(x: Any) -> Any:
    return torch.tan((x * 2)[:1].as_strided((3, 4), (8, 2), 1))


def of_integers(x: Any) -> Any:
    return torch.tan(x.exp()).view(torch.int32).as_strided((3, 2), (2, 1), 3) // 3


AS_STRIDED = {
    "before_what_is_written": (before_what_is_written, behind_others(4, 8)),
    "before_what_is_written_twice": (before_what_is_written_twice, behind_others(4, 8)),
    "before_what_is_replaced": (before_what_is_replaced, behind_others(4, 8)),
    "of_complex_numbers": (of_complex_numbers, floats(4)),
    "of_part_of_complex_numbers": (of_part_of_complex_numbers, floats(8)),
    "behind_a_part": (behind_a_part, floats(4, 8)),
    "of_integers": (of_integers, floats(4, 8)),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", AS_STRIDED)
def test_as_strided_reads_torchs_memory(name: str, maker: str) -> None:
    program, x = AS_STRIDED[name]
    made = MAKERS[maker](program, (x,))
    check_calls(program, made, [(x,)])


def test_a_call_that_a_graph_refuses_runs_though_another_program_raised_before() -> None:
    def pick(x: Any, at: Any) -> Any:
        return torch.tan(x)[at]

    def double(x: Any, y: Any) -> Any:
        x.add_(1)
        return torch.tan(y) * 2

    picked = captured(pick, (floats(3), torch.tensor([0, 1])))
    made = captured(double, (floats(4), floats(4)))
    with torch.no_grad():
        with pytest.raises(IndexError, match="^index 7 is out of bounds"):
            picked(floats(3), torch.tensor([0, 7]))
        mine, theirs = floats(6), floats(6)
        torch.testing.assert_close(made(mine[:4], mine[2:]), double(theirs[:4], theirs[2:]))
        torch.testing.assert_close(mine, theirs)


def fill_where_masked(x: Any) -> Any:
    y = x.expand(2, 3, 3)
    y.masked_fill_(y > 0, -1)
    return x + y.sum(0)


def fill_at(x: Any) -> Any:
    x[:2].unsqueeze(1).expand(2, 4, 3).index_fill_(1, torch.tensor([1]), 7)
    return x * 2


def put_at(x: Any) -> Any:
    x.expand(2, 3, 3)[:, torch.tensor([0, 2])] = 3
    return x * 2


def add_to_windows(x: Any) -> Any:
    x.as_strided((2, 3), (2, 1)).add_(1)
    return x * 2


def test_a_capture_reads_before_what_it_writes_where_torchs_functional_program_does_not() -> None:
    def program(x: Any) -> Any:
        x.mul_(2)
        return x.as_strided((2, 3), (3, 3), 20) * 1

    check_calls(program, captured(program, (behind_others(4, 8),)), [(behind_others(4, 8),)])
    made = captured(program, (floats(4, 8),))
    check_calls(program, made, [(floats(4, 8),)])
    assert made.details.why_not == ""  # type: ignore[attr-defined]


OVERLAPPING = [fill_where_masked, fill_at, put_at, add_to_windows]


@pytest.mark.filterwarnings("ignore:Use of")
@pytest.mark.parametrize("program", OVERLAPPING, ids=[p.__name__ for p in OVERLAPPING])
def test_elements_that_lie_on_one_another_are_written_as_torch_does(program: Any) -> None:
    """torch's functional program, of which torch.compile makes its own, computes something else."""
    made = captured(program, (floats(3, 3),))
    check_calls(program, made, [(floats(3, 3),), (floats(3, 3) * 2,)])
    assert "elements that lie on one another" in made.details.why_not  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("size", [0, 5])
def test_a_tensor_that_a_program_holds_is_not_resized(size: int) -> None:
    held = torch.zeros(size)

    def program(x: Any) -> Any:
        torch.neg(x, out=held)
        return held + 1

    with pytest.raises(anyop.InvalidArgument) as error:
        captured(program, (floats(4),))
    assert "changes by neg the form of a tensor that the program holds" in str(error.value)
    assert held.shape == (size,)
    held = torch.zeros(4)
    made = captured(program, (floats(4),))
    torch.testing.assert_close(made(floats(4)), 1 - floats(4))
    torch.testing.assert_close(held, -floats(4))


def test_memory_that_was_lent_in_inference_mode_is_written_outside_of_it() -> None:
    """A part's tensors over the same memory are the same objects from call to call."""

    def program(x: Any, at: Any) -> Any:
        return torch.tan(x.index_fill_(0, at, 7.0))

    x, at = floats(2, 3), torch.tensor([1])
    for modes in (torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode):
        made = captured(program, (x, at))
        for mode in modes:
            with mode():
                x.copy_(floats(2, 3))
                wanted = program(x.clone(), at)
                torch.testing.assert_close(made(x, at), wanted)
                assert x[1].tolist() == [7, 7, 7]
