# SPDX-License-Identifier: Apache-2.0
"""torch.fx.symbolic_trace of anyop's functions and modules: nodes that call torch operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from anyop.torch import nn  # noqa: E402
from generated import contract, example, listed, operators, torch_op  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

OPS = torch.ops.anyop


def with_parameters(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """f, with a signature of n parameters, as a tracer wants it."""
    names = ", ".join(f"a{i}" for i in range(n))
    made: Callable[..., Any] = eval(f"lambda {names}: f({names})", {"f": f})
    return made


def targets(traced: Any) -> list[Any]:
    return [n.target for n in traced.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize("op", operators())
def test_a_call_with_proxies_becomes_a_call_of_the_torch_operator(op: str) -> None:
    call = example(op)
    flat, spec = pytree.tree_flatten(call.torch_values)
    tensors = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]
    if not tensors:
        pytest.skip("no tensors")
    function = getattr(anyop.ops.anyop, op.removeprefix("anyop."))

    def run(*given: Any) -> Any:
        values = list(flat)
        for i, t in zip(tensors, given, strict=True):
            values[i] = t
        return function(*pytree.tree_unflatten(values, spec))

    traced = torch.fx.symbolic_trace(with_parameters(run, len(tensors)))
    assert targets(traced)[0] is torch_op(op)
    ours, eager = ([flat[i].clone() for i in tensors] for _ in range(2))
    made, expected = listed(traced(*ours)), listed(run(*eager))
    assert len(made) == len(expected) == len(contract(op)["results"])
    for a, b in zip([*made, *ours], [*expected, *eager], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def test_several_results_have_their_names() -> None:
    traced = torch.fx.symbolic_trace(lambda x, w: anyop.add_rms_norm(x, x, w).sum * 2)
    x, w = torch.randn(3, 8), torch.ones(8)
    assert OPS.add_rms_norm.default in targets(traced)
    torch.testing.assert_close(traced(x, w), x * 4)


def test_given_results_are_written() -> None:
    def f(x: Any, w: Any, y: Any, total: Any) -> Any:
        anyop.add(x, x, out=y)
        anyop.add_rms_norm(x, x, w, out=(y, total))
        return anyop.add_rms_norm(x, y, w, out=(None, total))[0]

    traced = torch.fx.symbolic_trace(f)
    assert targets(traced)[:2] == [OPS.add.out, OPS.add_rms_norm.out]
    x, w = torch.randn(3, 8), torch.randn(8)
    ours, eager = ([torch.zeros(3, 8), torch.zeros(3, 8)] for _ in range(2))
    torch.testing.assert_close(traced(x, w, *ours), f(x, w, *eager))
    torch.testing.assert_close(ours, eager)


def test_numbers_and_keywords_may_be_proxies() -> None:
    traced = torch.fx.symbolic_trace(lambda x, w, e: anyop.rms_norm(x, eps=e, weight=w))
    x, w = torch.randn(3, 8), torch.randn(8)
    for eps in (1e-6, 1.0):
        assert torch.equal(traced(x, w, eps), anyop.rms_norm(x, w, eps))


def test_what_is_refused() -> None:
    with pytest.raises(ValueError) as error:
        torch.fx.symbolic_trace(lambda x: anyop.add(x, x, policy="all"))
    assert str(error.value) == (
        "add: policy is given, but a traced call follows the policy of the calls that are made "
        "later. Try anyop.policy() around these."
    )
    with pytest.raises(TypeError, match="add: y is 'a', but must be a torch tensor"):
        anyop.add(torch.ones(3), "a")
    with pytest.raises(ValueError, match="linear: activation is 'sillu', but must be"):
        torch.fx.symbolic_trace(lambda x, w: anyop.linear(x, w, activation="sillu"))(
            torch.ones(2, 3), torch.ones(4, 3)
        )


class Block(torch.nn.Module):
    """Every module that needs no cache."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(16, 32)
        self.norm, self.last = nn.RMSNorm(32), nn.RMSNorm(32)
        self.qkv, self.up = nn.Linear(32, 96), nn.Linear(32, 64, activation="gelu")
        self.rotary = nn.RotaryEmbedding(8, 8, 32)
        self.attention = nn.Attention(4, 8)
        self.act = nn.SiluAndMul()

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, starts: torch.Tensor) -> Any:
        x = self.embedding(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k = self.rotary(positions, q, k)
        y = self.attention(q, k, v, query_start_loc=starts)
        y, x = self.last(y, x)
        return x + self.act(self.up(y))


def inputs(n: int) -> tuple[torch.Tensor, ...]:
    return torch.arange(n) % 16, torch.arange(n), torch.tensor([0, 2, n])


def traced_block() -> tuple[Any, Any]:
    torch.manual_seed(0)
    block = Block()
    return block, torch.fx.symbolic_trace(block)


def test_modules_become_calls_of_torch_operators() -> None:
    block, traced = traced_block()
    names = {str(t) for t in targets(traced) if isinstance(t, torch._ops.OpOverload)}
    assert names == {
        f"anyop.{n}.default"
        for n in ("embedding", "rms_norm", "linear", "rope", "attention", "add_rms_norm")
    } | {"anyop.silu_and_mul.default"}
    for n in (5, 7):
        y, expected = traced(*inputs(n)), block(*inputs(n))
        torch.testing.assert_close(y, expected)
        grads = [torch.autograd.grad(r.sin().sum(), block.parameters()) for r in (y, expected)]
        torch.testing.assert_close(*grads)
    with torch.no_grad():
        torch.testing.assert_close(traced(*inputs(5)), block(*inputs(5)))


@pytest.mark.parametrize("backend", ["anyop", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_traced_module_compiles(backend: str) -> None:
    block, traced = traced_block()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(traced, fullgraph=True, backend=backend)
        torch.testing.assert_close(compiled(*inputs(6)), block(*inputs(6)))
