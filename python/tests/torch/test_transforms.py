# SPDX-License-Identifier: Apache-2.0
"""vmap, autocast, compilers, export: on operators from the registry, and on small models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from generated import (  # noqa: E402
    READERS,
    batched,
    example,
    listed,
    operators,
    torch_op,
    trained,
)

OPS = torch.ops.anyop


@pytest.mark.parametrize("op", READERS)
def test_vmap_equals_a_loop(op: str) -> None:
    call = example(op, dtype="f32")
    if not any(isinstance(v, torch.Tensor) for v in call.values):
        pytest.skip("no tensors")
    expected = listed(torch_op(op)(*call.torch_values))
    for only in ("first", "all"):
        values, dims = batched(call, only)
        positions = [i for i, d in enumerate(dims) if d is not None]

        def run(*tensors: Any, values: Any = values, positions: Any = positions) -> Any:
            given = dict(zip(positions, tensors, strict=True))
            return torch_op(op)(*[given.get(i, v) for i, v in enumerate(values)])

        tensors = [values[i] for i in positions]
        made = listed(torch.vmap(run, in_dims=tuple(dims[i] for i in positions))(*tensors))
        for ours, one in zip(made, expected, strict=True):
            torch.testing.assert_close(ours, torch.stack([one, one]), equal_nan=True)


def test_vmap_of_leading_dimensions_is_one_call() -> None:
    import anyop

    x, w = torch.randn(3, 5, 8), torch.randn(8)
    anyop.reset_counters()
    torch.vmap(OPS.rms_norm, in_dims=(1, None))(x, w)
    assert sum(c.calls for c in anyop.counters()) == 1


def test_vmap_calls_for_each_example_what_one_call_would_get_wrong() -> None:
    import anyop

    x = torch.arange(24.0).reshape(4, 2, 3)
    anyop.define(
        "of_rows(x: f32[..., n], count: int) -> (y: f32[..., n]) where count == rows(x)",
        lambda x, count: x * count,
        library="mapped",
    )
    made = torch.vmap(lambda x: torch.ops.mapped.of_rows(x, 2))(x)
    torch.testing.assert_close(made, x * 2)
    anyop.define(
        "by_form(x: f32[n, m]) -> (y: f32[n, m])\nby_form(x: f32[..., n]) -> (y: f32[..., n])",
        lambda x: -x if x.ndim == 2 else x + 1,
        library="mapped",
    )
    torch.testing.assert_close(torch.vmap(torch.ops.mapped.by_form)(x[0]), x[0] + 1)
    anyop.define(
        "with_all(x: f32[..., n], rest: f32[..., n]*) -> (y: f32[..., n])",
        lambda x, rest: x + sum(rest),
        library="mapped",
    )
    made = torch.vmap(lambda t: torch.ops.mapped.with_all(t, [x[0], x[1]]))(x)
    torch.testing.assert_close(made, x + x[0] + x[1])


def test_autocast_makes_dtypes_agree_and_touches_nothing_else() -> None:
    x, w = torch.randn(2, 8), torch.randn(8)
    with pytest.raises(ValueError, match="weight is bf16"):
        OPS.rms_norm(x, w.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert OPS.rms_norm(x, w).dtype == torch.float32
        mixed = OPS.rms_norm(x, w.bfloat16())
        assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(mixed, OPS.rms_norm(x.bfloat16(), w.bfloat16()), rtol=0, atol=0)
    x.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        OPS.rms_norm(x, w.bfloat16()).float().sum().backward()
    assert x.grad.dtype == torch.float32


@pytest.mark.parametrize("op", operators())
def test_every_operator_traces_with_symbolic_sizes(op: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_flatten, tree_unflatten

    call = example(op, dtype="f32")
    flat, spec = tree_flatten(call.torch_values)
    tensors = [i for i, v in enumerate(flat) if isinstance(v, torch.Tensor)]

    def run(*given: Any) -> Any:
        values = list(flat)
        for i, t in zip(tensors, given, strict=True):
            values[i] = t
        return torch_op(op)(*tree_unflatten(values, spec))

    graph = make_fx(run, tracing_mode="symbolic")(*[flat[i].clone() for i in tensors])
    calls = [n for n in graph.graph.nodes if n.op == "call_function"]
    assert any(n.target is torch_op(op) for n in calls)
    again = [flat[i].clone() for i in tensors]
    expected = listed(torch_op(op)(*call.copy().torch_values))
    for ours, one in zip(listed(graph(*again)), expected, strict=True):
        torch.testing.assert_close(ours, one, equal_nan=True)


def model(x: Any, residual: Any, w: Any, up: Any, down: Any) -> Any:
    y, total = OPS.add_rms_norm(x, residual, w)
    return total + OPS.linear(OPS.silu_and_mul(OPS.linear(y, up)), down)


def weights(rows: int) -> list[Any]:
    torch.manual_seed(rows)
    shapes = [(rows, 16), (rows, 16), (16,), (48, 16), (16, 24)]
    return [torch.randn(s, requires_grad=True) for s in shapes]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing that was compiled before is used."""
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(fx_graph_cache=False):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor_trains(dynamic: bool) -> None:
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for rows in (4, 7) if dynamic else (4,):
        ours, eager = weights(rows), weights(rows)
        y, z = compiled(*ours), model(*eager)
        torch.testing.assert_close(y, z)
        y.sin().sum().backward()
        z.sin().sum().backward()
        for a, b in zip(ours, eager, strict=True):
            torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_inductor_plans_the_memory_of_results() -> None:
    from torch._inductor.utils import run_and_get_code

    x, w = torch.randn(4, 16), torch.randn(16)
    function = torch.compile(lambda x: OPS.rms_norm(x + 1, w) * 2, fullgraph=True)
    y, code = run_and_get_code(function, x)
    torch.testing.assert_close(y, OPS.rms_norm(x + 1, w) * 2)
    assert "rms_norm.out" in code[0]


@pytest.mark.slow
@pytest.mark.usefixtures("fresh")
def test_inductor_compiles_what_writes_into_its_arguments() -> None:
    def step(key: Any, value: Any, keys: Any, values: Any, slots: Any) -> Any:
        OPS.reshape_and_cache(key, value, keys, values, slots)
        OPS.rms_norm_(key)
        out = torch.empty_like(key)
        OPS.rms_norm.out(value, out=out)
        return keys.sum() + key.sum() + out.sum()

    def arguments() -> list[Any]:
        torch.manual_seed(0)
        caches = [torch.zeros(2, 4, 2, 8), torch.zeros(2, 4, 2, 8)]
        return [torch.randn(3, 2, 8), torch.randn(3, 2, 8), *caches, torch.tensor([0, 5, 7])]

    ours, eager = arguments(), arguments()
    torch.testing.assert_close(torch.compile(step, fullgraph=True)(*ours), step(*eager))
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["anyop.rms_norm", "anyop.linear", "anyop.rope", "anyop.embedding"])
def test_training_compiles_with_dynamic_sizes(op: str) -> None:
    torch._dynamo.reset()
    ours, eager = trained(op, 0), trained(op, 0)
    compiled = torch.compile(torch_op(op), fullgraph=True, dynamic=True, backend="aot_eager")
    for call, run in ((ours, compiled), (eager, torch_op(op))):
        listed(run(*call.torch_values))[0].sin().sum().backward()
    for a, b in zip(ours.values, eager.values, strict=True):
        if isinstance(a, torch.Tensor) and b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad)


def test_export_with_a_symbolic_size() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, residual: Any, w: Any, up: Any, down: Any) -> Any:
            return model(x, residual, w, up, down)

    rows = torch.export.Dim("rows", min=2, max=64)
    given = tuple(t.detach() for t in weights(4))
    shapes = ({0: rows}, {0: rows}, None, None, None)
    program = torch.export.export(Model(), given, dynamic_shapes=shapes)
    targets = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert "anyop.add_rms_norm.default" in targets
    other = tuple(t.detach() for t in weights(9))
    torch.testing.assert_close(program.module()(*other), model(*other))


def test_a_symbolic_number_is_not_fixed() -> None:
    import anyop
    from torch.fx.experimental.proxy_tensor import make_fx

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            packed = anyop.pack_weight(x)
            y = anyop.linear_packed(x + 1, packed, x.shape[0])
            return y, anyop.rotary_cache(x.shape[0], 8, like=torch)

    def check(program: Any) -> None:
        for n in (6, 9):
            x = torch.randn(n, 8)
            torch.testing.assert_close(program(x), Model()(x))

    rows = {0: torch.export.Dim.DYNAMIC}
    check(torch.export.export(Model(), (torch.randn(6, 8),), dynamic_shapes=(rows,)).module())
    check(make_fx(Model(), tracing_mode="symbolic")(torch.randn(6, 8)))


@pytest.mark.slow
def test_aot_inductor(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return OPS.rms_norm(x, w) + 1

    given = (torch.randn(4, 8), torch.randn(8))
    program = torch.export.export(Model(), given)
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "model.pt2")
    )
    loaded = torch._inductor.aoti_load_package(package)
    torch.testing.assert_close(loaded(*given), Model()(*given))


def test_sizes_that_do_not_fit_are_refused_while_tracing() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(OPS.rms_norm, fullgraph=True, dynamic=True, backend="eager")
    with pytest.raises(Exception, match="rms_norm: weight"):
        compiled(torch.randn(3, 8), torch.randn(7))
