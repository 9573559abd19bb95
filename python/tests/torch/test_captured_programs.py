# SPDX-License-Identifier: Apache-2.0
"""Programs that capture takes: branches and loops of torch's, compiled functions, sizes below 2."""

from __future__ import annotations

import copy
from typing import Any

import anyop
import anyop.torch.nn
import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from torch._higher_order_ops.scan import scan  # noqa: E402
from torch.func import functional_call, grad, vmap  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

W, X = floats(8, 8), floats(3, 8)
HEADS = floats(1, 2, 16, 8)
inner = torch.compile(lambda x: torch.tanh(x) * 2, backend="anyop")
inner_of_torch = torch.compile(lambda x: torch.tanh(x) * 2, backend="eager")


def branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x @ W, lambda x: x - 1, (x,)) * 2


def branches_of_our_operators(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: anyop.softmax(x), lambda x: anyop.gelu(x), (x,))


def loops(x: Any) -> Any:
    return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def scans(x: Any) -> Any:
    return scan(lambda c, y: (c + y, c * y), torch.zeros(8), x)


def attends(x: Any) -> Any:
    return flex_attention(x, x, x, score_mod=lambda s, b, h, i, j: s + (i - j))


def calls_what_is_compiled(x: Any) -> Any:
    return inner(x) + inner_of_torch(x * 2)


PROGRAMS = [branches, branches_of_our_operators, loops, scans, attends, calls_what_is_compiled]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_captured_program_computes_what_the_program_does(program: Any) -> None:
    x = HEADS if program is attends else X
    captured = anyop.torch.capture(program, x)
    assert captured.details.why_not == ""
    for given in (x, -x, x):
        torch.testing.assert_close(captured(given), program(given))


def test_flex_attention_is_compiled() -> None:
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(attends, backend="anyop")(HEADS), attends(HEADS))


class Writes(torch.nn.Module):
    """By an operator of ours."""

    cache: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4, 1, 8))

    def forward(self, x: Any, slots: Any) -> Any:
        anyop.reshape_and_cache(x[:, None], None, self.cache, None, slots)
        return self.cache + 1


def test_an_exported_program_that_calls_what_writes() -> None:
    model, slots = Writes(), torch.tensor([0, 1, 5])
    plain = copy.deepcopy(model)
    captured = anyop.torch.capture(torch.export.export(model, (X, slots)))
    for i in range(2):
        given = (X + i, slots + i)
        torch.testing.assert_close(captured(*given), plain(*given))


SMALL: dict[str, Any] = {
    "sum": lambda x: torch.softmax(x + x[:1], -1),
    "product": lambda x: x.flip(0) @ x.t(),
    "copy": lambda x: x.t().reshape(-1),
    "norm": lambda x: anyop.rms_norm(x) * x.shape[0],
    "mean": lambda x: {"mean": x.mean(0), "view": x.t().contiguous().view(-1)},
}


@pytest.mark.parametrize("program", SMALL.values(), ids=SMALL)
def test_sizes_that_vary_may_be_one_or_nothing(program: Any) -> None:
    captured = anyop.torch.capture(program, X, dynamic={"x": {0: "n"}})
    for n in (1, 2, 0, 3, 1):
        try:
            wanted = program(X[:n])
        except RuntimeError:  # a row of nothing
            continue
        torch.testing.assert_close(captured(X[:n]), wanted, equal_nan=True)


def test_gradients_of_each_sample_through_modules_of_ours() -> None:
    """The parameters require gradients, which nobody asks for of the gradients."""
    module = torch.nn.Sequential(anyop.torch.nn.Linear(8, 8), anyop.torch.nn.RMSNorm(8))
    parameters = dict(module.named_parameters())

    def loss(parameters: Any, x: Any) -> Any:
        return functional_call(module, parameters, (x,)).square().sum()

    program, x = vmap(grad(loss), (None, 0)), torch.stack([X, X * 2])
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="anyop")
    for _ in range(2):
        made, wanted = compiled(parameters, x), program(parameters, x)
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    assert "it has no gradient" in str(anyop.torch.report())
    with anyop.strict(), pytest.raises(Exception, match="it has no gradient"):
        torch._dynamo.reset()
        torch.compile(program, backend="anyop")(parameters, x)
