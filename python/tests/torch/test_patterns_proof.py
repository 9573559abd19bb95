# SPDX-License-Identifier: Apache-2.0
"""A replacement is refused for each way in which it differs from what it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from anyop.torch._nodes.memory import Writes  # noqa: E402
from anyop.torch._proof import proof  # noqa: E402
from anyop.torch._proof.trials import Trial, filled  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

aten = torch.ops.aten
KNOWN: dict[Any, int] = {}  # replacements, which live on: what is known of one is not of the next


def refusal(
    program: Any, replacement: Callable[..., Any], *args: Any, dynamic: bool = False, **options: Any
) -> str:
    """Of a whole program of tensors."""
    mode = "symbolic" if dynamic else "fake"
    graph = make_fx(program, tracing_mode=mode)(*args).graph
    output = next(n for n in graph.nodes if n.op == "output").args[0]
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    number = KNOWN.setdefault(replacement, len(KNOWN))
    kwargs = {"key": str(number), **options}
    return proof.refusal(output, inputs, lambda t: replacement(*t.tensors), "it", **kwargs)


X = torch.zeros(3, 4)


def product(x: Any) -> Any:
    return (x * x).sum(-1)


WRONG: dict[str, tuple[Any, Any, str]] = {
    "another type": (product, lambda x: product(x).double(), "float64[3] instead of float32[3]"),
    "another shape": (product, lambda x: product(x)[:1], "float32[1] instead of float32[3]"),
    "other values": (product, lambda x: product(x) * 1.0001, "off by"),
    "fewer bits": (product, lambda x: product(x.bfloat16()).float(), "off by"),
    "an error": (product, lambda x: x.view(5, 5), "it fails: shape '[5, 5]' is invalid"),
    "another infinity": (lambda x: x.square().square(),
                         lambda x: x.square().square().clamp(max=3e38), "infinities or NaN"),
    "not a number": (lambda x: x / x, lambda x: torch.ones_like(x), "infinities or NaN"),
    "its argument": (lambda x: x * 1.0, lambda x: x, "it shares other memory"),
    "a copy": (lambda x: x.t(), lambda x: x.t().clone(), "it shares other memory"),
    "a write": (lambda x: x + 1, lambda x: x.add_(1).clone(), "it writes something else"),
    "whole numbers": (lambda x: (x > 0).long(), lambda x: (x >= 0).long(), "other values"),
    "eps": (lambda x: x * torch.rsqrt(x.square().mean(-1, True) + 1e-6),
            lambda x: x * torch.rsqrt(x.square().mean(-1, True) + 1.1e-6), "off by"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_differs_is_refused(name: str) -> None:
    program, replacement, why = WRONG[name]
    assert why in refusal(program, replacement, X)


RIGHT: dict[str, tuple[Any, Any]] = {
    "another order": (product, lambda x: (x * x).flip(-1).sum(-1)),
    "matrix product": (product, lambda x: torch.einsum("ij,ij->i", x, x)),
    "more bits": (product, lambda x: product(x.double()).float()),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_reordering_is_taken(name: str, dtype: torch.dtype) -> None:
    program, replacement = RIGHT[name]
    made: Any = replacement
    if name == "more bits":
        made = lambda x: product(x.double()).to(dtype)  # noqa: E731
    assert refusal(program, made, X.to(dtype), kinds=("normal", "small")) == ""


def test_each_size_is_tried() -> None:
    x = torch.zeros(6, 7)

    def of_many(x: Any) -> Any:
        return x.cumsum(0) if x.shape[0] > 4 else x.clone()

    assert "s" in refusal(lambda x: x.cumsum(0), of_many, x, dynamic=True)
    assert refusal(lambda x: x.cumsum(0), lambda x: x.cumsum(0), x, dynamic=True) == ""


def test_large_sizes_are_tried_as_small_ones() -> None:
    seen: list[int] = []

    def program(x: Any) -> Any:
        return x.view(4096, 2048).sum(-1)

    def replacement(x: Any) -> Any:
        seen.append(x.numel())
        return x.sum(-1).view(-1)

    assert refusal(program, replacement, torch.zeros(1, 4096, 2048)) == ""
    assert seen and max(seen) < 1 << 15


def test_a_number_that_is_no_size_stays_what_it_is() -> None:
    wrong = refusal(lambda x: x.sum(-1) / 4096, lambda x: x.mean(-1), torch.zeros(64, 2048))
    assert "off by" in wrong


def test_what_is_tried_once_is_known() -> None:
    calls = []

    def replacement(x: Any) -> Any:
        calls.append(1)
        return product(x)

    assert refusal(product, replacement, X) == ""
    n = len(calls)
    assert refusal(product, replacement, X) == "" and len(calls) == n
    assert refusal(product, replacement, X.double()) == "" and len(calls) > n


def test_what_reads_more_than_its_inputs_is_refused() -> None:
    graph = make_fx(lambda x, y: x + y, tracing_mode="fake")(X, X.clone()).graph
    x, y, add, _ = graph.nodes
    why = proof.refusal(add, [x], lambda t: t.tensors[0], "it")
    assert why == f"it reads {y.name} too"


def test_inputs_that_are_written_meanwhile() -> None:
    def program(x: Any, y: Any) -> Any:
        z = x.cos()
        x.add_(y)
        return z.sin()

    graph = make_fx(program, tracing_mode="fake")(X, X.clone()).graph
    x = next(iter(graph.nodes))
    sin = next(n for n in graph.nodes if n.target is aten.sin.default)

    def same(trial: Trial) -> Any:
        return trial.tensors[0].cos().sin()

    assert not proof.holds(sin, [x], same, "it", Writes(graph))
    assert proof.refusals()[-1] == ("it", f"{x.name} is written meanwhile")


def test_refusals_are_errors_where_it_is_strict() -> None:
    wanted = "^it: the replacement is not what it stands for: "
    with pytest.raises(anyop.Error, match=wanted), proof.strict():
        refusal(product, lambda x: x, X)


def test_what_is_known_of_a_function_that_is_gone_is_no_others() -> None:
    """Whose place in memory, and so whose id, the next one may get."""
    for _ in range(20):
        assert refusal(product, lambda x: product(x), X) == ""
        assert refusal(product, lambda x: x, X) != ""


def test_functions_are_compared_without_a_graph() -> None:
    def trials() -> Any:
        for n in (0, 1, 5):
            yield Trial([filled([n, 3], [3, 1], torch.float32, "normal", n)], {}, f"n = {n}")

    def last(trial: Trial) -> Any:
        return trial.tensors[0][-1:].clone()

    def fifth(trial: Trial) -> Any:
        return trial.tensors[0][4:].clone()

    assert proof.difference(last, last, trials()) == ""
    assert proof.difference(last, fifth, trials()).startswith("n = 1: float32[0, 3] instead of")
