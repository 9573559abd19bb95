# SPDX-License-Identifier: Apache-2.0
"""Every operator on torch's tensors of a device: results, gradients and writes are those of the
same call on the CPU, to the bit, as the same kernels run there."""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
import threading
from collections.abc import Callable
from typing import Any

import anyop
import far_torch
import pytest
import torch
from anyop.torch._dispatch.operators import TORCH_DTYPES
from generated import (
    FORMS,
    IDS,
    READERS,
    VIEWS,
    batched,
    contract,
    differentiable,
    example,
    listed,
    operators,
    torch_op,
    trained,
)
from torch._subclasses.fake_tensor import FakeTensorMode

FAR = torch.device("far:0")
anyop.load(far_torch.LIBRARY)

# Of each kind one: rows, two results, products, indices, caches that are written, lists.
FEW = {
    "anyop." + name
    for name in ("add", "add_rms_norm", "linear", "embedding", "attention", "reshape_and_cache")
}


def each(ops: list[str]) -> pytest.MarkDecorator:
    rest = pytest.mark.exhaustive
    marked = [pytest.param(op, marks=() if op in FEW else rest) for op in ops]
    return pytest.mark.parametrize("op", marked)


def there(value: Any) -> Any:
    """The same on the device."""
    if isinstance(value, list):
        return [there(v) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(FAR).requires_grad_(value.requires_grad)


def has_tensors(values: list[Any]) -> bool:
    return any(has_tensors(v) if isinstance(v, list) else torch.is_tensor(v) for v in values)


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(theirs, torch.Tensor):
        assert ours.device == FAR and ours.dtype == theirs.dtype
        view = VIEWS.get(theirs.dtype, theirs.dtype)
        found, wanted = ours.detach().cpu(), theirs.detach()
        if view.itemsize == 1:
            found, wanted = found.view(view), wanted.view(view)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    else:
        assert ours == theirs


@pytest.mark.parametrize(
    ("op", "form"),
    [pytest.param(*f, marks=pytest.mark.exhaustive if f[1] else ()) for f in FORMS],
    ids=IDS,
)
def test_a_call_is_that_of_the_cpu_and_waits_for_nothing(op: str, form: int) -> None:
    call = example(op, form)
    if not has_tensors(call.values):
        pytest.skip("no tensor says where it runs")
    here = call.copy().torch_values
    values = there(here)
    expected = listed(torch_op(op)(*here))
    waits = far_torch.counts().waits
    results = listed(torch_op(op)(*values))
    assert far_torch.counts().waits == waits
    same(results, expected)
    same(values, here)  # and what it writes to


@each([op for op in operators() if anyop.schemas(op)[1]])
def test_results_are_written_where_the_caller_says(op: str) -> None:
    call = example(op, dtype="f32")
    expected = listed(torch_op(op)(*call.copy().torch_values))
    if any(r is None for r in expected) or not has_tensors(call.values):
        pytest.skip("without a result, or without a tensor")
    names = [f"out_{r['name']}" for r in contract(op)["results"]]
    names = ["out"] if len(expected) == 1 else names
    outs = {n: torch.empty_like(r, device=FAR) for n, r in zip(names, expected, strict=True)}
    torch_op(op, "out")(*there(call.copy().torch_values), **outs)
    same(list(outs.values()), expected)


@each([op for op in operators() if anyop.schemas(op)[2]])
def test_a_call_in_place(op: str) -> None:
    call = example(op, dtype="f32")
    here = call.copy().torch_values
    values = there(here)
    results = listed(torch_op(op + "_")(*values))
    same(results, listed(torch_op(op + "_")(*here)))
    same(values, here)


@each([op for op in operators() if differentiable(op)])
def test_gradients_are_those_of_the_cpu(op: str) -> None:
    here = trained(op).torch_values
    values = there(here)
    for arguments in (here, values):
        used = [r for r in listed(torch_op(op)(*arguments)) if r is not None and r.requires_grad]
        ones = [torch.linspace(-1, 1, r.numel()).view(r.shape).to(r) for r in used]
        torch.autograd.backward(used, ones)
    for ours, theirs in zip(values, here, strict=True):
        if isinstance(theirs, torch.Tensor):
            same(ours.grad, theirs.grad)


@each(READERS)
def test_vmap(op: str) -> None:
    call = example(op, dtype="f32")
    if not has_tensors(call.values):
        pytest.skip("no tensors")
    for only in ("first", "all"):
        values, dims = batched(call, only)
        positions = [i for i, d in enumerate(dims) if d is not None]
        if not positions:
            continue

        def run(*tensors: Any, values: Any = values, positions: Any = positions) -> Any:
            given = dict(zip(positions, tensors, strict=True))
            return torch_op(op)(*[given.get(i, v) for i, v in enumerate(values)])

        mapped = torch.vmap(run, in_dims=tuple(dims[i] for i in positions))
        expected = listed(mapped(*[values[i] for i in positions]))
        values[:] = there(values)
        same(listed(mapped(*[values[i] for i in positions])), expected)


@each(operators())
@pytest.mark.slow
def test_fakes_and_compilers(op: str) -> None:
    values = tuple(there(trained(op).torch_values))
    if not has_tensors(list(values)):
        pytest.skip("no tensors")
    # Its fourth test knows CPU, CUDA and XPU alone.
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch_op(op), values, test_utils=checks)


# ---- Programs.


def model(x: Any, residual: Any, w: Any, up: Any, down: Any) -> Any:
    ops = torch.ops.anyop
    y, total = ops.add_rms_norm(x, residual, w)
    return total + ops.linear(ops.silu_and_mul(ops.linear(y, up)), down)


def weights(rows: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = [(rows, 16), (rows, 16), (16,), (48, 16), (16, 24)]
    return [torch.randn(s, generator=generator).requires_grad_() for s in shapes]


HOW: list[dict[str, Any]] = [{"backend": "aot_eager"}, {"backend": "anyop"}, {"mode": "lite"}]


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW, ids=str)
def test_a_compiled_model_is_the_eager_one(how: dict[str, Any]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, **how)
    s = torch.Stream(device=FAR)
    for rows in (3, 5):
        here = weights(rows)
        values = there(here)
        expected = model(*here)
        expected.sum().backward()
        s.wait_stream(torch.accelerator.current_stream())
        with s:
            made = compiled(*values)
            made.sum().backward()
            torch.testing.assert_close(made.detach().cpu(), expected.detach())
        torch.accelerator.current_stream().wait_stream(s)
        for ours, theirs in zip(values, here, strict=True):
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad)


@pytest.mark.slow
def test_an_exported_model_is_the_eager_one() -> None:
    class Model(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return model(*tensors)

    values = [v.detach() for v in there(weights(3))]
    program = torch.export.export(Model(), tuple(values))
    targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert "anyop.add_rms_norm.default" in targets
    same(program.module()(*values), model(*[v.detach() for v in weights(3)]))


# ---- Streams.


def current() -> torch.Stream:
    return torch.accelerator.current_stream()


def test_a_call_returns_before_its_work_begins_and_cpu_waits_for_it() -> None:
    x, w = torch.randn(4, 8), torch.randn(8)
    there_x, there_w = x.to(FAR), w.to(FAR)
    with far_torch.held(current()):
        y = torch.ops.anyop.rms_norm(there_x, there_w)
        z = torch.ops.anyop.add(y, there_x)
        assert not current().query()
    assert torch.equal(z.cpu(), torch.ops.anyop.rms_norm(x, w) + x)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_call_is_work_on_the_current_stream(is_ordered: bool) -> None:
    s = torch.Stream(device=FAR)
    x, one = torch.ones(4, device=FAR), torch.ones(4, device=FAR)
    torch.accelerator.synchronize()
    with far_torch.held(current()):
        torch.ops.anyop.add_(x, one)
        if is_ordered:
            s.wait_stream(current())
        with s:
            y = torch.ops.anyop.add(x, one)
        if not is_ordered:
            s.synchronize()  # does not wait for the other
    x.record_stream(s)
    with s:
        assert y.cpu().tolist() == [3 if is_ordered else 2] * 4


def test_a_call_on_another_device_than_the_current_one() -> None:
    x = torch.ones(3, device="far:1")
    assert torch.accelerator.current_device_index() == 0
    y = torch.ops.anyop.add(x, x)
    assert y.device == torch.device("far:1") and y.cpu().tolist() == [2, 2, 2]
    assert torch.accelerator.current_device_index() == 0


def test_memory_of_calls_is_torchs_and_is_given_back() -> None:
    x = torch.randn(64, 64).to(FAR)
    torch.accelerator.synchronize()
    before = torch.accelerator.memory_allocated()
    y = torch.ops.anyop.rms_norm(x, x[0])
    assert torch.accelerator.memory_allocated() == before + y.nbytes
    del y
    assert torch.accelerator.memory_allocated() == before


def test_threads_call_on_one_stream_and_on_streams_of_their_own() -> None:
    x, w = torch.randn(16, 32), torch.randn(32)
    wanted, wrong = torch.ops.anyop.rms_norm(x, w), []

    def run(stream: torch.Stream) -> None:
        with stream:
            for _ in range(20):
                y = torch.ops.anyop.rms_norm(x.to(FAR), w.to(FAR))
                if not torch.equal(y.cpu(), wanted):
                    wrong.append(y)

    shared, own = current(), torch.Stream(device=FAR)
    threads = [threading.Thread(target=run, args=(s,)) for s in (shared, shared, own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_autocast_makes_dtypes_agree() -> None:
    x, w = torch.randn(2, 8).to(FAR), torch.randn(8).bfloat16().to(FAR)
    with torch.autocast("far", dtype=torch.bfloat16):
        y = torch.ops.anyop.rms_norm(x, w)
    same(y, torch.ops.anyop.rms_norm(x.cpu().bfloat16(), w.cpu()))


def test_planned_tensors_lie_on_the_cpu_in_every_way_to_call() -> None:
    anyop.load(far_torch.LIBRARY.with_name("anyop_testing.so"))
    planned_sum = torch.ops.testing.planned_sum
    x, wanted = torch.arange(6.0).to(FAR), [2, 28]
    compiled = [torch.compile(lambda x, s: planned_sum(x * 2, s), backend=backend, fullgraph=True)
                for backend in ("aot_eager", "anyop")]  # fmt: skip
    for call in (lambda x, s: planned_sum(x + x, s), *compiled):
        starts = torch.tensor([0, 2, 6])
        y = call(x, starts)
        starts.fill_(-1)  # it has been read
        assert y.device == FAR and y.cpu().tolist() == wanted
    wrong = (
        "testing.planned_sum: starts is on far:0, but must be on cpu, because it is planned: the "
        "host reads it before the work begins. Try a copy on the CPU."
    )
    with pytest.raises(ValueError) as caught:
        planned_sum(x, torch.tensor([0, 6]).to(FAR))
    assert str(caught.value) == wrong
    for real in (x, x.cpu()):
        for call in (planned_sum, anyop.ops.testing.planned_sum):
            with pytest.raises(ValueError) as caught:
                call(real, torch.tensor([0, 6], device="meta"))  # which torch dispatches by
            assert str(caught.value) == wrong.replace("far:0", "meta")
    meta = planned_sum(x.to("meta"), torch.tensor([0, 2, 6]))
    assert meta.is_meta and meta.shape == (2,)
    with FakeTensorMode():
        fake = torch.empty(6, device=FAR)
        assert planned_sum(fake, torch.empty(3, dtype=torch.int64)).device == FAR
        with pytest.raises(ValueError) as caught:
            planned_sum(fake, torch.empty(3, dtype=torch.int64, device=FAR))
    assert str(caught.value) == wrong


# ---- What goes wrong.

LATE = "embedding: ids[1] is 9, but must be less than 4 (v)."


def wrong_call() -> torch.Tensor:
    ids = torch.tensor([0, 9], device=FAR)
    return torch.ops.anyop.embedding(ids, torch.ones(4, 2, device=FAR))


def test_an_index_out_of_range_is_told_once_by_who_looks_first() -> None:
    waits: list[Callable[[torch.Tensor], Any]] = [
        lambda y: y.cpu(),
        lambda _: torch.accelerator.synchronize(),
        lambda _: anyop.synchronize("far:0"),
    ]
    for wait in waits:
        y = wrong_call()
        with pytest.raises(ValueError) as error:
            wait(y)
        assert str(error.value).startswith(LATE)
        wait(y)
    wrong_call()
    far_torch.finish(current())
    with pytest.raises(ValueError) as error:
        torch.ops.anyop.add(torch.ones(2, device=FAR), torch.ones(2, device=FAR))
    assert str(error.value) == (
        f"{LATE} This is of earlier work on far:0, whose results are not to be used."
    )


def read_on_another_stream(y: torch.Tensor) -> None:
    other = torch.Stream(device=FAR)
    other.wait_stream(current())
    with other:
        torch.ops.anyop.add(y, y).cpu()


def read_on_another_device(y: torch.Tensor) -> None:
    y.to("far:1").cpu()


def read_pinned_memory(y: torch.Tensor) -> None:
    to = torch.empty(y.shape, pin_memory=True)
    to.copy_(y, non_blocking=True)
    current().record_event().synchronize()


def read_when_an_event_is_complete(y: torch.Tensor) -> None:
    event = current().record_event()
    while not event.query():
        pass


def read_on_another_thread(y: torch.Tensor) -> None:
    event = current().record_event()

    def read() -> None:
        with torch.Stream(device=FAR) as other:
            other.wait_event(event)
            y.cpu()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(read).result()


@pytest.mark.parametrize(
    "read",
    [
        read_on_another_stream,
        read_on_another_device,
        read_pinned_memory,
        read_when_an_event_is_complete,
        read_on_another_thread,
    ],
)
def test_a_late_error_reaches_whoever_waits_for_the_result(read: Any) -> None:
    y = wrong_call()
    with pytest.raises(ValueError, match=re.escape(LATE)):
        read(y)
    with contextlib.suppress(ValueError):  # its own stream tells it as well
        current().synchronize()
    read(torch.ones(2, 2, device=FAR))


@pytest.mark.parametrize(
    "scope", [anyop.strict(), anyop.data_checks("host")], ids=["strict", "host"]
)
def test_an_index_out_of_range_is_told_at_once_where_the_scope_says_so(scope: Any) -> None:
    with scope, pytest.raises(ValueError) as error:
        wrong_call()
    assert str(error.value) == LATE


def test_tensors_of_two_devices_are_refused_by_name() -> None:
    x = torch.ones(3, device=FAR)
    for other in ("cpu", "far:1"):
        with pytest.raises(ValueError) as error:
            torch.ops.anyop.add(x, torch.ones(3, device=other))
        assert "far:0" in str(error.value) and other in str(error.value)


def test_memory_that_runs_out_for_a_result() -> None:
    free = torch.accelerator.get_memory_info()[0]
    x = torch.empty(free // 5 * 3 // 4, device=FAR)
    with pytest.raises(torch.OutOfMemoryError, match="far: there is no room for"):
        torch.ops.anyop.cast(x, torch.float32)


def test_every_dtype_goes_through_a_cast() -> None:
    x = torch.tensor([0.0, 1.0, -2.5])
    for name, dtype in TORCH_DTYPES.items():
        if dtype.is_floating_point and name != "f4e2m1x2":  # pairs, which no cast makes
            same(torch.ops.anyop.cast(x.to(FAR), dtype), torch.ops.anyop.cast(x, dtype))


def test_explain_takes_tensors_of_the_device() -> None:
    x = torch.ones(4, 16, device=FAR)
    y = torch.full((4, 16), float("nan"), device=FAR)
    taken = anyop.explain(anyop.add, x, x)
    assert taken.kernel == anyop.explain(anyop.add, x.cpu(), x.cpu()).kernel
    assert anyop.explain(anyop.add, x, x, out=y).kernel == taken.kernel
    note = "x is copied first: no kernel takes strides [1, 4]"
    assert note in str(anyop.explain(anyop.rms_norm, torch.ones(16, 4, device=FAR).t()))
    ids = torch.zeros(3, dtype=torch.int64, device=FAR)
    with anyop.data_checks("host"):
        assert "the host waits for copies of ids" in str(anyop.explain(anyop.embedding, ids, x))
    refused = anyop.explain(anyop.add, x, x.cpu())
    assert refused.error.startswith("add: y is on cpu, but")
    assert y.isnan().all() and torch.equal(x.cpu(), torch.ones(4, 16))  # nothing is written


def test_explain_leaves_other_tensors_of_the_device_to_torch() -> None:
    x = torch.ones(4, 16, device=FAR)
    for other, why in (
        (x.clone().requires_grad_(), "a gradient is needed"),
        (torch.ones(4, 16, device="meta"), "no plain CPU tensor"),
        (torch._neg_view(x), "no plain CPU tensor"),
        (torch._neg_view(x.cpu()), "no plain CPU tensor"),
    ):
        with pytest.raises(ValueError, match=why):
            anyop.explain(anyop.add, x, other)
    with pytest.raises(ValueError, match="no plain CPU tensor"):
        anyop._anyop.time_call(1, anyop.add, x, x, out=x.clone())
