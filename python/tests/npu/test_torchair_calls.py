# SPDX-License-Identifier: Apache-2.0
"""torchair's graphs with operators that the engine lacks: of anyop, of packages, of torch."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyop
import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from test_torchair import compare, compiled, flat

PROGRAM = Path(__file__).with_name("converters.py")
_number = itertools.count()


def x(*sizes: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(0)
    return torch.randn(*(sizes or (4, 8)), generator=made).npu()


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The engine's operators in the graphs of a test."""
    from anyop.torch.graph_engine import engine

    found: list[str] = []
    load = engine.Graph.load

    def loads(self: Any, graph: Any, options: Any = None) -> None:
        found.extend(op.type for op in graph.op if op.type not in engine.AROUND)
        load(self, graph, options)

    monkeypatch.setattr(engine.Graph, "load", loads)
    yield found


def with_gradients(function: Callable[..., Any], given: torch.Tensor) -> list[torch.Tensor]:
    leaf = given.detach().clone().requires_grad_()
    results = flat(function(leaf))
    sum((one.float() * one.float()).sum() for one in results).backward()
    assert leaf.grad is not None
    return [*(one.detach() for one in results), leaf.grad]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_operators_of_anyop(types: list[str], dynamic: bool) -> None:
    weight = torch.ones(8, device="npu")

    def model(x: torch.Tensor) -> torch.Tensor:
        return anyop.rms_norm(x * 2, weight) + anyop.silu_and_mul(x.repeat(1, 2))

    made = compiled(model, dynamic=dynamic)
    for rows in (4, 6):
        compare(made(x(rows, 8)), model(x(rows, 8)))
    assert types.count("TorchCall") == (2 if dynamic else 4)
    compare(with_gradients(compiled(model), x()), with_gradients(model, x()))


def test_operators_of_torch_library(types: list[str]) -> None:
    name = f"mine{next(_number)}"

    @torch.library.custom_op(f"{name}::bump", mutates_args={"x"})
    def bump(x: torch.Tensor, by: float) -> None:
        x.add_(by)

    @torch.library.custom_op(f"{name}::two", mutates_args=())
    def two(
        xs: list[torch.Tensor], count: int, dtype: torch.dtype, rest: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        return xs[0] * count, [x.to(dtype) + count for x in xs]

    @two.register_fake
    def sizes(xs: Any, count: int, dtype: torch.dtype, rest: Any = None) -> Any:
        return torch.empty_like(xs[0]), [torch.empty_like(x, dtype=dtype) for x in xs]

    def writes(x: torch.Tensor) -> Any:
        y = x + 1
        bump(y[1:], 3.0)
        bump(x, 2.0)
        return y * 2, x * 1

    def lists(x: torch.Tensor) -> Any:
        return two([x, x * 2], x.shape[0], torch.float16)

    given, want = x(), x()
    compare(compiled(writes)(given), writes(want))
    compare(given, want)
    compare(compiled(lists, dynamic=True)(x()), lists(x()))
    assert types.count("TorchCall") == 3


def test_converters_of_packages(types: list[str]) -> None:
    """One makes what the engine has, the other an operator that an NPU's engine would have."""
    import torchair
    from torchair.ge import Cast, DataType, attr, custom_op

    name = f"mine{next(_number)}"
    for kind in ("half", "twice"):
        torch.library.define(f"{name}::{kind}", "(Tensor x) -> Tensor")
    library = getattr(torch.ops, name)
    torch.library.impl(f"{name}::half", "PrivateUse1", lambda x: x.half())
    torch.library.impl(f"{name}::twice", "PrivateUse1", lambda x: x * 2)
    torch.library.register_fake(f"{name}::half", lambda x: torch.empty_like(x, dtype=torch.half))
    torch.library.register_fake(f"{name}::twice", torch.empty_like)

    @torchair.register_fx_node_ge_converter(library.half.default)
    def half(x: Any, meta_outputs: Any = None) -> Any:
        return Cast(x, dst_type=DataType.DT_FLOAT16)

    @torchair.register_fx_node_ge_converter(library.twice.default)
    def twice(x: Any, meta_outputs: Any = None) -> Any:
        return custom_op("MyTwice", inputs={"x": x}, outputs=["y"], attrs={"a": attr.Float(2.0)})

    def both(x: torch.Tensor) -> Any:
        return library.twice(x) + 1, library.half(x)

    compare(compiled(both)(x()), both(x()))
    assert types.count("TorchCall") == 1 and types.count("Cast") == 1


def test_what_a_converter_makes_is_replaced_where_it_is_not_here(types: list[str]) -> None:
    def pools(x: torch.Tensor) -> Any:
        image = x.view(1, 1, 4, 8)
        return F.max_pool2d(image, 2), F.avg_pool2d(image, 2)

    compare(with_gradients(compiled(pools), x()), with_gradients(pools, x()))
    assert "TorchCall" in types and "MaxPoolWithArgmaxV1" not in types


def test_results_that_are_not_asked_for_keep_their_places() -> None:
    from anyop.torch.graph_engine import calls
    from anyop.torch.graph_engine.node import Node

    names = [f"x{i}" for i in range(6)]
    keys = ("grad_out", "input", "mean", "rstd", "weight", "bias")
    call: dict[str, Any] = {key: {"input": name} for key, name in zip(keys, names, strict=True)}
    call |= {"normalized_shape": [8], "output_mask": [True, False, True]}
    text = json.dumps(["aten.native_layer_norm_backward.default", call])
    values = [torch.ones(*sizes) for sizes in ((4, 8), (4, 8), (4, 1), (4, 1), (8,), (8,))]
    operands = [(name, f"{name}:0") for name in names]
    node = Node("n", calls.TYPE, operands, {"call": text}, ["n:0", "n:1", "n:2"], list(values))
    dx, dweight, dbias = calls.OPERATORS[calls.TYPE](node)
    assert dx.shape == (4, 8) and dweight is None and dbias.tolist() == [4.0] * 8


def test_gradients_are_of_the_engine(types: list[str]) -> None:
    def network(x: torch.Tensor) -> Any:
        y = F.layer_norm(torch.tanh(x) + F.gelu(x), (8,))
        return torch.log_softmax(F.leaky_relu(y, 0.1), -1), F.elu(x).softmax(0), F.relu(x).sigmoid()

    compare(with_gradients(compiled(network), x()), with_gradients(network, x()))
    assert "TorchCall" not in types
    assert {"TanhGrad", "GeluGrad", "LayerNormGradV3", "SoftmaxGrad", "ReluGrad"} <= set(types)


def test_random_numbers_within_a_graph() -> None:
    leaf = x(64, 64).requires_grad_()
    made = compiled(lambda x: F.dropout(x, 0.25))
    kept = made(leaf)
    kept.sum().backward()
    assert leaf.grad is not None
    share = (kept == 0).float().mean().item()
    assert 0.2 < share < 0.3
    assert torch.equal(kept != 0, leaf.grad != 0)
    assert torch.allclose(kept[kept != 0], leaf[kept != 0] / 0.75)
    assert not torch.equal(made(leaf), kept)


def test_what_torchair_refuses_it_refuses_here() -> None:
    with pytest.raises(Exception, match="aten.amax.default ge_converter is not implemented"):
        compiled(lambda x: x.amax(-1))(x())


def samples(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, *words], capture_output=True, text=True, check=False
    )


def test_a_slice_of_torchairs_converters_agrees_with_the_cpu() -> None:
    ran = samples()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " samples agree with the CPU, " in ran.stdout


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_all_of_torchairs_converters_agree_with_the_cpu() -> None:
    ran = samples("--all")
    assert ran.returncode == 0, ran.stdout + ran.stderr
