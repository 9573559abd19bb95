# SPDX-License-Identifier: Apache-2.0
"""Scopes on a device: torch runs backward there on threads of its own, and what is called on them
follows the scope of the thread that asked for it."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import anyop.torch
import far_torch
import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

FAR = torch.device("far:0")
anyop.load(far_torch.LIBRARY)
PORTABLE = "rms_norm=cpu_portable,rms_norm_backward=cpu_portable"


@anyop.define("scoped_square_backward(dy: f32[..., d], x: f32[..., d]) -> (dx: f32[..., d]?)")
def scoped_square_backward(dy: Any, x: Any) -> Any:
    return dy * x * 2


@anyop.define(
    "scoped_square(x: f32[..., d]) -> (y: f32[..., d])", gradient="scoped_square_backward"
)
def scoped_square(x: Any) -> Any:
    return x * x


def leaf() -> torch.Tensor:
    return torch.arange(24.0).reshape(3, 8).to(FAR).requires_grad_()


def norm(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = anyop.rms_norm(x, None, 1e-5)
    return y


def kernels_of(f: Callable[[], object]) -> set[str]:
    """Of rms_norm and its gradient, those that f runs on the device."""
    anyop.synchronize("far:0")  # a call counts when its work is done: those from before, too
    anyop.reset_counters()
    f()
    anyop.synchronize("far:0")
    return {c.kernel for c in anyop.counters() if "rms_norm" in c.op and c.device != "cpu"}


def usual_kernels() -> set[str]:
    return kernels_of(lambda: norm(leaf()).sum().backward())


class CallsInBackward(torch.autograd.Function):
    """Forward does nothing; backward calls f."""

    f: Callable[[torch.Tensor], torch.Tensor]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *dy: torch.Tensor) -> torch.Tensor:
        return CallsInBackward.f(dy[0])


def in_function(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
    CallsInBackward.f = f
    y = CallsInBackward.apply(leaf())
    y.sum().backward()


def in_hook(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = leaf() * 1
    x.register_hook(f)
    x.sum().backward()


@pytest.fixture(params=[in_function, in_hook])
def in_backward(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    yield request.param


def test_a_gradient_follows_the_policy_where_backward_is_called() -> None:
    y = norm(leaf()).sum()
    with anyop.policy(PORTABLE):
        assert kernels_of(y.backward) == {"cpu_portable"}
    assert usual_kernels() != {"cpu_portable"}  # nothing of it stays on torch's thread


def test_a_gradient_does_not_follow_the_policy_of_the_forward() -> None:
    usual = usual_kernels()
    with anyop.policy(PORTABLE):
        y = norm(leaf()).sum()
    assert kernels_of(y.backward) <= usual - {"cpu_portable"}


def test_the_thread_that_calls_backward_gives_the_scope() -> None:
    y = norm(leaf()).sum()

    def elsewhere() -> None:
        with anyop.policy(PORTABLE):
            y.backward()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert kernels_of(lambda: pool.submit(elsewhere).result()) == {"cpu_portable"}
    assert usual_kernels() != {"cpu_portable"}


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_forward_that_is_computed_again_follows_the_scope(reentrant: bool) -> None:
    def f() -> None:
        checkpoint(lambda x: norm(x).sin(), leaf(), use_reentrant=reentrant).sum().backward()

    with anyop.policy(PORTABLE):
        assert kernels_of(f) == {"cpu_portable"}


def test_a_fallback_reaches_gradients_written_in_python() -> None:
    with pytest.raises(NotImplementedError, match="runs on the host alone"):
        scoped_square(leaf())
    with anyop.fallback("cpu"):
        x = leaf()
        scoped_square(x).sum().backward()
        y = scoped_square(leaf()).sum()
    assert torch.equal(x.grad.cpu(), 2 * x.detach().cpu())
    with pytest.raises(NotImplementedError, match="runs on the host alone"):
        y.backward()


def test_every_setting_reaches_code_in_backward(in_backward: Callable[..., None]) -> None:
    seen: list[str] = []

    def look(dy: torch.Tensor) -> torch.Tensor:
        seen.append(anyop._anyop.scope_text())
        return dy

    settings = anyop.Scope(
        policy="rms_norm=cpu_portable", strict=True, batch_invariant=True, threads=2
    )
    with settings:
        in_backward(look)
        here = anyop._anyop.scope_text()
    in_backward(look)
    assert seen == [here, ""] and here


def test_calls_of_every_kind_follow_the_scope_in_backward(
    in_backward: Callable[..., None],
) -> None:
    """Calls on NumPy's arrays, on tensors of the CPU and of the device, and graphs."""
    array = np.ones((3, 8), np.float32)
    calls: dict[str, Callable[[], object]] = {
        "numpy": lambda: anyop.rms_norm(array, None, 1e-5),
        "cpu": lambda: norm(torch.ones(3, 8)),
        "device": lambda: norm(torch.ones(3, 8, device=FAR)),
        "graph": anyop.graph(lambda x: anyop.rms_norm(x, None, 1e-5), array).__call__,
    }
    for name, call in calls.items():
        arguments = (array,) if name == "graph" else ()

        def run(dy: torch.Tensor, call: Any = call, arguments: Any = arguments) -> torch.Tensor:
            call(*arguments)
            return dy

        for _ in range(2):
            anyop.reset_counters()
            with anyop.policy("rms_norm=cpu_portable"):
                in_backward(run)
            anyop.synchronize("far:0")
            found = [c.kernel for c in anyop.counters() if c.op == "anyop.rms_norm"]
            assert found == ["cpu_portable"], name
            in_backward(run)
            anyop.synchronize("far:0")
            found = [c.kernel for c in anyop.counters() if c.op == "anyop.rms_norm"]
            assert len(found) == 2, (name, found)


def test_a_block_within_backward_ends_there(in_backward: Callable[..., None]) -> None:
    seen: list[str] = []

    def look(dy: torch.Tensor) -> torch.Tensor:
        for block in (contextlib.nullcontext(), anyop.strict(), contextlib.nullcontext()):
            with block:
                seen.append(anyop._anyop.scope_text())
        return dy

    with anyop.threads(3):
        in_backward(look)
        within, strict, after = seen
        assert within == after == anyop._anyop.scope_text() != strict
    seen.clear()
    in_backward(look)
    assert seen[0] == seen[2] == "" != seen[1]


def test_a_block_left_open_within_backward_is_of_that_backward() -> None:
    def leave_open(dy: torch.Tensor) -> torch.Tensor:
        anyop.strict().__enter__()
        return dy

    seen: list[str] = []

    def look(dy: torch.Tensor) -> torch.Tensor:
        seen.append(anyop._anyop.scope_text())
        return dy

    in_function(leave_open)
    in_function(look)
    assert seen == [""]


def test_an_outer_block_that_ends_within_backward_is_over_behind_it() -> None:
    block = anyop.strict()
    seen: list[str] = []

    def leave(dy: torch.Tensor) -> torch.Tensor:
        block.__exit__(None, None, None)
        return dy

    def look(dy: torch.Tensor) -> torch.Tensor:
        seen.append(anyop._anyop.scope_text())
        return dy

    x = torch.ones(3, requires_grad=True)  # on the CPU, whose backward is on this thread
    y = x * 1
    y.register_hook(leave)
    block.__enter__()
    y.sum().backward()
    anyop.strict(False).__enter__()  # as it is
    seen.append(anyop._anyop.scope_text())
    in_function(look)
    assert seen == ["", ""]


def test_threads_that_call_backward_at_once_each_give_their_scope() -> None:
    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, seen: list[str]) -> torch.Tensor:
            ctx.seen = seen
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *dy: torch.Tensor) -> Any:
            ctx.seen.append(anyop._anyop.scope_text())
            return dy[0], None

    def run(n: int) -> tuple[set[str], str]:
        seen: list[str] = []
        with anyop.threads(n) if n else contextlib.nullcontext():
            for _ in range(30):
                y = leaf()
                for _ in range(5):
                    y = Look.apply(y, seen)
                y.sum().backward()
            return set(seen), anyop._anyop.scope_text()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    assert [seen for seen, _ in found] == [{own} for _, own in found]
    assert len({own for _, own in found}) == 4


def test_a_profiler_that_ends_within_a_block_is_torchs_own() -> None:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    with anyop.strict():
        profiler.stop()
        norm(leaf()).backward(torch.ones(3, 8, device=FAR))
