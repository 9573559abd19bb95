# SPDX-License-Identifier: Apache-2.0
"""Which calls with torch tensors go straight to the kernel, and which must not."""

from __future__ import annotations

import contextlib
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop

torch = pytest.importorskip("torch")


def test_the_fast_path_is_on() -> None:
    assert anyop.torch._route.fast.status() == {"active": True, "reason": ""}
    assert {anyop.torch._route.fast.start() for _ in range(50)} == {""}  # no luck is needed


@pytest.fixture
def dispatched() -> Iterator[list[tuple[Any, ...]]]:
    """The calls of anyop.add that go through torch's dispatcher."""
    calls: list[tuple[Any, ...]] = []
    overload, out = torch.ops.anyop.add.default, torch.ops.anyop.add.out

    def spy(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            return inner(*args, **kwargs)

        return call

    _anyop.torch_route(anyop.add, spy(overload), spy(out))
    yield calls
    _anyop.torch_route(anyop.add, overload, out)


def ones(*shape: int, **options: Any) -> Any:
    return torch.ones(shape or (3,), **options)


PLAIN = {
    "tensor": ones,
    "parameter without grad": lambda: torch.nn.Parameter(ones(), requires_grad=False),
    "view": lambda: ones(5)[1:4],
    "column": lambda: ones(3, 2)[:, 1],
    "expanded": lambda: ones(1).expand(3),
    "bf16": lambda: ones(dtype=torch.bfloat16),
    "from numpy": lambda: torch.from_numpy(np.ones(3, np.float32)),
    "empty": lambda: ones(0),
    "many dimensions": lambda: ones(1, 2, 1, 2, 1, 2, 3),
    "detached": lambda: ones(requires_grad=True).detach(),
}


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN.keys())
def test_plain_tensors_go_straight_to_the_kernel(make: Any, dispatched: list[Any]) -> None:
    x = make()
    y = anyop.add(x, x)
    assert not dispatched
    assert torch.equal(y, torch.add(x, x).to(x.dtype))
    assert (type(y), y.dtype, y.shape, y.requires_grad) == (torch.Tensor, x.dtype, x.shape, False)
    assert y.is_contiguous() and torch._C._dispatch_keys(y) == torch._C._dispatch_keys(ones())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_so_do_calls_in_the_common_modes(mode: Any, dispatched: list[Any]) -> None:
    x = ones()
    with mode():
        y = anyop.add(x, x)
        assert not dispatched
        assert y.is_inference() == torch.is_inference_mode_enabled()


def test_without_grad_mode_parameters_are_plain(dispatched: list[Any]) -> None:
    x = torch.nn.Parameter(ones())
    with torch.no_grad():
        assert torch.equal(anyop.add(x, x), ones() * 2)
    assert not dispatched
    anyop.add(x, x).sum().backward()
    assert len(dispatched) == 1 and torch.equal(x.grad, ones() * 2)


class Sub(torch.Tensor):
    pass


def fake_mode() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


class Recording(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return f(*args, **(kwargs or {}))


class Overriding(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return f(*args, **(kwargs or {}))


def resized_to_nothing() -> Any:
    x = ones()
    x.untyped_storage().resize_(0)
    return x


TENSORS = {
    "gradient needed": lambda: ones(requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(ones()),
    "subclass": lambda: ones().as_subclass(Sub),
    "negative": lambda: torch._neg_view(ones()),
    "zero tensor": lambda: torch._efficientzerotensor(3),
    "meta": lambda: ones(device="meta"),
    "sparse": lambda: ones().to_sparse(),
    "quantized": lambda: torch.quantize_per_tensor(ones(), 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([ones(), ones(2)]),
    "fake": lambda: fake_mode().from_tensor(ones()),
    "no storage": resized_to_nothing,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS.keys())
def test_these_tensors_go_through_the_dispatcher(make: Any, dispatched: list[Any]) -> None:
    x = make()
    with contextlib.suppress(RuntimeError, ValueError, NotImplementedError):
        anyop.add(x, x)
    assert len(dispatched) == 1


MODES = {
    "dispatch mode": Recording,
    "function mode": Overriding,
    "default device": lambda: torch.device("cpu"),
    "fake mode": fake_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "profiler": lambda: torch.profiler.profile(),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_these_modes_go_through_the_dispatcher(mode: Any, dispatched: list[Any]) -> None:
    x = ones()
    with mode():
        anyop.add(x, x)
    assert len(dispatched) == 1


TRANSFORMS = {
    "vmap": lambda f, x: torch.vmap(f)(x),
    "grad": lambda f, x: torch.func.grad(lambda t: f(t).sum())(x),
    "functionalize": lambda f, x: torch.func.functionalize(f)(x),
    "make_fx": lambda f, x: torch.fx.experimental.proxy_tensor.make_fx(f)(x)(x),
    "jit.trace": lambda f, x: torch.jit.trace(f, x, check_trace=False)(x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS.keys())
def test_transforms_go_through_the_dispatcher(transform: Any, dispatched: list[Any]) -> None:
    transform(lambda t: anyop.add(t, t), ones(2, 3))
    assert dispatched


def test_dual_tensors_go_through_the_dispatcher(dispatched: list[Any]) -> None:
    from torch.autograd import forward_ad

    x = ones()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, ones())
        anyop.add(x, x)
        assert not dispatched
        with contextlib.suppress(RuntimeError, NotImplementedError):
            anyop.add(dual, x)
    assert len(dispatched) == 1


def test_a_graph_runs_while_the_profiler_is_on() -> None:
    weight = ones(8)
    with torch.profiler.profile():
        graph = anyop.graph(lambda x: anyop.rms_norm(anyop.add(x, x), weight), "f32[n, 8]")
        assert torch.equal(graph(ones(2, 8)), anyop.rms_norm(ones(2, 8) * 2, weight))


def test_the_profiler_sees_the_operator() -> None:
    with torch.profiler.profile() as profile:
        anyop.add(ones(), ones())
    assert "anyop::add" in {event.key for event in profile.key_averages()}


def test_a_written_tensor_gets_a_new_version(dispatched: list[Any]) -> None:
    x, out = ones(), ones()
    assert anyop.add(x, x, out=out) is out
    assert (out._version, x._version) == (1, 0)
    weight = ones(requires_grad=True)
    loss = (weight * out).sum()  # keeps out for its gradient
    with torch.no_grad():
        anyop.add(x, x, out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert not dispatched


def test_an_inference_tensor_is_not_written_outside_inference_mode(dispatched: list[Any]) -> None:
    with torch.inference_mode():
        out = ones()
        anyop.add(ones(), ones(), out=out)
        assert not dispatched
    with pytest.raises(ValueError, match="add: z is an inference tensor, but is written outside"):
        anyop.add(ones() * 5, ones(), out=out)
    assert torch.equal(out, ones() * 2)


def test_copy_on_write_memory_is_unshared_before_it_is_written() -> None:
    x = ones()
    clone = torch._lazy_clone(x)
    anyop.add(x, x, out=clone)
    assert torch.equal(x, ones()) and torch.equal(clone, ones() * 2)


def test_mutable_arguments_are_changed_in_place() -> None:
    cache = torch.zeros(2, 4, 1, 8)
    anyop.reshape_and_cache(
        ones(3, 1, 8), ones(3, 1, 8), cache, cache.clone(), torch.tensor([1, 5, -1])
    )
    assert cache.sum() == 16 and cache._version == 1


def test_several_results_are_a_named_tuple_on_either_route(dispatched: list[Any]) -> None:
    x, weight = ones(2, 8), ones(8)
    fast = anyop.add_rms_norm(x, x, weight)
    slow = anyop.add_rms_norm(x.clone().requires_grad_(), x, weight)
    assert fast._fields == slow._fields and type(fast) is type(slow)
    assert torch.equal(fast.sum, slow.sum.detach())
    out = (torch.empty(2, 8), torch.empty(2, 8))
    given = anyop.add_rms_norm(x, x, weight, out=out)
    assert given[0] is out[0] and given[1] is out[1]
    with torch.profiler.profile():
        given = anyop.add_rms_norm(x, x, weight, out=(None, out[1]))
    assert given[1].data_ptr() == out[1].data_ptr() and torch.equal(given[0], fast[0])


def test_results_equal_those_of_numpy() -> None:
    x = np.random.default_rng(0).standard_normal((5, 64), np.float32)
    weight = np.ones(64, np.float32)
    expected = anyop.rms_norm(x, weight, eps=1e-5)
    y = anyop.rms_norm(torch.from_numpy(x), torch.from_numpy(weight), eps=1e-5)
    assert np.array_equal(y.numpy(), expected)


def test_a_dtype_is_given_by_name_or_as_torch_has_it() -> None:
    for dtype in (torch.bfloat16, "bf16"):
        assert anyop.cast(ones(), dtype).dtype == torch.bfloat16
    y = anyop.cast(ones(requires_grad=True), "bf16")
    assert y.dtype == torch.bfloat16 and y.requires_grad


def test_like_chooses_torch_where_no_tensor_says_so() -> None:
    for like in (torch, ones()):
        table = anyop.rotary_cache(4, 8, like=like)
        assert isinstance(table, torch.Tensor)
    assert isinstance(anyop.rotary_cache(4, 8), np.ndarray)


def test_explain_takes_torch_tensors() -> None:
    assert anyop.explain(anyop.add, ones(), ones()).kernel is not None


def serial_regions(calls: int) -> int:
    x = ones(512, 512)
    before = _anyop.pool_counters()["inline_calls"]
    for _ in range(calls):
        anyop.add(x, x)
    return _anyop.pool_counters()["inline_calls"] - before


@pytest.mark.skipif(anyop.get_num_threads() < 2, reason="this process has one core")
def test_threads_follow_torch() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        stalls = _anyop.pool_counters()["stalls"]
        if not any(serial_regions(20) == 0 or time.sleep(0.6) for _ in range(10)):
            # The pool keeps to one thread for half a second where the other had no core.
            assert _anyop.pool_counters()["stalls"] > stalls
            pytest.skip("the machine's other cores are busy")
        torch.set_num_threads(1)
        assert serial_regions(20) == 20
    finally:
        torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_computes_without_the_parents_threads() -> None:
    x = ones(512, 1024)
    anyop.silu_and_mul(x)  # in torch's pool, whose threads the child does not have
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.isfinite(anyop.silu_and_mul(x)[0, 0]) else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for threads that it does not have")
    assert status == 0


WRONG: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    (
        "a NumPy array",
        lambda: anyop.add(ones(), np.ones(3, np.float32)),
        TypeError,
        "add: y is a NumPy array, but the call has torch tensors, and all must come from one "
        "host. Try torch.from_numpy(y).",
    ),
    (
        "a torch tensor beside NumPy's",
        lambda: anyop.add(np.ones(3, np.float32), ones()),
        TypeError,
        "add: y is a torch tensor, but the call has NumPy arrays, and all must come from one "
        "host. Try y.numpy().",
    ),
    (
        "a NumPy array in out",
        lambda: anyop.add(ones(), ones(), out=np.ones(3, np.float32)),
        TypeError,
        "add: out is a NumPy array, but the call has torch tensors, and all must come from one "
        "host. Try torch.from_numpy(out).",
    ),
    (
        "a list",
        lambda: anyop.add(ones(), [1, 2, 3]),
        TypeError,
        "add: y is [1, 2, 3], but must be a torch tensor.",
    ),
    (
        "a shape",
        lambda: anyop.add(ones(2, 3), ones(2, 4)),
        ValueError,
        "add: y is f32[2, 4], but must be f32[2, 3] because x is f32[2, 3].",
    ),
    (
        "a dtype",
        lambda: anyop.add(ones(dtype=torch.complex32), ones(dtype=torch.complex32)),
        ValueError,
        "add: x is torch.complex32[3], but anyop has no such dtype. Try a cast to f32 or i64.",
    ),
    (
        "dimensions",
        lambda: anyop.add(ones(*[1] * 9), ones(*[1] * 9)),
        ValueError,
        "add: x has 9 dimensions, but must have at most 8.",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=[case[0] for case in WRONG])
def test_wrong_calls_say_what_is_wrong(case: Any) -> None:
    _, call, kind, text = case
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text.replace("add: out is", "add: z is").replace("(out)", "(z)")


def test_overlap_is_refused() -> None:
    x = ones(4)
    with pytest.raises(ValueError, match="overlaps x in memory"):
        anyop.add(x[:3], x[:3], out=x[1:])


def test_a_huge_result_is_out_of_memory() -> None:
    x = ones(1).expand(1 << 44)
    with pytest.raises(MemoryError):
        anyop.add(x, x)


def test_functions_keep_working_after_deepcopy_and_pickle() -> None:
    assert copy.deepcopy(anyop.add) is anyop.add


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_the_order_of_imports_does_not_matter() -> None:
    tell = "; print(type(anyop.add(torch.ones(2), torch.ones(2))), hasattr(torch.ops.anyop, 'add'))"
    expected = "<class 'torch.Tensor'> True"
    assert run("import torch, anyop" + tell) == expected
    assert run("import anyop, torch" + tell) == expected
    find = "import anyop, importlib.util; importlib.util.find_spec('torch'); import torch"
    assert run(find + tell) == expected


@pytest.mark.slow
def test_importing_anyop_does_not_import_torch() -> None:
    assert run("import sys, anyop; print('torch' in sys.modules)") == "False"
    assert run("import torch, anyop, sys; print('torch._dynamo' in sys.modules)") == "False"
