# SPDX-License-Identifier: Apache-2.0
"""torch.compile traces straight through anyop's functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def compiled(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    made: Callable[..., Any] = torch.compile(f, fullgraph=True, backend="aot_eager", **options)
    return made


def test_a_call_becomes_the_torch_operator() -> None:
    seen: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        seen.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    torch._dynamo.reset()
    f = torch.compile(lambda x, w: anyop.rms_norm(x, w, eps=1e-5), fullgraph=True, backend=backend)
    x, w = torch.randn(2, 8), torch.ones(8)
    assert torch.equal(f(x, w), anyop.rms_norm(x, w, eps=1e-5))
    assert seen == [torch.ops.anyop.rms_norm.default]


def test_several_results_are_the_same_named_tuple() -> None:
    x, w = torch.randn(2, 8), torch.ones(8)
    results = compiled(lambda x, w: anyop.add_rms_norm(x, x, w))(x, w)
    assert type(results) is type(anyop.add_rms_norm(x, x, w))
    assert torch.equal(results.sum, x + x)


def test_given_results_are_written() -> None:
    def f(x: Any, out: Any) -> Any:
        anyop.add(x, x, out=out)
        return out + 1

    x, out = torch.ones(3), torch.zeros(3)
    assert torch.equal(compiled(f)(x, out), torch.ones(3) * 3)
    assert torch.equal(out, torch.ones(3) * 2)


def test_mutable_arguments_change_in_place() -> None:
    def f(key: Any, cache: Any, other: Any, slots: Any) -> Any:
        anyop.reshape_and_cache(key, key, cache, other, slots)
        return cache.sum()

    cache = torch.zeros(2, 4, 1, 8)
    total = compiled(f)(torch.ones(2, 1, 8), cache, cache.clone(), torch.tensor([1, 5]))
    assert total == 16 and cache.sum() == 16


def test_gradients_flow_through_it() -> None:
    x, w = torch.randn(2, 8, requires_grad=True), torch.ones(8, requires_grad=True)
    compiled(lambda x, w: anyop.rms_norm(x, w).square().sum())(x, w).backward()
    grads = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    anyop.rms_norm(x, w).square().sum().backward()
    assert torch.allclose(grads[0], x.grad) and torch.allclose(grads[1], w.grad)


def test_one_graph_serves_all_sizes() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    f = torch.compile(
        lambda x: anyop.silu_and_mul(x) + 1, fullgraph=True, dynamic=True, backend=counter
    )
    for n in (3, 7, 64):
        x = torch.randn(n, 2 * n)
        assert torch.equal(f(x), anyop.silu_and_mul(x) + 1)
    assert counter.frame_count == 1


def test_a_policy_cannot_be_compiled() -> None:
    with pytest.raises(Exception, match="policy= cannot be compiled"):
        compiled(lambda x: anyop.add(x, x, policy="all"))(torch.ones(3))


def test_a_wrong_call_is_refused_with_the_operators_text() -> None:
    with pytest.raises(Exception, match="silu_and_mul: .*must be 2\\*d"):
        compiled(lambda x: anyop.silu_and_mul(x))(torch.ones(2, 7))


def test_inductor_compiles_it_too() -> None:
    torch._dynamo.reset()
    x, w = torch.randn(2, 8), torch.ones(8)

    def f(x: Any, w: Any) -> Any:
        return anyop.rms_norm(x + 1, w) * 2

    assert torch.allclose(torch.compile(f, fullgraph=True)(x, w), f(x, w))


def test_what_may_be_absent_is_left_out_by_keyword() -> None:
    x, w, starts = torch.randn(5, 4), torch.randn(4, 3), torch.tensor([0, 5])

    def convolved(**more: Any) -> Any:
        state = torch.zeros(1, 2, 4)
        y = anyop.causal_conv1d(x=x, weight=w, conv_state=state, query_start_loc=starts, **more)
        return y, state

    want = convolved(bias=None)
    for made in (convolved(), compiled(convolved)(), anyop.torch.capture(convolved)()):
        assert all(map(torch.equal, made, want))
