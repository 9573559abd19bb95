# SPDX-License-Identifier: Apache-2.0
"""torch.utils.flop_counter counts operators by their own `.flops`."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from generated import example, operators, torch_op  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

OPS = torch.ops.anyop


def counted(f: Any, *args: Any) -> dict[str, int]:
    """By the short name of each operator of ours that f calls."""
    with FlopCounterMode(display=False) as counter:
        f(*args)
    found = counter.get_flop_counts().get("Global", {})
    names = {str(packet).removeprefix("anyop."): flops for packet, flops in found.items()}
    assert counter.get_total_flops() == sum(names.values())
    return {n: flops for n, flops in names.items() if not n.startswith("aten.")}


@pytest.mark.parametrize("op", operators())
def test_what_is_stated_is_counted_and_nothing_else(op: str) -> None:
    info, name = anyop.info(op), op.removeprefix("anyop.")
    found = counted(torch_op(op), *example(op).torch_values)
    if not info["flops"]:
        assert not found
        return
    assert list(found) == [name] and found[name] >= 0 and isinstance(found[name], int)


def test_a_count_is_what_the_operator_says() -> None:
    x, w = torch.randn(2, 5, 16), torch.randn(32, 16)
    assert counted(anyop.linear, x, w) == {"linear": 2 * 10 * 32 * 16}
    out = torch.empty(2, 5, 32)
    assert counted(lambda: OPS.linear.out(x, w, out=out)) == {"linear": 2 * 10 * 32 * 16}
    assert counted(lambda: anyop.linear(x, w, out=out)) == {"linear": 2 * 10 * 32 * 16}
    assert counted(lambda: anyop.linear(x, weight=w)) == {"linear": 2 * 10 * 32 * 16}
    y, table = torch.randn(3, 2, 16), torch.randn(3, 8)
    assert counted(OPS.rope_, y, None, table) == {"rope_": 3 * 8 * 3 * 2}
    meta = x.to("meta"), w.to("meta")
    assert counted(anyop.linear, *meta) == {"linear": 2 * 10 * 32 * 16}


def test_gradients_and_modules_count() -> None:
    from anyop.torch import nn

    module, x = nn.Linear(16, 32), torch.randn(10, 16, requires_grad=True)

    def train() -> None:
        module(x).sum().backward()

    forward = 2 * 10 * 32 * 16
    assert counted(train) == {"linear": forward, "linear_backward": 2 * forward}
    with FlopCounterMode(display=False) as counter:
        torch.nn.Sequential(module, nn.Linear(32, 8))(x)
    assert sum(counter.get_flop_counts()["Sequential.0"].values()) == forward
    assert counter.get_total_flops() == forward + 2 * 10 * 32 * 8


def test_symbolic_sizes_count_as_what_they_were_traced_with() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    x, w = (mode.from_tensor(torch.randn(s), static_shapes=False) for s in ((10, 16), (32, 16)))
    assert isinstance(x.shape[0], torch.SymInt)
    assert counted(OPS.linear.default, x, w) == {"linear": 2 * 10 * 32 * 16}


@pytest.mark.slow
def test_a_compiled_graph_counts_what_torch_dispatches() -> None:
    x, w = torch.randn(10, 16), torch.randn(32, 16)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: anyop.linear(x + 1, w), backend="aot_eager")
    compiled(x, w)
    assert counted(compiled, x, w) == {"linear": 2 * 10 * 32 * 16}


def test_an_operator_that_is_defined_later_counts() -> None:
    @anyop.define("flops_twice(x: f32[n]) -> (y: f32[n])", flops="2 * n")
    def flops_twice(x: Any) -> Any:
        return 2 * x

    assert counted(flops_twice, torch.ones(7)) == {"user.flops_twice": 14}
