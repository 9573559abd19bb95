# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python, called from torch: directly, by the dispatcher, compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import anyop
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import anyop.torch  # noqa: E402
from anyop import _anyop  # noqa: E402
from anyop.torch._dispatch.operators import TORCH_DTYPES  # noqa: E402

X = torch.linspace(-2, 2, 6).reshape(2, 3)
FLOATS = "T in f64 | f32 | f16 | bf16"
_number = iter(range(10**6))


def define(signature: str, function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """anyop.define under a name that no other test has; `f` in the signature stands for it."""
    name = f"torch_f{next(_number)}"
    return anyop.define(signature.replace("f(", f"{name}(", 1), function, **options)


def of_torch(op: Any) -> Any:
    return getattr(torch.ops.user, anyop.info(op)["name"].removeprefix("user."))


@anyop.define(f"sig_backward(dy: T[...], y: T[...]) -> (dx: T[...]?) where {FLOATS}")
def sig_backward(dy: Any, y: Any) -> Any:
    return dy * y * (1 - y)


@anyop.define(f"sig(x: T[...]) -> (y: T[...]) where {FLOATS}", gradient="sig_backward")
def sig(x: Any) -> Any:
    return torch.sigmoid(x) if isinstance(x, torch.Tensor) else 1 / (1 + np.exp(-x))


def test_is_an_operator_of_torch() -> None:
    torch.testing.assert_close(sig(X), torch.sigmoid(X))
    torch.testing.assert_close(torch.ops.user.sig(X), torch.sigmoid(X))
    out = torch.empty_like(X)
    assert sig(X, out=out) is out
    torch.testing.assert_close(out, torch.sigmoid(X))
    torch.testing.assert_close(torch.ops.user.sig.out(X, out=torch.empty_like(X)), torch.sigmoid(X))
    np.testing.assert_allclose(sig(X.numpy()), torch.sigmoid(X), rtol=1e-6)


@anyop.define("tally_backward(dy: f32[n]) -> (dx: f32[n]?)")
def tally_backward(dy: Any) -> Any:
    return 2 * dy


@anyop.define("tally(x: f32[n], seen: mut f32[n]) -> (y: f32[n])", gradient="tally_backward")
def tally(x: Any, seen: Any) -> Any:
    seen += x
    return 2 * x


@pytest.mark.parametrize("call", [tally, of_torch(tally)], ids=["direct", "dispatched"])
def test_what_an_operator_writes_beside_its_results_forbids_no_gradient(call: Any) -> None:
    x, seen = torch.ones(3, requires_grad=True), torch.zeros(3)
    version = seen._version
    call(x, seen).sum().backward()
    assert x.grad.tolist() == [2, 2, 2] and seen.tolist() == [1, 1, 1]
    assert seen._version == version + 1
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    compiled(x, seen).sum().backward()
    assert x.grad.tolist() == [4, 4, 4] and seen.tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError) as caught:
        call(x.detach(), torch.zeros(3, requires_grad=True))
    assert "seen requires grad, but" in str(caught.value)


def test_passes_opcheck_with_and_without_gradient() -> None:
    for x in (X, X.double().requires_grad_(), X.bfloat16()):
        torch.library.opcheck(torch.ops.user.sig.default, (x,))


def test_gradients_are_those_that_central_differences_give() -> None:
    x = X.double().requires_grad_()
    for f in (sig, torch.ops.user.sig):
        assert torch.autograd.gradcheck(f, (x,))


def test_a_second_derivative_that_nobody_defined_is_an_error() -> None:
    x = X.clone().requires_grad_()
    (dx,) = torch.autograd.grad(sig(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(dx.sum(), x)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_in_one_graph_and_trains(dynamic: bool) -> None:
    f = torch.compile(lambda x: (sig(x * 2) + 1).sum(), fullgraph=True, dynamic=dynamic)
    for n in (2, 5):
        x = torch.randn(n, 3, requires_grad=True)
        expected = torch.autograd.grad((torch.sigmoid(x * 2) + 1).sum(), x)
        torch.testing.assert_close(torch.autograd.grad(f(x), x), expected)


def test_traces_through_aot_autograd() -> None:
    f = torch.compile(lambda x: sig(x) * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(f(X), torch.sigmoid(X) * 2)


DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.complex64,
    *(pytest.param(d, marks=pytest.mark.exhaustive) for d in (
        torch.uint16, torch.uint32, torch.uint64, torch.complex128, torch.float8_e8m0fnu,
        torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float4_e2m1fn_x2)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [
    torch.uint32,
    *(pytest.param(d, marks=pytest.mark.exhaustive) for d in (
        torch.uint16, torch.uint64, torch.complex64, torch.complex128, torch.float8_e8m0fnu,
        torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)),
])  # fmt: skip
def test_casts_and_fakes_have_every_dtype(dtype: torch.dtype) -> None:
    torch._dynamo.reset()  # it compiles one function a few times only
    x = torch.tensor([0.75, 1.0, 3.0, 100.0])
    for call in (anyop.cast, torch.compile(anyop.cast, fullgraph=True, backend="aot_eager")):
        made = call(x, dtype)
        assert made.dtype == dtype
        torch.testing.assert_close(made.to(torch.complex128), x.to(dtype).to(torch.complex128))
        torch.testing.assert_close(call(made, torch.float32), x.to(dtype).float())
    if dtype.is_floating_point and dtype != torch.float8_e8m0fnu or dtype.is_complex:
        y = x.clone().requires_grad_()
        anyop.cast(y, dtype).to(torch.complex128).real.sum().backward()
        assert y.grad.tolist() == [1, 1, 1, 1]


def test_torch_has_every_dtype() -> None:
    assert {name for name, _, _ in _anyop.dtypes()} == set(TORCH_DTYPES)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sees_each_dtype_and_layout_in_place(dtype: torch.dtype) -> None:
    seen: list[Any] = []
    every = " | ".join(name for name, _, _ in _anyop.dtypes())

    @define(f"f(x: T[..., d], to: dtype) -> (y: T[..., d]) where T in {every}")
    def f(x: Any, to: Any) -> Any:
        seen[:] = [x.data_ptr(), x.dtype, tuple(x.shape), x.stride(), to]
        return x

    base = torch.arange(24 * dtype.itemsize, dtype=torch.uint8).view(dtype).reshape(4, 6)
    for x in (base, base[::2, 1:3], base[1]):
        wanted = [x.data_ptr(), dtype, tuple(x.shape), x.stride(), dtype]
        for call in (f, of_torch(f)):
            seen.clear()
            y = call(x, dtype)
            torch.testing.assert_close(y.view(torch.uint8), x.contiguous().view(torch.uint8))
            assert seen == wanted


def test_a_function_may_be_of_one_host_only() -> None:
    seen: list[type] = []

    def note(x: Any) -> Any:
        seen.append(type(x))
        return x

    by_numpy = define("f(x: f32[...]) -> (y: f32[...])", numpy=note)
    by_torch = define("f(x: f32[...]) -> (y: f32[...])", torch=note)
    both = define("f(x: f32[...]) -> (y: f32[...])", note, torch=lambda x: x + 1)
    for op in (by_numpy, of_torch(by_numpy)):
        assert torch.equal(op(X), X)
    assert np.array_equal(by_numpy(X.numpy()), X)
    assert set(seen) == {np.ndarray}
    seen.clear()
    assert np.array_equal(by_torch(X.numpy()), X)
    assert torch.equal(by_torch(X), X)
    assert set(seen) == {torch.Tensor}
    assert torch.equal(both(X), X + 1)
    assert np.array_equal(both(X.numpy()), X)


def test_writes_mut_arguments_in_place() -> None:
    @define("f(x: mut f32[n], more: mut f32[m]*) -> ()")
    def f(x: Any, more: list[Any]) -> None:
        x += 1
        for one in more:
            one *= 2

    for call in (f, of_torch(f)):
        x, more = torch.zeros(3), [torch.ones(2), torch.full((2, 2), 3.0)[1]]
        version = x._version
        assert call(x, more) is None
        assert x.tolist() == [1, 1, 1]
        assert [t.tolist() for t in more] == [[2, 2], [6, 6]]
        assert x._version > version


def test_several_results_and_those_left_out() -> None:
    seen: list[Any] = []

    @define("f(x: f32[n]) -> (y: f32[n], z: f32[n]?)")
    def f(x: Any, out: Any) -> None:
        seen.append(out[1] is None)
        out[0].copy_(x)
        if out[1] is not None:
            out[1].copy_(-x)

    assert torch.equal(f(X[0]).z, -X[0])
    assert f(X[0], out=(None, False)).z is None
    assert of_torch(f)(X[0], [True, False])[1] is None
    assert seen == [False, True, True]


def test_what_a_function_raises_arrives_as_it_is() -> None:
    class Mine(Exception):
        pass

    def fails(x: Any) -> Any:
        raise Mine("no") if x.ndim == 2 else ValueError("bad value")

    op = define("f(x: f32[...]) -> (y: f32[...])", fails)
    of = of_torch(op)
    grad = X.clone().requires_grad_()
    for call in (lambda: op(X), lambda: op(grad), lambda: of(X), lambda: of(grad),
                 lambda: of.out(X, out=torch.empty_like(X))):  # fmt: skip
        with pytest.raises(Mine, match="^no$") as caught:
            call()
        assert caught.traceback[-1].name == "fails"
    with pytest.raises(ValueError, match="^bad value$"):
        of(X[0])


def test_what_a_function_raised_is_not_raised_for_another_error() -> None:
    """A call that fails for a reason of its own, behind one whose error nobody saw."""

    def fails(x: Any) -> Any:
        raise KeyError("mine")

    def calls(x: Any) -> Any:
        with contextlib.suppress(KeyError, anyop.Error):
            of_torch(inner)(x)
        raise LookupError("another")

    inner = define("f(x: f32[...]) -> (y: f32[...])", fails)
    outer = of_torch(define("f(x: f32[...]) -> (y: f32[...])", calls))
    with pytest.raises(LookupError, match="^another$"):
        outer(X)
    with pytest.raises(ValueError, match=r"x is f64\[2, 3\], but must be f32"):
        outer(X.double())


def backward_of(op: Any) -> Callable[[Any], None]:
    return lambda x: op(x.clone().requires_grad_()).sum().backward()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError])
def test_what_must_not_be_swallowed_passes_through_torch(error: type[BaseException]) -> None:
    """By the dispatcher, in backward, under a transform, compiled, and not a second time."""
    raised: list[BaseException | None] = [error("mine")]

    def fails(x: Any) -> Any:
        if raised[0] is not None:
            raise raised[0]
        return x + x

    op = of_torch(define("f(x: f32[...]) -> (y: f32[...])", fails))
    gradient = define("f(dy: f32[...]) -> (dx: f32[...]?)", lambda dy: fails(dy))
    name = anyop.info(gradient)["name"].removeprefix("user.")
    forward = define("f(x: f32[...]) -> (y: f32[...])", lambda x: x + x, gradient=name)
    calls: list[Callable[[Any], Any]] = [
        op,
        lambda x: op.out(x, out=torch.empty_like(x)),
        backward_of(of_torch(forward)),
        backward_of(forward),
        torch.func.vmap(op),
        torch.compile(op, backend="aot_eager"),
        torch.compile(op, backend="anyop"),
    ]
    for call in calls:
        with pytest.raises(error) as caught:
            call(X)
        assert caught.value is raised[0]
    raised[0] = None
    with pytest.raises(ValueError, match=r"x is f64\[2, 3\], but must be f32"):
        op(X.double())
    for call in calls:
        call(X)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: x.double(), "returned f64[2, 3] for y, but the signature promises f32[2, 3]. "
         "Try .to(torch.float32)."),
        (lambda x: x[1:], "returned f32[1, 3] for y, but the signature promises f32[2, 3]."),
        (lambda x: x.numpy(), "returned a ndarray for y, but the signature promises f32[2, 3]. "
         "Try a torch tensor."),
        (lambda x: x.to("meta"), "returned f32[2, 3] on meta for y, but the signature promises "
         "f32[2, 3]. Try .cpu()."),
        (lambda x: None, "returned None for y, but the signature promises f32[2, 3]."),
    ],
)  # fmt: skip
def test_what_is_returned_must_be_what_was_promised(function: Any, text: str) -> None:
    op = define("f(x: f32[...]) -> (y: f32[...])", function)
    for call in (op, of_torch(op)):
        with pytest.raises(ValueError) as caught:
            call(X)
        assert f"{anyop.info(op)['name']}: <lambda>() {text}" in str(caught.value)


def test_results_carry_no_graph_of_the_functions_own() -> None:
    weight = torch.ones(3, requires_grad=True)
    op = define("f(x: f32[..., d]) -> (y: f32[..., d])", lambda x: x.t().contiguous().t() * weight)
    for call in (op, of_torch(op)):
        y = call(X)
        assert torch.equal(y, X)
        assert not y.requires_grad


def test_memory_that_is_lent_may_not_be_kept() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x.view(-1)[1:])
        return x

    op = define("f(x: f32[...]) -> (y: f32[...])", keep)
    op(X.clone())  # the caller's own tensor
    assert kept[0].tolist() == X.flatten()[1:].tolist()
    with pytest.raises(RuntimeError, match=r"keep\(\) keeps an argument.*Try a copy"):
        of_torch(op)(X.clone())


def test_batches_under_vmap() -> None:
    x = torch.randn(4, 3)
    torch.testing.assert_close(torch.func.vmap(sig)(x), torch.sigmoid(x))


def test_names_are_looked_up_like_those_of_other_operators() -> None:
    with pytest.raises(ValueError, match=r"x is i64\[2\], but T must be"):
        torch.ops.user.sig(torch.ones(2, dtype=torch.int64))
    with pytest.raises(TypeError, match="NumPy|torch"):
        define("f(x: f32[n], y: f32[n]) -> (z: f32[n])", lambda x, y: x)(X[0], X[0].numpy())
