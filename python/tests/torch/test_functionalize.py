# SPDX-License-Identifier: Apache-2.0
"""Writes in compiled programs: what an in-place or out variant returns is what it wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
OPS = torch.ops.anyop


def write_what_was_returned(x: Any, c: Any) -> Any:
    y = OPS.sigmoid_(c)
    y.mul_(2)
    return y + 1


def write_the_argument(x: Any, c: Any) -> Any:
    y = OPS.add.out(x, x, out=c)
    c.mul_(2)
    return y + 1


def write_through_our_function(x: Any, c: Any) -> Any:
    y = anyop.add(x, x, out=c)
    y.mul_(2)
    return y + 1, c + 2


def write_a_fresh_tensor(x: Any, c: Any) -> Any:
    d = c * 1
    y = OPS.sigmoid_(d)
    d.mul_(2)
    return y + 1


def write_a_part(x: Any, c: Any) -> Any:
    d = c.clone()
    OPS.sigmoid_(d[1:]).mul_(3)
    return d + 1


def write_the_last_row(x: Any, c: Any) -> Any:
    OPS.sigmoid_(c[-1])
    return c + 1


def write_from_a_clone(x: Any, c: Any) -> Any:
    rows = c[:2].clone().view(2, 1, 8)
    anyop.reshape_and_cache(
        rows, rows, c.view(1, 5, 1, 8), torch.zeros(1, 5, 1, 8), torch.tensor([1, 2])
    )
    return c + 1


def write_from_a_clone_of_a_clone(x: Any, c: Any) -> Any:
    rows = c[:2].clone().view(2, 1, 8).clone()
    anyop.reshape_and_cache(
        rows, rows, c.view(1, 5, 1, 8), torch.zeros(1, 5, 1, 8), torch.tensor([1, 2])
    )
    return c + 1


def write_twice(x: Any, c: Any) -> Any:
    OPS.sigmoid_(OPS.sigmoid.out(x, out=c))
    return c + 1


def write_several(x: Any, c: Any) -> Any:
    y = torch.empty_like(x)
    made = anyop.add_rms_norm(x, x, None, out=(y, c))
    made.sum.mul_(2)
    return y + c


def write_one_of_several(x: Any, c: Any) -> Any:
    y, total = anyop.add_rms_norm(x, x, None, out=(None, c))
    total.mul_(2)
    return y + c


def write_wanted_gradients(x: Any, c: Any) -> Any:
    made = anyop.rms_norm_backward(x, x, x[0], 1e-6, 0.0, out=(c, False))
    made.dx.mul_(2)
    return made.dx + 1, made.dweight is None


PROGRAMS = [f for name, f in list(globals().items()) if name.startswith("write_")]


def check(program: Callable[..., Any], run: Callable[..., Any]) -> None:
    x = torch.randn(5, 8)
    ours = torch.randn(5, 8)
    eager = ours.clone()
    torch.testing.assert_close(run(x, ours), program(x, eager))
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize(
    "backend", ["aot_eager", "anyop", pytest.param("inductor", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_writes_are_those_of_the_program(program: Any, backend: str) -> None:
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        check(program, torch.compile(program, fullgraph=True, backend=backend))


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [write_a_part, write_the_last_row, write_from_a_clone, write_the_argument]
)
def test_compiled_writes_hit_their_place_where_sizes_vary(program: Any) -> None:
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        check(program, torch.compile(program, fullgraph=True, backend="inductor", dynamic=True))


@pytest.mark.parametrize("program", PROGRAMS)
def test_exported_writes_are_those_of_the_program(program: Any) -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Any, c: Any) -> Any:
            return program(x, c)

    exported = torch.export.export(Module(), (torch.randn(5, 8), torch.zeros(5, 8)))
    check(program, exported.module())
    check(program, exported.run_decompositions().module())
