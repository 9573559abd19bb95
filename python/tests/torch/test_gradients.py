# SPDX-License-Identifier: Apache-2.0
"""Gradients: every operator that has one, and what torch does with them."""

from __future__ import annotations

import concurrent.futures
import gc
import warnings
import weakref
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from anyop.torch._dispatch.operators import TORCH_DTYPES  # noqa: E402
from generated import (  # noqa: E402
    Example,
    contract,
    differentiable,
    example,
    listed,
    operators,
    torch_op,
    trained,
)
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

WITH = [op for op in operators() if differentiable(op)]
WITHOUT = [op for op in operators() if not differentiable(op)]
READERS = [
    op
    for op in WITHOUT
    if contract(op)["results"] and not any(p.get("mut") for p in contract(op)["params"])
]


def differentiable_results(op: str, results: list[Any]) -> list[Any]:
    wiring = anyop.info(op)["gradient"]
    taken = {name for kind, name in wiring["sources"] if kind == "result_gradient"}
    named = zip([r["name"] for r in contract(op)["results"]], results, strict=True)
    return [r for name, r in named if name in taken]


def directly(call: Example, results: list[Any], gradients: dict[str, Any]) -> dict[str, Any]:
    """The gradients of parameters, by calling the operator that `.gradient` names."""
    wiring = anyop.info(call.op)["gradient"]
    values = dict(zip([p["name"] for p in contract(call.op)["params"]], call.values, strict=True))
    made = dict(zip([r["name"] for r in contract(call.op)["results"]], results, strict=True))
    sources = {"result_gradient": gradients, "param": values, "result": made}
    arguments = [sources[kind][name] for kind, name in wiring["sources"]]
    with torch.no_grad():
        found = listed(torch_op(wiring["op"])(*arguments))
    return dict(zip(wiring["targets"], found, strict=True))


@pytest.mark.parametrize("op", WITH)
def test_backward_calls_the_gradient(op: str) -> None:
    for form in range(len(contract(op)["forms"])):
        call = trained(op, form)
        results = listed(torch_op(op)(*call.torch_values))
        used = differentiable_results(op, results)
        for r in results:
            assert r.requires_grad == any(r is u for u in used)
        ones = [torch.randn_like(r) for r in used]
        torch.autograd.backward(used, ones, retain_graph=True)
        wiring = anyop.info(op)["gradient"]
        names = [n for kind, n in wiring["sources"] if kind == "result_gradient"]
        order = [r["name"] for r in contract(op)["results"] if r["name"] in names]
        expected = directly(call, results, dict(zip(order, ones, strict=True)))
        for p, value in zip(contract(op)["params"], call.values, strict=True):
            if p["name"] in expected and expected[p["name"]] is not None:
                torch.testing.assert_close(value.grad, expected[p["name"]], rtol=0, atol=0)
            elif isinstance(value, torch.Tensor):
                assert value.grad is None


@pytest.mark.parametrize("op", WITH)
def test_no_float_result_is_without_a_gradient(op: str) -> None:
    for form in range(len(contract(op)["forms"])):
        call = trained(op, form)
        for i, p in enumerate(contract(op)["params"]):
            if p["name"].startswith("return_"):
                call.values[i] = True
        for r in listed(torch_op(op)(*call.torch_values)):
            assert r is None or not r.is_floating_point() or r.requires_grad


def without_gradient(op: str) -> list[tuple[int, str]]:
    """The float parameters that the gradient leaves out."""
    targets = anyop.info(op)["gradient"]["targets"]
    params = contract(op)["params"]
    return [(i, params[i]["name"]) for i in trained(op).floats if params[i]["name"] not in targets]


LEFT_OUT = [(op, i, name) for op in WITH for i, name in without_gradient(op)]


def test_it_is_known_what_has_no_gradient() -> None:
    found = {(op, name) for op, _, name in LEFT_OUT}
    assert found == {
        ("anyop.rope", "cos_sin_cache"),
        ("anyop.attention", "alibi_slopes"),
        ("anyop.topk_router", "bias"),  # moves which experts are chosen, not their weights
    }


@pytest.mark.parametrize(("op", "i", "name"), LEFT_OUT)
def test_a_parameter_without_a_gradient_is_refused_where_one_is_asked_for(
    op: str, i: int, name: str
) -> None:
    from anyop.hosting.gradient import refuse_missing
    from anyop.torch._dispatch.operators import Operator
    from anyop.torch._dispatch.python_route import WORDING

    short = op.removeprefix("anyop.")
    text = (
        f"{short}: {name} requires grad, but {short} has no gradient for it. Try {name}.detach()."
    )
    for others in (True, False):
        call = trained(op) if others else example(op, dtype="f32")
        call.values[i].requires_grad_()
        with pytest.raises(NotImplementedError) as error:
            torch_op(op)(*call.torch_values)
        assert str(error.value) == text
        with pytest.raises(NotImplementedError) as error:
            getattr(anyop.ops.anyop, short)(*call.values)
        assert str(error.value) == text
        operator = Operator(op)
        with pytest.raises(NotImplementedError) as error:
            refuse_missing(operator, operator.bind("", call.torch_values, {}).values, [i], WORDING)
        assert str(error.value) == text
        with torch.no_grad():
            torch_op(op)(*call.torch_values)
        call.values[i] = call.values[i].detach()
        assert listed(torch_op(op)(*call.torch_values))[0].requires_grad == others


@pytest.mark.slow
def test_a_compiler_refuses_it_too() -> None:
    x, table = torch.randn(3, 2, 8, requires_grad=True), torch.randn(3, 8, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(OPS.rope, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="rope: cos_sin_cache requires grad, but rope has no"):
        compiled(x, None, table)
    compiled(x, None, table.detach()).sum().backward()
    assert x.grad is not None


def words(op: str) -> list[tuple[int, str, str]]:
    """(parameter, name, word) of every word that the operator takes."""
    params = list(enumerate(contract(op)["params"]))
    return [(i, p["name"], word) for i, p in params for word in p.get("words") or ()]


@pytest.mark.parametrize("op", [op for op in WITH if words(op)])
def test_a_word_that_the_gradient_lacks_is_refused_before_anything_runs(op: str) -> None:
    from anyop.hosting.gradient import refuse_missing
    from anyop.torch._dispatch.operators import Operator
    from anyop.torch._dispatch.python_route import WORDING

    wiring = anyop.info(op)["gradient"]
    taken = {p["name"]: p.get("words") for p in contract(wiring["op"])["params"]}
    for i, name, word in words(op):
        known = taken.get(name)
        call = trained(op)
        if not known or word in known:
            continue
        call.values[i] = word
        short, gradient = (n.removeprefix("anyop.") for n in (op, wiring["op"]))
        text = (
            f"{short}: {name} is '{word}', but must be '{known[0]}' where a gradient is needed, "
            f"because {gradient} takes no other. Try torch.no_grad() around the call, or detach() "
            "its arguments."
        )
        with pytest.raises(NotImplementedError) as error:
            torch_op(op)(*call.torch_values)
        assert str(error.value) == text
        operator = Operator(op)
        with pytest.raises(NotImplementedError) as error:
            refuse_missing(operator, operator.bind("", call.torch_values, {}).values, [], WORDING)
        assert str(error.value) == text
        with torch.no_grad():
            torch_op(op)(*call.torch_values)


def test_an_absent_word_is_taken_by_a_gradient_of_fewer_words() -> None:
    anyop.define(
        "stepped_backward(dy: f32[n], way: 'up'?) -> (dx: f32[n]?)", lambda dy, way: dy.clone()
    )
    anyop.define(
        "stepped(x: f32[n], way: 'up' | 'down'?) -> (y: f32[n])",
        lambda x, way: x.clone(),
        gradient="stepped_backward",
    )
    x = torch.ones(3, requires_grad=True)
    for way in ("up", None):
        (slope,) = torch.autograd.grad(torch.ops.user.stepped(x, way).sum(), x)
        assert slope.tolist() == [1, 1, 1]
    with pytest.raises(NotImplementedError, match="way is 'down', but must be 'up' where a"):
        torch.ops.user.stepped(x, "down")


ODD = ("f8e8m0", "f4e2m1x2")  # without signs; pairs
FLOATS = [d for n, d in TORCH_DTYPES.items() if d.is_floating_point and n not in ODD]


@pytest.mark.parametrize("to", FLOATS, ids=str)
def test_every_cast_between_floats_has_its_gradient(to: Any) -> None:
    for dtype in FLOATS:
        x = torch.tensor([1.0, -2.0, 0.5]).to(dtype).requires_grad_()
        OPS.cast(x, to).backward(torch.tensor([0.5, 2.0, -1.0]).to(to))
        assert x.grad.dtype == dtype and x.grad.float().tolist() == [0.5, 2.0, -1.0]


def test_a_cast_to_powers_of_two_has_no_gradient() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(ValueError, match=r"dy is f8e8m0\[3\], but U must be f64, f32"):
        OPS.cast(x, torch.float8_e8m0fnu).backward(torch.ones(3).to(torch.float8_e8m0fnu))


@pytest.mark.parametrize("op", WITH)
@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_the_gradient_takes_the_dtypes_of_its_operator(op: str, dtype: str) -> None:
    targets = anyop.info(op)["gradient"]["targets"]
    for form in range(len(contract(op)["forms"])):
        call, like = trained(op, form), example(op, form, dtype=dtype)
        for i, p in enumerate(contract(op)["params"]):
            if p.get("words"):  # as the gradient takes them
                like.values[i] = call.values[i]
            if i in like.floats and p["name"] in targets:
                like.values[i].requires_grad_()
        used = differentiable_results(op, listed(torch_op(op)(*like.torch_values)))
        floats = [r for r in used if r.is_floating_point()]
        torch.autograd.backward(floats, [torch.ones_like(r) for r in floats])


@pytest.mark.parametrize("op", WITH)
def test_gradients_may_repeat_one_number(op: str) -> None:
    """sum() hands back an expanded tensor, whose strides are 0."""
    a, b = trained(op), trained(op)
    differentiable_results(op, listed(torch_op(op)(*a.torch_values)))[0].sum().backward()
    result = differentiable_results(op, listed(torch_op(op)(*b.torch_values)))[0]
    result.backward(torch.ones_like(result))
    for x, y in zip(a.values, b.values, strict=True):
        if isinstance(x, torch.Tensor) and x.grad is not None:
            torch.testing.assert_close(x.grad, y.grad)


class Calls(TorchDispatchMode):
    """The calls of anyop's operators that reach the kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "anyop":
            self.seen.append((func._opname, args))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("op", WITH)
def test_a_gradient_that_nobody_wants_is_not_computed(op: str) -> None:
    targets = anyop.info(op)["gradient"]["targets"]
    call = trained(op)
    for p, value in zip(contract(op)["params"], call.values, strict=True):
        if isinstance(value, torch.Tensor) and value.requires_grad and p["name"] != targets[0]:
            value.requires_grad_(False)
    used = differentiable_results(op, listed(torch_op(op)(*call.torch_values)))
    with Calls() as calls:
        torch.autograd.backward(used[0], torch.ones_like(used[0]))
    (name, args), *more = calls.seen
    assert not more
    assert f"anyop.{name}" == anyop.info(op)["gradient"]["op"]
    if len(targets) > 1:
        assert list(args[-1]) == [target == targets[0] for target in targets]
    grads = [isinstance(v, torch.Tensor) and v.grad is not None for v in call.values]
    assert sum(grads) == 1


@pytest.mark.parametrize("op", WITH)
def test_results_and_their_graph_are_freed_at_once(op: str) -> None:
    """A node that keeps a result as an argument would keep itself."""
    call = trained(op)
    results = listed(torch_op(op)(*call.torch_values))
    alive = [weakref.ref(r) for r in results]
    gc.disable()
    try:
        del results
        assert [ref() for ref in alive] == [None] * len(alive)
    finally:
        gc.enable()


@pytest.mark.parametrize("op", WITH)
def test_a_gradient_has_no_gradient(op: str) -> None:
    call = trained(op)
    used = differentiable_results(op, listed(torch_op(op)(*call.torch_values)))
    inputs = [v for v in call.values if isinstance(v, torch.Tensor) and v.requires_grad]
    first = torch.autograd.grad(
        sum(u.sin().sum() for u in used), inputs, create_graph=True, allow_unused=True
    )
    wiring = anyop.info(op)["gradient"]
    name = wiring["op"].removeprefix("anyop.")
    text = f"{name}: it has no gradient, but one was asked for. Try torch.no_grad() around the call"
    with pytest.raises(NotImplementedError) as error:
        sum(f.sum() for f in first if f is not None).backward()
    assert text in str(error.value)


@pytest.mark.parametrize("op", READERS)
def test_what_has_no_gradient_says_so_in_backward(op: str) -> None:
    call = example(op, dtype="f32")
    if not call.floats:
        pytest.skip("nothing to differentiate by")
    for i in call.floats:
        call.values[i].requires_grad_()
    floats = [r for r in listed(torch_op(op)(*call.torch_values)) if r.is_floating_point()]
    if not floats:
        pytest.skip("its results are integers")
    assert all(r.requires_grad for r in floats)
    name = op.removeprefix("anyop.")
    with pytest.raises(NotImplementedError, match=f"{name}: it has no gradient, but one was asked"):
        floats[0].backward(torch.ones_like(floats[0]))


WRITERS = [op for op in WITHOUT if any(p.get("mut") for p in contract(op)["params"])]


@pytest.mark.parametrize("op", WRITERS)
def test_writing_where_a_gradient_is_needed_is_refused(op: str) -> None:
    call = example(op, dtype="f32")
    named: list[tuple[str, Any]] = []
    for p, value in zip(contract(op)["params"], call.values, strict=True):
        if isinstance(value, list):  # its last, so that the name tells which
            named += [(f"{p['name']}[{len(value) - 1}]", value[-1])] if value else []
        else:
            named.append((p["name"], value))
    floats = [(n, v) for n, v in named if isinstance(v, torch.Tensor) and v.is_floating_point()]
    if not floats:
        pytest.skip("no float tensor")
    name, value = floats[0]
    value.requires_grad_()
    text = (
        f"{op.removeprefix('anyop.')}: {name} requires grad, but this call writes into its "
        "arguments, which cannot be differentiated. Try torch.no_grad() or detach()."
    )
    with pytest.raises(NotImplementedError) as error:
        torch_op(op)(*call.torch_values)
    assert str(error.value) == text
    with torch.no_grad():
        torch_op(op)(*call.torch_values)


def norm(*shape: int) -> tuple[Any, Any]:
    torch.manual_seed(0)
    return torch.randn(*shape, requires_grad=True), torch.randn(shape[-1], requires_grad=True)


OPS = torch.ops.anyop


def test_in_place_on_a_leaf_that_requires_grad_is_refused() -> None:
    x, w = norm(2, 8)
    text = (
        "rms_norm: x requires grad, but this call writes into its arguments, which cannot be "
        "differentiated. Try torch.no_grad() or detach()."
    )
    with pytest.raises(NotImplementedError) as error:
        OPS.rms_norm_(x, w)
    assert str(error.value) == text
    out = torch.empty(2, 8, requires_grad=True)
    with pytest.raises(NotImplementedError, match="rms_norm: out requires grad"):
        OPS.rms_norm.out(x.detach(), w.detach(), out=out)


def test_a_saved_tensor_that_was_written_is_noticed() -> None:
    x, w = norm(2, 8)
    middle = x * 1
    y = OPS.rms_norm(middle, w)
    middle.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_backward_twice_needs_retain_graph() -> None:
    x, w = norm(2, 8)
    y = OPS.rms_norm(x, w).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_nothing_is_recorded_without_grad_mode() -> None:
    x, w = norm(2, 8)
    with torch.no_grad():
        assert OPS.rms_norm(x, w).grad_fn is None
    with torch.inference_mode():
        assert not OPS.rms_norm(x, w).requires_grad


def test_unused_results_give_zeros_or_nothing() -> None:
    x, w = norm(2, 8)
    residual = torch.randn(2, 8, requires_grad=True)
    y, total = OPS.add_rms_norm(x, residual, w)
    total.sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(2, 8))
    torch.testing.assert_close(residual.grad, torch.ones(2, 8))


def test_functional_transforms() -> None:
    x, w = (t.detach() for t in norm(3, 8))

    def loss(x: Any) -> Any:
        return OPS.rms_norm(x, w).pow(2).sum()

    reference = x.clone().requires_grad_()
    loss(reference).backward()
    torch.testing.assert_close(torch.func.grad(loss)(x), reference.grad)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(x), reference.grad)
    jacobian = torch.func.jacrev(lambda x: OPS.rms_norm(x, w))(x)
    torch.testing.assert_close(
        torch.einsum("abcd,ab->cd", jacobian, 2 * OPS.rms_norm(x, w)), reference.grad
    )


def test_forward_mode_is_refused() -> None:
    x, w = (t.detach() for t in norm(3, 8))
    with pytest.raises(NotImplementedError, match="x has a tangent, but anyop's operators have no"):
        torch.func.jvp(lambda x: OPS.rms_norm(x, w), (x,), (x,))


def test_checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    x, w = norm(3, 8)
    checkpoint(lambda x, w: OPS.rms_norm(x, w).sum(), x, w, use_reentrant=False).backward()
    kept = x.grad.clone()
    x.grad = None
    OPS.rms_norm(x, w).sum().backward()
    torch.testing.assert_close(x.grad, kept)


@pytest.mark.slow
def test_compiled_autograd() -> None:
    import torch._dynamo

    for shape in ((3, 8), (5, 8)):
        x, w = norm(*shape)
        residual = torch.randn(*shape, requires_grad=True)
        grads = []
        for compiled in (False, True):
            x.grad = w.grad = residual.grad = None
            y, total = OPS.add_rms_norm(x, residual, w, 1e-4)
            z = OPS.silu_and_mul(y) + OPS.rms_norm(total, w, 1e-3)[:, :4]
            if compiled:
                backend = torch.compile(backend="aot_eager", fullgraph=True)
                with torch._dynamo.compiled_autograd._enable(backend):
                    z.pow(2).sum().backward()
            else:
                z.pow(2).sum().backward()
            grads.append([t.grad.clone() for t in (x, w, residual)])
        for eager, ours in zip(*grads, strict=True):
            torch.testing.assert_close(ours, eager)


def test_a_gradient_follows_the_scope_where_backward_is_called() -> None:
    """On the CPU; python/tests/far/test_scopes.py is about devices."""

    def backward(y: Any, policy: str) -> set[str]:
        with anyop.policy(policy):
            anyop.reset_counters()
            y.sum().backward()
        return {c.kernel for c in anyop.counters() if c.op == "anyop.rms_norm_backward"}

    x, w = norm(3, 8)
    portable = "rms_norm_backward=cpu_portable"
    y = OPS.rms_norm(x, w)
    assert backward(y, portable) == {"cpu_portable"}
    with anyop.policy(portable):
        y = OPS.rms_norm(x, w)
    usual = backward(y, "")
    assert usual != {"cpu_portable"}
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        y = OPS.rms_norm(x, w)
        assert pool.submit(backward, y, portable).result() == {"cpu_portable"}
        y = OPS.rms_norm(x, w)
        assert pool.submit(backward, y, "").result() == usual


def test_no_warnings() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x, w = norm(3, 8)
        OPS.rms_norm(x, w).sum().backward()
        torch.vmap(OPS.rms_norm, in_dims=(0, None))(x.detach(), w.detach())
    assert x.grad is not None and w.grad is not None
    assert [str(w.message) for w in seen] == []
