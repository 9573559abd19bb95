# SPDX-License-Identifier: Apache-2.0
"""Calls that torch itself would refuse in its own words, before an operator sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from generated import contract, example, operators, torch_op  # noqa: E402

OPS = torch.ops.anyop
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def text_of(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def nested(layout: Any) -> Any:
    return torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], layout=layout)


NESTED: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "alone": (lambda t: anyop.softmax(t), "softmax", "x"),
    "of torch.ops": (lambda t: OPS.softmax(t), "softmax", "x"),
    "by keyword": (lambda t: anyop.rms_norm(x=t), "rms_norm", "x"),
    "beside another": (lambda t: anyop.rms_norm(X, t), "rms_norm", "weight"),
    "with out": (lambda t: OPS.softmax.out(t, out=X.clone()), "softmax", "x"),
    "as out": (lambda t: anyop.softmax(X, out=t), "softmax", "out"),
    "in a list": (lambda t: anyop.copy_blocks([t], torch.zeros(1, 2).long()), "copy_blocks",
                  "caches[0]"),
    "that needs a gradient": (lambda t: anyop.softmax(t.detach().requires_grad_()), "softmax", "x"),
    "of a module": (lambda t: anyop.torch.nn.RMSNorm(8)(t), "rms_norm", "x"),
}  # fmt: skip


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
@pytest.mark.parametrize("name", NESTED)
def test_nested_tensors_are_named(name: str, layout: Any) -> None:
    call, op, tensor = NESTED[name]
    assert text_of(lambda: call(nested(layout)), ValueError) == (
        f"{op}: {tensor} is nested, but must be a strided tensor. "
        f"Try {tensor}.to_padded_tensor(0.0)."
    )


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided], ids=str)
def test_a_graph_of_nested_tensors_is_refused(layout: Any) -> None:
    for given in ((nested(layout),), (X, nested(layout))):
        name = f"x{len(given) - 1}"

        def program(x0: Any, x1: Any = None) -> Any:
            return anyop.softmax(x0)

        assert text_of(lambda given=given: anyop.torch.capture(program, *given), ValueError) == (
            f"program: {name} is nested, but must be a strided tensor, whose sizes are those of a "
            f"graph. Try {name}.to_padded_tensor(0.0)."
        )


def tensors_of(call: Any) -> list[int]:
    return [i for i, v in enumerate(call.values) if isinstance(v, torch.Tensor)]


@pytest.mark.parametrize("op", operators())
def test_every_operator_refuses_jagged_tensors(op: str) -> None:
    call = example(op)
    for i in tensors_of(call):
        values = list(call.torch_values)
        values[i] = nested(torch.jagged)
        name = contract(op)["params"][i]["name"]
        text = text_of(lambda values=values: torch_op(op)(*values), ValueError)
        assert text.startswith(f"{op.removeprefix('anyop.')}: {name} is nested, but must be a ")


def test_vmap_of_a_call_with_out_is_refused() -> None:
    out = torch.empty(3, 8)
    told = (
        "softmax: out is written, but torch.func.vmap batches calls that return new tensors, since "
        "all examples would write one memory. Try the call without out=."
    )
    calls = [
        lambda: torch.func.vmap(lambda x: anyop.softmax(x, out=out[0]))(X),
        lambda: torch.func.vmap(lambda x, y: anyop.softmax(x, out=y))(X, out),
        lambda: torch.func.vmap(lambda x, y: OPS.softmax.out(x, out=y))(X, out),
    ]
    for call in calls:
        assert text_of(call, NotImplementedError) == told


WRITERS = [op for op in operators() if any(p.get("mut") for p in contract(op)["params"])]


@pytest.mark.parametrize("op", WRITERS)
def test_vmap_of_every_operator_that_writes_is_refused(op: str) -> None:
    call = example(op)
    written = ", ".join(
        name
        for p, v in zip(contract(op)["params"], call.values, strict=True)
        if p.get("mut") and v is not None
        for name in (
            [p["name"]] if isinstance(v, torch.Tensor)
            else [f"{p['name']}[{k}]" for k in range(len(v))]
        )
    )  # fmt: skip
    for i in tensors_of(call):
        values = list(call.torch_values)

        def run(t: Any, values: Any = values, i: int = i) -> Any:
            return torch_op(op)(*values[:i], t, *values[i + 1 :])

        stacked = torch.stack([values[i], values[i]])
        text = text_of(lambda run=run, t=stacked: torch.func.vmap(run)(t), NotImplementedError)
        assert text == (
            f"{op.removeprefix('anyop.')}: {written} is written, but torch.func.vmap batches calls "
            "that return new tensors, since all examples would write one memory. Try the call in a "
            "loop over the examples."
        )


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return anyop.gelu(anyop.rms_norm(x, weight, eps=1e-5), "tanh")


def best(x: torch.Tensor) -> torch.Tensor:
    values, indices = anyop.top_k(x, 2)
    return values + indices


def into(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return anyop.softmax(x, out=y)


class Scripted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(1, 2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normed(x, self.weight)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_functions_that_call_operators_are_scripted() -> None:
    module = Scripted()
    torch.testing.assert_close(torch.jit.script(module)(X), module(X))
    torch.testing.assert_close(torch.jit.script(best)(X), best(X))
    y = torch.empty_like(X)
    torch.jit.script(into)(X, y)
    torch.testing.assert_close(y, anyop.softmax(X))


BEYOND = [2**63, -(2**63) - 1, 2**70]


@pytest.mark.parametrize("number", BEYOND)
def test_numbers_beyond_64_bits_are_named(number: int) -> None:
    most = f"is {number}, but must be an int of at most 64 bits."
    top = "top_k: k "
    graph = anyop.graph(lambda x, n: x[:n], "f32[m, 8]", "int", name="g")
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: anyop.top_k(X, number), top),
        (lambda: anyop.top_k(X, k=number), top),
        (lambda: anyop.top_k(X.numpy(), number), top),
        (lambda: anyop.torch.capture(lambda x: anyop.top_k(x, number).values, X), top),
        (lambda: anyop.graph(lambda x: anyop.top_k(x, number).values, "f32[3, 8]"), top),
        (lambda: graph(X, number), "g: n "),
        (lambda: graph.memory(m=number, n=1), "g: m "),
        (lambda: anyop.graph(lambda x: x[:number], "f32[n, 8]", name="g"), "g: a size "),
        (lambda: anyop.graph(lambda x: x.reshape(number), "f32[n, 8]", name="g"), "g: a size "),
    ]
    for call, start in calls:
        assert text_of(call, ValueError) == start + most
    torch.testing.assert_close(anyop.softmax(X, number), anyop.softmax(X, float(number)))
    told = "softmax: scale is an int of 1329 bits, but must be a number that a double holds."
    for x in (X, X.numpy()):
        assert text_of(lambda x=x: anyop.softmax(x, 10**400), ValueError) == told


@pytest.mark.parametrize("number", BEYOND)
def test_torch_refuses_numbers_beyond_64_bits_as_for_its_own_operators(number: int) -> None:
    """Before anyop sees the call; torch's text names operator, argument and value."""
    for ours, theirs in (
        (torch.ops.anyop.top_k, torch.ops.aten.topk),
        (torch.ops.anyop.top_k.default, torch.ops.aten.topk.default),
    ):
        told = text_of(lambda f=ours: f(X, number), RuntimeError)
        assert "anyop::top_k() Expected a value of type 'int' for argument 'k'" in told
        assert f"Value: {number}\n" in told
        before = text_of(lambda f=theirs: f(X, number), RuntimeError).partition("Declaration")[0]
        assert told.partition("Declaration")[0] == before.replace("aten::topk", "anyop::top_k")
