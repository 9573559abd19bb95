# SPDX-License-Identifier: Apache-2.0
"""Python code that runs while a call is made: what it may change, raise and call in turn."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyop
import numpy as np
import pytest


class Acting:
    """A number, truth value and list that does something when it is asked."""

    def __init__(self, action: Callable[[], Any], value: Any = 1) -> None:
        self.action, self.value = action, value

    def __float__(self) -> float:
        self.action()
        return float(self.value)

    def __index__(self) -> int:
        self.action()
        return int(self.value)


class ActingList(Sequence[Any]):
    def __init__(self, action: Callable[[], Any], items: Sequence[Any]) -> None:
        self.action, self.items = action, items

    def __len__(self) -> int:
        self.action()
        return len(self.items)

    def __getitem__(self, i: Any) -> Any:
        self.action()
        return self.items[i]

    def __iter__(self) -> Iterator[Any]:
        self.action()
        return iter(self.items)


def reshape(x: np.ndarray) -> None:
    x.shape = (16, 2)


def grow(x: np.ndarray) -> None:
    if x.size == 32:
        x.resize((1024, 512), refcheck=False)


WAYS = ["index", "float", "sizes", "gains", "element", "tensors"]


def call_with(
    probe: Any, way: str, x: Any, one: Any, action: Callable[[], Any], **more: Any
) -> Any:
    given: dict[str, dict[str, Any]] = {
        "index": {"n": Acting(action)},
        "float": {"f": Acting(action)},
        "sizes": {"sizes": ActingList(action, [1])},
        "gains": {"gains": [Acting(action)]},
        "element": {"sizes": [Acting(action)]},
        "tensors": {"xs": ActingList(action, [one])},
    }
    return probe.everything(x, **{"xs": [one], **given[way], **more})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [reshape, grow])
def test_arrays_are_looked_at_after_all_code_of_the_call(
    probe: Any, way: str, change: Callable[[Any], None]
) -> None:
    x, one = np.arange(32, dtype=np.float32).reshape(4, 8).copy(), np.ones(3, np.float32)
    y = call_with(probe, way, x, one, lambda: change(x)).y
    assert y.shape == x.shape != (4, 8)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("way", WAYS)
def test_lists_and_results_are_looked_at_last_too(probe: Any, way: str) -> None:
    x, one = np.ones((4, 8), np.float32), np.ones(32, np.float32)
    out = np.zeros((8, 4), np.float32)

    def change() -> None:
        if one.size == 32:
            one.resize(100_000, refcheck=False)
            one[:] = 1
            out.shape = (4, 8)

    total = np.empty((), np.float64)
    results = call_with(probe, way, x, one, change, out=(out, total))
    assert results.y is out
    np.testing.assert_array_equal(out, x)
    assert total == 100_000 + (0 if way == "tensors" else 1)


@pytest.mark.parametrize("way", WAYS)
def test_tensors_are_looked_at_after_all_code_of_the_call(probe: Any, way: str) -> None:
    torch = pytest.importorskip("torch")
    x, one = torch.ones(4, 8), torch.ones(32)

    def change() -> None:
        if x.numel() == 32:
            x.resize_(512, 1024).fill_(2)
            one.resize_(100_000).fill_(1)

    results = call_with(probe, way, x, one, change)
    assert results.y.shape == (512, 1024)
    assert bool((results.y == 2).all())
    assert results.total == 100_000 + (0 if way == "tensors" else 1)


def test_arrays_of_a_graph_are_looked_at_last_too() -> None:
    def scaled(x: Any, eps: Any) -> Any:
        return anyop.rms_norm(x, None, eps)

    g = anyop.graph(scaled, "f32[n, m]", "float")
    for change in (reshape, grow):
        x = np.ones((4, 8), np.float32)
        y = g(x, Acting(lambda: change(x)))  # noqa: B023
        assert y.shape == x.shape != (4, 8)
        x = np.ones((4, 8), np.float32)
        explanation = anyop.explain(anyop.rms_norm, x, None, Acting(lambda: change(x)))  # noqa: B023
        assert f"f32[{x.shape[0]}, {x.shape[1]}]" in explanation.call


def test_code_of_a_subclass_is_not_run_between_views(probe: Any) -> None:
    x, one = np.ones((4, 8), np.float32), np.ones(3, np.float32)
    asked = []

    class Watching(np.ndarray):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

        def __array_finalize__(self, made: Any) -> None:
            asked.append("finalize")

    packed = np.zeros(3, dtype=[("tag", "u1"), ("value", "<f4")])["value"].view(Watching)
    asked.clear()
    assert probe.everything(x, [packed, one.view(Watching)]).total == 3
    assert asked == ["finalize"]  # of the view that this test makes


def changing_meanwhile(x: Any, y: Any, probe: Any, change: Callable[[], Any]) -> None:
    """A call that waits without Python's lock, in which another thread changes its argument."""
    kept: list[Any] = []

    def work() -> None:
        time.sleep(0.05)
        change()
        # Where freed sizes lay, others lie now.
        kept.extend(np.zeros((1,) * (1 + i % 4), np.float32) for i in range(200))

    thread = threading.Thread(target=work)
    thread.start()
    probe.wait(x, out=y)
    thread.join()


def test_a_thread_may_reshape_an_array_during_the_call(probe: Any) -> None:
    x = np.arange(32, dtype=np.float32).reshape(4, 8).copy()

    def change() -> None:
        x.shape = (2, 2, 2, 2, 2)

    y = np.zeros_like(x)
    changing_meanwhile(x, y, probe, change)
    np.testing.assert_array_equal(y.ravel(), x.ravel())


def test_a_thread_may_change_the_strides_of_a_tensor_during_the_call(probe: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(32, dtype=torch.float32).reshape(4, 8)[:, :4]
    expected, y = x.clone(), torch.zeros(4, 4)
    changing_meanwhile(x, y, probe, x.t_)
    torch.testing.assert_close(y, expected)


def test_a_function_may_reshape_the_arrays_of_its_caller() -> None:
    out = np.zeros(6, np.float32)

    @anyop.define("reshaping(x: f32[n]) -> (y: f32[n])", library="code_in_calls")
    def reshaping(x: Any) -> Any:
        made = x + 1
        out.shape = (1, 2, 3)
        kept.extend(np.zeros(1, np.float32) for _ in range(200))
        return made

    kept: list[Any] = []
    assert reshaping(np.ones(6, np.float32), out=out) is out
    np.testing.assert_array_equal(out, np.full((1, 2, 3), 2))


def test_a_function_may_call_its_own_operator_with_any_shapes() -> None:
    """More of them than the cache holds plans. What is copied for the outer call is brought back
    after all of these.
    """
    inner: list[int] = []

    @anyop.define("calling(x: f32[n, m]) -> (y: f32[n, m])", library="code_in_calls")
    def calling(x: Any) -> Any:
        if not inner:
            for n in range(1, 400):
                inner.append(n)
                calling(np.ones((n, 3), np.float32))
        return x + 1

    x, out = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros((4, 2), np.float32)
    calling(x.T, out=out.T)
    np.testing.assert_array_equal(out, x + 1)
    assert len(inner) == 399


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError, MemoryError])
@pytest.mark.parametrize("way", WAYS)
def test_what_must_not_be_swallowed_passes(
    probe: Any, way: str, error: type[BaseException]
) -> None:
    def fail() -> None:
        raise error("mine")

    with pytest.raises(error) as caught:
        call_with(probe, way, np.ones((2, 2), np.float32), np.ones(2, np.float32), fail)
    assert caught.value.args == ("mine",)
    assert not isinstance(caught.value, anyop.Error)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError])
def test_it_passes_through_a_graph_too(error: type[BaseException]) -> None:
    raised = error("mine")

    def fail(x: Any) -> Any:
        raise raised

    g = anyop.graph(lambda x: anyop.host(fail, anyop.add(x, x), result=x), "f32[n]")
    nested = anyop.graph(lambda x: anyop.add(g(x), x), "f32[n]")
    for graph in (g, nested):
        for _ in range(2):
            with pytest.raises(error) as caught:
                graph(np.ones(4, np.float32))
            assert caught.value is raised
    with pytest.raises(anyop.InvalidArgument, match="x is f64"):  # nothing waits any more
        g(np.ones(4))


def test_a_message_passes_it_too(probe: Any) -> None:
    class Wrong:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    for call in (lambda: anyop.softmax(Wrong()), lambda: probe.describe(n=Wrong())):
        with pytest.raises(KeyboardInterrupt):
            call()


def test_calls_that_call_themselves_end_with_a_recursion_error(probe: Any) -> None:
    x = np.ones((2, 2), np.float32)

    @anyop.define("endless(x: f32[n, m]) -> (y: f32[n, m])", library="code_in_calls")
    def endless(x: Any) -> Any:
        return endless(x)

    g = anyop.graph(lambda x: anyop.host(lambda v: g(v), x, result=x), "f32[n, m]")

    def again() -> None:
        call_with(probe, "float", x, x[0], again)

    ways = (lambda: endless(x), lambda: g(x), again)

    def run() -> None:
        for way in ways:
            with pytest.raises(RecursionError):
                way()

    limit = sys.getrecursionlimit()
    for levels in (limit, 10**6):
        sys.setrecursionlimit(levels)
        try:
            run()
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        finally:
            sys.setrecursionlimit(limit)


def test_the_stack_is_the_limit_where_python_has_none() -> None:
    @anyop.define("deep(x: f32[n]) -> (y: f32[n])", library="code_in_calls")
    def deep(x: Any) -> Any:
        return deep(x)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(RecursionError) as caught:
            deep(np.ones(1, np.float32))
    finally:
        sys.setrecursionlimit(limit)
    assert str(caught.value) == (
        "code_in_calls.deep: Python code that the call runs makes such calls in turn, but the "
        "stack of this thread has no room for more. Try fewer levels."
    )


AT_EXIT = """
import threading, time
import anyop, numpy as np

@anyop.define("{op}(x: f32[n]) -> (y: f32[n])", flops="{flops}")
def {op}(x):
    {body}
    return x + 1

x = np.ones(4, np.float32)
graph = anyop.graph(lambda x: anyop.add({op}(x), x), "f32[n]")
big = np.ones((2000, 2000), np.float32)

class Slow:
    def __float__(self):
        {body}
        return 1.0

def work():
    while True:
        {call}

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("end")
"""


@pytest.mark.parametrize(
    ("call", "body", "flops"),
    [
        ("anyop.softmax(big)", "pass", "1"),  # waits for the lock after the kernel
        ("waits(x)", "time.sleep(0.001)", "1"),  # in a function of Python
        ("waits(x)", "sum(range(1000))", "1000000 * n"),
        ("graph(x)", "sum(range(1000))", "1000000 * n"),
        ("anyop.rms_norm(x, None, Slow())", "sum(range(1000))", "1"),
    ],
)
def test_threads_may_call_while_python_ends(call: str, body: str, flops: str) -> None:
    code = AT_EXIT.format(call=call, body=body, flops=flops, op="waits")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"end\n", b"")


def test_nothing_of_a_failed_call_is_kept(probe: Any) -> None:
    x = np.ones((2, 2), np.float32)

    def fail() -> None:
        raise KeyboardInterrupt

    def calls() -> None:
        for way in WAYS * 20:
            with pytest.raises(KeyboardInterrupt):
                call_with(probe, way, x, x[0], fail)

    calls()
    gc.collect()
    before = sys.getrefcount(x)
    calls()
    gc.collect()
    assert sys.getrefcount(x) == before
