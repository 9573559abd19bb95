# SPDX-License-Identifier: Apache-2.0
"""Random programs run as torch runs them; and what compares them notices what it must."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from fuzz.compare import difference  # noqa: E402
from fuzz.generate import program as program_of  # noqa: E402
from fuzz.minimize import minimized  # noqa: E402
from fuzz.program import Program  # noqa: E402
from fuzz.run import failures  # noqa: E402

# A quarter of a second each. FUZZ_SEEDS=1000:9000 runs others; thousands by hand: CONTRIBUTING.
BEGIN, END = map(int, os.environ.get("FUZZ_SEEDS", "0:1000").split(":"))
PART = 25
USUAL = range(25) if "FUZZ_SEEDS" not in os.environ else range(BEGIN, END)


def parts() -> list[Any]:
    return [
        pytest.param(first, marks=() if first in USUAL else pytest.mark.exhaustive)
        for first in range(BEGIN, END, PART)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("first", parts())
def test_random_programs_run_as_torch_runs_them(first: int) -> None:
    seeds = range(first, min(first + PART, END))
    print(f"FUZZ_SEEDS={seeds.start}:{seeds.stop}")
    found = [failure.script() for failure in failures(seeds)]
    assert not found, "\n\n".join(found)


PROGRAM = Program(
    seed=1,
    arguments=("x0 = torch.randn((4, 6), generator=g)", "x1 = x0[1:]"),
    buffers=(),
    body=("v1 = x0.t() + 1", "v2 = v1[1:]", "x1.mul_(2)", "v3 = torch.softmax(x0, -1)"),
    leaves=("v1", "v2", "x0", "v3", "x1[0]", "3"),
)


def changed(change: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Runs a program, then does something else with its results and arguments."""

    def wrap(module: Any) -> Any:
        return lambda *args: change(module(*args), args)

    return wrap


def at(i: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return changed(lambda r, args: (*r[:i], change(r[i]), *r[i + 1 :]))


def raising(result: Any, args: Any) -> Any:
    raise RuntimeError("no")


def written(result: Any, args: Any) -> Any:
    args[0][0, 0] += 1
    return result


def restored(module: Any) -> Any:
    """Without what the program writes."""

    def run(x0: Any, x1: Any) -> Any:
        before = x0.clone()
        made = module(x0, x1)
        x0.data.copy_(before)
        return made

    return run


def same_elsewhere(x: Any) -> Any:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x)


def slipped(x: Any) -> Any:
    """One element, by the least that there is."""
    y = same_elsewhere(x)
    y[0, 0] = torch.nextafter(y[0, 0], torch.tensor(9.0))
    return y


WRONG: list[tuple[str, Callable[[Any], Any], str]] = [
    ("raises", changed(raising), "RuntimeError at"),
    ("bits", at(0, slipped), "aliasing"),
    ("order", at(3, lambda x: x.t().contiguous().t()), "strides"),
    ("copy_of_a_view", at(1, same_elsewhere), "aliasing"),
    ("copy_of_an_argument", at(2, torch.clone), "identity"),
    ("another_tensor_of_an_argument", at(2, lambda x: x.view(4, 6)), "identity"),
    ("dtype", at(3, torch.Tensor.double), "shape or dtype"),
    ("shape", at(3, lambda x: x[None]), "shape or dtype"),
    ("type", at(5, float), "type"),
    ("number", at(5, lambda n: 4), "number"),
    ("structure", changed(lambda r, args: [*r]), "structure"),
    ("softmax", at(3, lambda x: x + 1e-5), "value"),
    ("written_too_much", changed(written), "value"),
    ("not_written", restored, "value"),
    ("element", at(4, lambda x: x + 0), "aliasing"),
]


@pytest.mark.parametrize(("wrap", "kind"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_differs_is_noticed(wrap: Callable[[Any], Any], kind: str) -> None:
    found = difference(PROGRAM, wrap)
    assert found is not None
    assert found.kind.startswith(kind)


def test_what_rounding_may_change_is_none_of_it() -> None:
    assert difference(PROGRAM, lambda module: module) is None
    assert difference(PROGRAM, at(3, lambda x: x * (1 + 1e-7))) is None


def test_what_rounding_may_change_in_a_gradient_is_none_of_it() -> None:
    """A product of matrices is also one in its gradient, which runs after the program."""
    made = replace(PROGRAM, grad="train", body=("v1 = x0 @ x0.mT",), leaves=("v1",))

    def off(module: Any) -> Any:
        def run(x0: Any, x1: Any) -> Any:
            x0.register_hook(lambda g: g * (1 + 2e-7))
            return module(x0, x1)

        return run

    assert difference(made, off) is None


def test_values_of_exact_operators_are_compared_bit_by_bit() -> None:
    program = Program(1, PROGRAM.arguments, (), ("v1 = x0 + 1",), ("v1",))
    found = difference(program, at(0, slipped))
    assert found is not None
    assert found.kind == "value" and "at most 0 off" in found.text


def test_a_program_that_fails_becomes_short() -> None:
    """Fails where x0 is negated and what came of it is returned."""

    def fails(p: Program) -> bool:
        try:
            p.names_and_code()["Program"]({})(*p.names_and_code()["arguments"](0).values())
        except Exception:
            return False
        return "v5 = -x0" in p.body and bool(p.leaves)

    body = tuple(f"v{i} = {'-' if i == 5 else ''}x{i % 2}" for i in range(9))
    made = minimized(Program(1, PROGRAM.arguments, (), ("v5 = -x0", *body), ("v1", "v5")), fails)
    assert made.body == ("v5 = -x0",)
    assert made.leaves == ("v5",)
    assert made.arguments == PROGRAM.arguments[:1]


def test_a_seed_is_a_program() -> None:
    assert program_of(3).source() == program_of(3).source()
    assert len({program_of(seed).source() for seed in range(20)}) == 20
