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
    return x.as_strided((2, 3), (3, 3), 23).argmax(-1)


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
        with pytest.raises(anyop.Error, match="index 7 is out of bounds"):
            picked(floats(3), torch.tensor([0, 7]))
        mine, theirs = floats(6), floats(6)
        torch.testing.assert_close(made(mine[:4], mine[2:]), double(theirs[:4], theirs[2:]))
        torch.testing.assert_close(mine, theirs)
