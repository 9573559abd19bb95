# SPDX-License-Identifier: Apache-2.0
"""Calls of programs that a graph cannot take: within modes and transformations of functions, with
tensors of other kinds. They run as torch runs the program, whatever was called before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import floats  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

WEIGHT = floats(8, 8)
X, V = floats(3, 8), floats(3, 8, seed=1)


def plain(x: Any) -> Any:
    return torch.softmax(x @ WEIGHT, -1).tan()


def through_operators(x: Any) -> Any:
    return anyop.softmax(anyop.rms_norm(x))


def of_a_tree(x: Any) -> Any:
    y = x * 2
    return {"y": torch.softmax(y, -1), "views": (y.t(), y[1:])}


class Doubled(torch.autograd.Function):
    """Its derivative is not that of what it calls."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return dy * 10

    @staticmethod
    def jvp(ctx: Any, dx: Any) -> Any:
        return dx * 10

    generate_vmap_rule = True


def with_its_own_derivative(x: Any) -> Any:
    return Doubled.apply(x).sigmoid()


class Counted(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def within(context: Callable[[], Any]) -> Callable[[Any], Any]:
    def call(f: Any) -> Any:
        with context():
            return f(X)

    return call


def summed(f: Any) -> Any:
    leaves = lambda made: torch.utils._pytree.tree_leaves(made)  # noqa: E731
    return lambda x: sum((leaf * leaf).sum() for leaf in leaves(f(x)))


def of_a_dual_tensor(f: Any) -> Any:
    with forward_ad.dual_level():
        made = summed(f)(forward_ad.make_dual(X, V))
        return tuple(forward_ad.unpack_dual(made))


def of_a_fake(f: Any) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        made = f(mode.from_tensor(X))
    leaves = torch.utils._pytree.tree_leaves(made)
    return [str((t.dtype, t.shape, t.stride())) for t in leaves]


def of_a_conjugate(f: Any) -> Any:
    return f(torch.complex(V, X).conj().imag)  # a negative view


CONTEXTS: dict[str, Callable[[Any], Any]] = {
    "autocast": within(lambda: torch.autocast("cpu", torch.bfloat16)),
    "dispatch mode": within(Counted),
    "device": within(lambda: torch.device("cpu")),
    "profiler": within(lambda: torch.profiler.profile()),
    "vmap": lambda f: torch.vmap(f)(torch.stack([X, V])),
    "grad": lambda f: torch.func.grad(summed(f))(X),
    "vjp": lambda f: torch.func.vjp(summed(f), X)[1](torch.ones(())),
    "jvp": lambda f: torch.func.jvp(f, (X,), (V,)),
    "jacrev": lambda f: torch.func.jacrev(summed(f))(X),
    "vmap of grad": lambda f: torch.vmap(torch.func.grad(summed(f)))(torch.stack([X, V])),
    "functionalize": lambda f: torch.func.functionalize(f)(X),
    "make_fx": lambda f: make_fx(f)(X)(V),
    "dual": of_a_dual_tensor,
    "fake": of_a_fake,
    "conjugate": of_a_conjugate,
}
PROGRAMS = [plain, through_operators, of_a_tree, with_its_own_derivative]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_captured_program_is_the_program_in_every_context(
    program: Any, context: str, dynamic: bool
) -> None:
    sizes = {"x": {0: "n"}} if dynamic else None
    try:
        wanted = CONTEXTS[context](program)
    except Exception as error:  # torch has no such derivative
        wanted = error
    for is_warm in (False, True):
        captured = anyop.torch.capture(program, X, dynamic=sizes)
        if is_warm:
            captured(X)
        if isinstance(wanted, Exception):
            with pytest.raises(type(wanted)):
                CONTEXTS[context](captured)
        elif context == "fake":
            assert CONTEXTS[context](captured) == wanted
        else:
            torch.testing.assert_close(CONTEXTS[context](captured), wanted)
        torch.testing.assert_close(captured(V), program(V))


def test_sizes_of_which_the_program_asks_are_checked_in_every_context() -> None:
    def program(x: Any) -> Any:
        return x * 2 if x.shape[0] > 2 else x

    captured = anyop.torch.capture(program, X, dynamic={"x": {0: "n"}})
    assert torch.equal(torch.vmap(captured)(X[None]), X[None] * 2)
    for call in (captured, lambda x: torch.vmap(captured)(x[None])):
        with pytest.raises(ValueError, match="n > 2 must hold"):
            call(X[:2])


@pytest.mark.parametrize("program", [plain, of_a_tree])
def test_a_captured_program_has_no_gradient(program: Any) -> None:
    """It says so, whatever was called before."""
    captured = anyop.torch.capture(program, X)
    for _ in range(2):
        with pytest.raises(ValueError, match="a graph cannot take these tensors: a gradient"):
            captured(X.clone().requires_grad_())
        captured(X)


def added_and_looked_up(x: Any, at: Any, rows: Any, ids: Any) -> Any:
    x.index_add_(0, at, rows)
    return anyop.embedding(ids, x)


def looked_up_and_added(x: Any, at: Any, rows: Any, ids: Any) -> Any:
    y = torch.nn.functional.embedding(ids, x)
    x.index_add_(0, at, rows)
    return y


@pytest.mark.parametrize("way", ["compile", "capture"])
@pytest.mark.parametrize("program", [added_and_looked_up, looked_up_and_added])
def test_a_call_that_fails_writes_what_the_program_has_written(program: Any, way: str) -> None:
    """Once. Where it has written nothing, torch says what is wrong."""
    ids, at = torch.tensor([1, 2]), torch.tensor([0, 2])
    args = (floats(4, 8), at, floats(2, 8), ids)
    torch._dynamo.reset()
    made = (
        anyop.torch.capture(program, *(t.clone() for t in args))
        if way == "capture"
        else torch.compile(program, backend="anyop")
    )
    for wrong in (None, 9, None, 9):
        given = (args[2], ids if wrong is None else torch.tensor([1, wrong]))
        mine, theirs = args[0].clone(), args[0].clone()
        if wrong is None:
            torch.testing.assert_close(made(mine, at, *given), program(theirs, at, *given))
        else:
            with pytest.raises(Exception) as wanted:
                program(theirs, at, *given)
            kinds = [c for c in type(wanted.value).__mro__ if c.__module__ == "builtins"]
            with pytest.raises(kinds[0]):
                made(mine, at, *given)
        torch.testing.assert_close(mine, theirs)


ZERO = torch._efficientzerotensor((3, 8))
TENSORS: dict[str, Callable[[], Any]] = {
    "conjugate": lambda: torch.complex(X, V).conj(),
    "negative": lambda: torch.complex(X, V).conj().imag,
    "zero": lambda: ZERO,
    "nested": lambda: torch.nested.nested_tensor([X[:2], V], layout=torch.jagged),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_compiled_program_takes_tensors_of_every_kind(kind: str) -> None:
    def program(x: Any) -> Any:
        return (x * 2).abs() + 1

    torch._dynamo.reset()
    step = torch.compile(program, backend="anyop")
    with torch.no_grad():
        step(X)
        for _ in range(2):
            made, wanted = step(TENSORS[kind]()), program(TENSORS[kind]())
            if kind == "nested":
                made, wanted = made.values(), wanted.values()
            torch.testing.assert_close(made, wanted)
            step(X)
