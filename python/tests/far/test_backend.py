# SPDX-License-Identifier: Apache-2.0
"""torch's device for tests itself, without any operator of anyop: what it does is what the CPU
does, in the order of streams, and not before somebody waits for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import far_torch
import pytest
import torch

FAR = torch.device("far:0")


def current() -> torch.Stream:
    return torch.accelerator.current_stream()


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- Tensors there and back.


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float8_e4m3fn]
)
def test_a_tensor_comes_back_as_it_went(dtype: torch.dtype) -> None:
    x = (drawn(3, 5) * 4).to(dtype)
    there = x.to(FAR)
    assert (there.device, there.dtype, there.stride()) == (FAR, dtype, x.stride())
    assert torch.equal(there.cpu().view(torch.uint8), x.view(torch.uint8))


def test_strides_survive_copies() -> None:
    x = drawn(4, 6)
    there = x.to(FAR)
    assert torch.equal(there.t().cpu(), x.t())
    assert torch.equal(there[1::2, ::3].cpu(), x[1::2, ::3])
    there[:, 2].copy_(torch.ones(4))
    there[1] = torch.arange(6)  # converted on the way
    x[:, 2], x[1] = 1, torch.arange(6)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.to("far:1").t().to(FAR).cpu(), x.t())


def test_empty_tensors_and_numbers() -> None:
    assert torch.empty(0, 3, device=FAR).cpu().shape == (0, 3)
    assert torch.tensor(2.5, device=FAR).item() == 2.5
    assert torch.zeros((), dtype=torch.int64, device=FAR).tolist() == 0


def test_what_a_program_asks_about_the_device() -> None:
    x = torch.ones(2, device="far")
    assert x.is_far and x.far() is x and str(x.device) == "far:0"
    assert torch.accelerator.current_accelerator() == torch.device("far")
    assert torch.accelerator.device_count() == 2
    with torch.device("far:1"), torch.far.device(1):
        assert torch.ones(1).device == torch.device("far:1")
        assert torch.empty(1, device="far").device == torch.device("far:1")


# ---- As the CPU computes.

CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "add": lambda x, y: x + y * 2,
    "in place": lambda x, y: x.clone().add_(y).mul_(0.5),
    "out": lambda x, y: torch.mul(x, y, out=torch.empty(0, device=x.device)),
    "mm": lambda x, y: x @ y.t(),
    "softmax": lambda x, _: x.softmax(-1),
    "sum": lambda x, _: x.sum(0),
    "views": lambda x, y: torch.stack([x[1:], y[:-1]]).transpose(0, 1).reshape(-1),
    "comparison": lambda x, y: torch.where(x > y, x, y),
    "two results": lambda x, _: x.max(-1),
    "list": lambda x, y: torch.cat([x, y]).split(2),
    "foreach": lambda x, y: torch._foreach_add([x, y], 1.0),
    "index": lambda x, _: x[torch.tensor([1, 0], device=x.device)],
    "index of the host": lambda x, _: x[torch.tensor([1, 0])],
    "shapes by data": lambda x, _: x[x > 0],
    "numbers": lambda x, y: (x.to(torch.int32) * 2.5, y.sum().item()),
    "attention": lambda x, y: torch.nn.functional.scaled_dot_product_attention(
        *[t.view(1, 1, *t.shape) for t in (x, y, x)]
    ),
}


def same(ours: object, theirs: object) -> None:
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, torch.Tensor) and ours.device == FAR
        torch.testing.assert_close(ours.cpu(), theirs)
        assert ours.stride() == theirs.stride()
    elif isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    else:
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_computes_what_the_cpu_computes(name: str) -> None:
    x, y = drawn(4, 6), drawn(4, 6, seed=1)
    same(CALLS[name](x.to(FAR), y.to(FAR)), CALLS[name](x, y))


def trained(device: str, make: Callable[..., torch.optim.Optimizer]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(16, 3)).to(device)
    x, wanted = drawn(5, 8).to(device), torch.tensor([0, 2, 1, 1, 0]).to(device)
    optimizer = make(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), wanted).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


@pytest.mark.parametrize("fused", [False, True])
def test_training_steps_are_those_of_the_cpu(fused: bool) -> None:
    def make(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=0.01, fused=fused)  # type: ignore[arg-type]

    _, before = far_torch.boxed_counts()
    for ours, theirs in zip(trained("far", make), trained("cpu", make), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert far_torch.boxed_counts()[1] == before  # nothing waited on its way


def test_autocast_reaches_the_device() -> None:
    with torch.autocast("far", dtype=torch.bfloat16):
        y = torch.ones(2, 4, device=FAR) @ torch.ones(4, 4, device=FAR)
    assert y.dtype == torch.bfloat16 and y.sum().item() == 32


def test_random_numbers_depend_on_the_order_of_calls_alone() -> None:
    s = torch.Stream(device=FAR)

    def two() -> list[torch.Tensor]:
        torch.manual_seed(7)
        with far_torch.held(current()):
            first = torch.rand(4, device=FAR)
            with s:
                second = torch.randn(4, device=FAR)
                second.cpu()
        return [first.cpu(), second.cpu()]

    once, again = two(), two()
    assert all(map(torch.equal, once, again)) and not torch.equal(*once)
    state = torch.far.get_rng_state()
    x = torch.rand(3, device=FAR)
    torch.far.set_rng_state(state)
    assert torch.equal(x.cpu(), torch.rand(3, device=FAR).cpu())
    with pytest.raises(RuntimeError, match="Expected a 'far' device type for generator"):
        torch.rand(3, device=FAR, generator=torch.Generator())


# ---- The order of streams.


def test_a_call_returns_before_its_work_begins_and_cpu_waits_for_it() -> None:
    x = torch.ones(100, device=FAR)
    launches = far_torch.counts().launches
    with far_torch.held(current()):
        y = x * 2 + 1
        assert not current().query()
        assert far_torch.counts().launches == launches
    assert y.cpu().tolist() == [3] * 100
    while not current().query():
        pass


def test_an_event_orders_two_streams_and_a_forgotten_one_shows() -> None:
    s = torch.Stream(device=FAR)
    for with_event in (True, False):
        x = torch.ones(4, device=FAR)
        torch.accelerator.synchronize()
        with far_torch.held(current()):
            x.mul_(3)
            if with_event:
                s.wait_event(current().record_event())
            with s:
                y = x + 1
            if not with_event:
                s.synchronize()
        x.record_stream(s)
        s.synchronize()
        with s:
            assert y.cpu().tolist() == [4 if with_event else 2] * 4


def test_streams_come_from_a_pool() -> None:
    streams = [torch.Stream(device=FAR) for _ in range(40)]
    assert 2 <= len({s.stream_id for s in streams}) <= 8
    assert {far_torch.native(s) for s in streams} == {s.stream_id for s in streams}
    assert far_torch.native(current()) != 0


def test_events_have_times() -> None:
    first, last = (torch.Event(device=FAR, enable_timing=True) for _ in range(2))
    assert first.query()
    first.record()
    with far_torch.held(current()):
        (torch.ones(10, device=FAR) * 2).add_(1)
        last.record()
        assert not last.query()
    last.synchronize()
    assert last.query() and first.elapsed_time(last) > 0


def test_memory_that_a_side_stream_uses_is_kept_by_record_stream() -> None:
    s = torch.Stream(device=FAR)
    for i in range(10):
        x = torch.full((100,), float(i), device=FAR)
        s.wait_stream(current())
        with s, far_torch.held(s):
            y = x * 2
            x.record_stream(s)
            del x
            torch.full((100,), -1.0, device=FAR)
        with s:
            assert y.cpu().tolist() == [2.0 * i] * 100


def test_memory_is_given_back_when_tensors_die() -> None:
    torch.accelerator.synchronize()
    gc.collect()
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1000, device=FAR)
    y = (x * 2 + 1).sum()
    assert torch.accelerator.memory_allocated() >= before + 4000
    assert y.item() == 3000
    del x, y
    assert torch.accelerator.memory_allocated() == before


def test_a_backward_runs_on_the_stream_of_its_forward() -> None:
    s = torch.Stream(device=FAR)
    x = torch.full((50,), 3.0, device=FAR, requires_grad=True)
    s.wait_stream(current())
    with s:
        y = (x * x).sum()
    current().wait_stream(s)
    y.backward()
    assert x.grad is not None and x.grad.cpu().tolist() == [6] * 50


def test_the_host_may_write_to_what_it_has_copied() -> None:
    x = torch.ones(50)
    with far_torch.held(current()):
        y = x.to(FAR, non_blocking=True)
        z = y * torch.tensor(2.0) + 1
        x.fill_(-1)
    assert z.cpu().tolist() == [3] * 50


def test_pinned_memory_is_there_when_the_stream_is() -> None:
    y = torch.empty(50).pin_memory().fill_(-1)
    assert y.is_pinned()
    with far_torch.held(current()):
        y.copy_(torch.ones(50, device=FAR) * 5, non_blocking=True)
        assert y[0] == -1
    torch.accelerator.synchronize()
    assert y.tolist() == [5] * 50


def test_threads_have_streams_of_their_own() -> None:
    wrong: list[float] = []

    def run(i: int) -> None:
        device = torch.device("far", i % 2)
        with torch.Stream(device=device):
            for k in range(20):
                x = torch.full((64,), float(i + k), device=device)
                got = ((x + 1) * 2).sum().item()
                if got != 128.0 * (i + k + 1):
                    wrong.append(got)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ---- Compilers.


@pytest.mark.parametrize("how", [{"backend": "aot_eager"}, {"mode": "lite"}], ids=str)
@pytest.mark.slow
def test_a_compiled_function_is_right_on_side_streams(how: dict[str, str]) -> None:
    torch._dynamo.reset()

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w).sum()

    compiled = torch.compile(f, fullgraph=True, **how)  # type: ignore[call-overload]
    s = torch.Stream(device=FAR)
    for i in range(4):
        x, w = (drawn(8, 8, seed=i + k).requires_grad_() for k in (0, 10))
        there = [t.detach().to(FAR).requires_grad_() for t in (x, w)]
        f(x, w).backward()
        s.wait_stream(current())
        with s:
            compiled(*there).backward()
        current().wait_stream(s)
        for ours, theirs in zip(there, (x, w), strict=True):
            assert ours.grad is not None and theirs.grad is not None
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


# ---- What goes wrong.


def test_memory_that_runs_out_is_an_error_after_all_releases() -> None:
    free = torch.accelerator.get_memory_info()[0]
    for _ in range(5):  # more than there is, but not at once
        torch.empty(free // 2, dtype=torch.uint8, device=FAR)
    with pytest.raises(torch.OutOfMemoryError, match="far: there is no room for 1099511627776 b"):
        torch.empty(1 << 40, dtype=torch.uint8, device=FAR)


@pytest.mark.parametrize("wait", ["cpu", "synchronize", "stream"])
def test_a_late_error_is_raised_once_by_who_waits(wait: str) -> None:
    x = torch.ones(3, device=FAR)[torch.tensor([5], device=FAR)]
    waits: dict[str, Callable[[], object]] = {
        "cpu": x.cpu,
        "synchronize": torch.accelerator.synchronize,
        "stream": current().synchronize,
    }
    with pytest.raises(RuntimeError, match=r"^aten::index: index 5 is out of bounds for dim"):
        waits[wait]()
    waits[wait]()
    assert (torch.ones(2, device=FAR) + 1).tolist() == [2, 2]


def test_a_late_error_is_of_its_stream() -> None:
    s = torch.Stream(device=FAR)
    with s:
        torch.ones(3, device=FAR)[torch.tensor([5], device=FAR)]
    assert (torch.ones(2, device=FAR) + 1).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="index 5 is out of bounds"):
        s.synchronize()


def test_tensors_of_two_devices_are_refused() -> None:
    for other in ("far:1", "cpu"):
        with pytest.raises(RuntimeError, match=rf"at least two devices, .*{other}!"):
            torch.ones(3, device=FAR) + torch.ones(3, device=other)


def test_a_custom_operator_without_a_kernel_is_refused() -> None:
    with torch.library._scoped_library("far_tests", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        with pytest.raises(NotImplementedError, match="Could not run 'far_tests::twice'"):
            torch.ops.far_tests.twice(torch.ones(1, device=FAR))


# ---- Processes.


def run(program: str) -> subprocess.CompletedProcess[str]:
    program = f"import far_torch, torch\n{program}"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)


@pytest.mark.slow
def test_a_second_backend_is_refused_by_the_name_of_the_first() -> None:
    done = run(
        "far_torch.torch.utils.rename_privateuse1_backend('far')\n"
        "far_torch.start()\n"
        "from anyop.torch.virtual_device.start import begin, built\n"
        "print(begin(str(built()), far_torch.LIBRARY))\n"
    )
    assert done.stdout == (
        "far: torch has one device of this kind (PrivateUse1) in a process, and "
        '"far" has taken it.\n'
    ), done.stderr


@pytest.mark.slow
def test_a_process_ends_with_work_under_way() -> None:
    done = run(
        "far_torch.start()\n"
        "x = torch.ones(1000, device='far')\n"
        "for _ in range(200): y = x * 2\n"
        "print('over')\n"
    )
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr


@pytest.mark.slow
def test_the_host_cannot_read_a_tensor_of_the_device() -> None:
    done = run(
        "far_torch.start()\n"
        "import ctypes\n"
        "x = torch.ones(4, device='far')\n"
        "torch.accelerator.synchronize()\n"
        "ctypes.c_float.from_address(x.data_ptr()).value\n"
    )
    assert done.returncode < 0
    assert "far:0: the host touched device memory at offset 0x" in done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 6))
def test_other_delays_change_nothing(seed: int) -> None:
    env = {**os.environ, "FAR_SEED": str(seed), "FAR_DELAY_US": str(200 * (seed - 2))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "not slow and not exhaustive", str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:]
