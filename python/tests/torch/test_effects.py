# SPDX-License-Identifier: Apache-2.0
"""Programs of operators that have an effect: checks, prints, random numbers that nobody reads."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from legal import captured, check_calls, compiled  # noqa: E402

MAKERS = {"compile": lambda p, a: compiled(p), "capture": captured}
SQUARE = floats(4, 4) + 5 * torch.eye(4)


def inverted(x: Any) -> Any:
    return torch.linalg.inv(x) * 2


def factored(x: Any) -> Any:
    return torch.linalg.cholesky(x @ x.mT) * 2


def solved(x: Any) -> Any:
    return torch.linalg.solve(x, x[0])


def solved_and_written(x: Any) -> Any:
    y = torch.linalg.inv(x)
    x.mul_(2)
    return y + torch.linalg.inv(x), torch.linalg.slogdet(x)[1]


def likelihood(x: Any) -> Any:
    made = torch.distributions.MultivariateNormal(x[0], x @ x.mT, validate_args=False)
    return made.log_prob(x[1]), made.entropy()


PROGRAMS = [inverted, factored, solved, solved_and_written, likelihood]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_checks_its_results(program: Any, maker: str) -> None:
    made = MAKERS[maker](program, (SQUARE,))
    check_calls(program, made, [(SQUARE,), (SQUARE + 1,)])
    for f in (program, made):
        with pytest.raises(torch.linalg.LinAlgError):
            f(torch.zeros(4, 4))
    check_calls(program, made, [(SQUARE,)])


@pytest.mark.parametrize("program", [inverted, factored, likelihood], ids=lambda p: p.__name__)
def test_gradients_of_what_checks_its_results(program: Any) -> None:
    def gradient(f: Any) -> Any:
        x = SQUARE.clone().requires_grad_()
        made = f(x)
        sum(t.sum() for t in (made if isinstance(made, tuple) else (made,))).backward()
        return x.grad

    torch._dynamo.reset()
    step = torch.compile(program, backend="anyop")
    for _ in range(2):
        torch.testing.assert_close(gradient(step), gradient(program), rtol=1e-4, atol=1e-4)


SEEN: list[int] = []


@torch.library.custom_op("anyop_tests::told", mutates_args=())
def told(x: torch.Tensor, n: int) -> torch.Tensor:
    SEEN.append(n)
    return x + n


told.register_fake(lambda x, n: torch.empty_like(x))
told.register_effect(torch._higher_order_ops.effects._EffectType.ORDERED)


@pytest.mark.parametrize("maker", MAKERS)
def test_operators_with_ordered_effects_keep_their_order(maker: str) -> None:
    def program(x: Any) -> Any:
        a = torch.ops.anyop_tests.told(x.tan(), 1)
        torch.ops.anyop_tests.told(x, 2)  # nobody reads it
        b = torch.softmax(torch.ops.anyop_tests.told(x, 3), -1)
        return a, torch.ops.anyop_tests.told(b.tan(), 4)

    x = floats(3, 4)
    made = MAKERS[maker](program, (x,))
    for _ in range(2):
        SEEN.clear()
        torch.testing.assert_close(made(x), program(x))
        assert SEEN == [1, 2, 3, 4] * 2


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("writes", [False, True])
def test_random_numbers_that_nobody_reads_are_drawn(maker: str, writes: bool) -> None:
    def program(x: Any) -> Any:
        torch.nn.functional.dropout(x, 0.5)
        torch.rand(3)
        if writes:
            x.mul_(2)
        return torch.nn.functional.dropout(x, 0.5)

    made = MAKERS[maker](program, (floats(3, 4),))
    for _ in range(2):
        results = []
        for f in (made, program):
            torch.manual_seed(1)
            with torch.no_grad():
                results.append((f(floats(3, 4)), torch.rand(2)))
        torch.testing.assert_close(*results)


def test_an_attention_that_nobody_reads_beside_a_gradient() -> None:
    """It may draw random numbers, so torch's passes leave it, and its partitioner refuses it."""

    def program(x: Any) -> Any:
        torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return x.cumprod(1)

    x = floats(1, 2, 3, 4).requires_grad_()
    made, wanted = compiled(program)(x), program(x)
    assert torch.equal(made, wanted)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (made, wanted)))
