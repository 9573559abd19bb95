# SPDX-License-Identifier: Apache-2.0
"""Every converter against torch: what is converted, what is not, and the results of both."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from backend_cases import CONVERTED, HOST, VIEWS, X, Y, floats, kinds  # noqa: E402
from generated import Example, example, operators, torch_op  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402


def named(rows: list[Any]) -> list[Any]:
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


def assert_same(program: Any, args: tuple[Any, ...]) -> Any:
    with torch.no_grad():
        captured = anyop.torch.capture(program, *args)
        for _ in range(2):
            torch.testing.assert_close(captured(*args), program(*args))
    return captured


@pytest.mark.parametrize(("program", "args", "operator"), named(CONVERTED))
def test_a_converted_operator_is_as_torchs(
    program: Any, args: tuple[Any, ...], operator: str
) -> None:
    captured = assert_same(program, args)
    assert kinds(captured)[operator] == {"operator"}


@pytest.mark.parametrize(("program", "args", "operator"), named(HOST))
def test_what_differs_stays_with_torch(program: Any, args: tuple[Any, ...], operator: str) -> None:
    captured = assert_same(program, args)
    assert kinds(captured)[operator] == {"host"}


@pytest.mark.parametrize("program", [pytest.param(p, id=name) for name, p in VIEWS])
@pytest.mark.parametrize("after", ["returned", "read by an operator", "read by torch"])
def test_views_see_the_same_elements(program: Any, after: str) -> None:
    then = {
        "returned": lambda x: x,
        "read by an operator": lambda x: torch.sigmoid(x),
        "read by torch": lambda x: torch.cumsum(x, 0),
    }[after]
    x = floats(2, 3, 8)
    made = anyop.torch.capture(lambda x: then(program(x)), x)(x)
    assert made.shape == then(program(x)).shape
    torch.testing.assert_close(made, then(program(x)))
    torch.testing.assert_close(
        anyop.torch.capture(lambda x: then(program(x + x)), x)(x), then(program(x + x))
    )


@pytest.mark.parametrize("op", operators())
def test_operators_of_anyop_convert_by_their_signature(op: str) -> None:
    # A dtype that compilers leave to torch must not be drawn: the graph would have no such node.
    call: Example = example(op, dtype="f32" if op.startswith("anyop.cast") else "")
    mine, plain = call.copy(), call.copy()
    program = torch_op(op)

    def run(values: list[Any]) -> Any:
        return program(*values)

    tensors = [v for v in pytree.tree_leaves(mine.torch_values) if isinstance(v, torch.Tensor)]
    captured = anyop.torch.capture(run, mine.torch_values)
    made = captured(mine.torch_values)
    expected = run(plain.torch_values)
    assert kinds(captured)[f"{op}.default"] == {"operator" if tensors else "host"}
    torch.testing.assert_close(made, expected, rtol=0, atol=0, equal_nan=True)
    wanted = [v for v in pytree.tree_leaves(plain.torch_values) if isinstance(v, torch.Tensor)]
    torch.testing.assert_close(tensors, wanted, rtol=0, atol=0, equal_nan=True)


def test_host_neighbours_are_one_call() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x.cos().sin().tan() + x.exp())

    captured = assert_same(program, (X,))
    assert str(captured).count("torch_host.") == 1


def test_a_host_node_sees_the_memory_of_each_call() -> None:
    """Tensors over the same address are made once."""
    captured = anyop.torch.capture(lambda x: x.cos().tan(), X, dynamic={"x": {0: "n"}})
    kept = [floats(n, 8, seed=n) for n in range(2, 9)]
    for _ in range(3):
        for x in kept:
            torch.testing.assert_close(captured(x), x.cos().tan())
            x.add_(1.0)
    buffer = torch.zeros(64)
    for n in (2, 8, 3):
        x = buffer[: 8 * n].view(n, 8).copy_(floats(n, 8))
        torch.testing.assert_close(captured(x), x.cos().tan())


def test_host_nodes_with_lists_numbers_and_other_code() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        low, high = torch.aminmax(x, dim=1)
        rows = torch.cat([x, y.flip(0)], 1).clamp(min=-0.5, max=float("inf"))
        return low, rows[:, None].to(torch.int32), torch.logsumexp(rows, (0, 1)), high

    assert_same(program, (X, Y))


def test_parts_with_many_results_and_arguments() -> None:
    def many(x: torch.Tensor) -> Any:
        made = [x.cos() + float(i) for i in range(12)]
        sums = [torch.sigmoid(m.cos()) for m in made]
        return torch.stack(sums), *sums

    assert_same(many, (X,))
    inputs = tuple(floats(2, 2, seed=i) for i in range(50))
    assert_same(lambda *xs: torch.stack(xs).sum(0) * sum(x.cos() for x in xs), inputs)


def test_a_converter_is_used_and_may_refuse() -> None:
    op = torch.ops.aten.tanh.default
    calls = []

    @anyop.torch.converter(op)
    def tanh(x: Any) -> Any:
        calls.append(x.shape)
        if x.ndim != 2:
            return NotImplemented
        twice = anyop.sigmoid(anyop.add(x, x))
        return anyop.add(anyop.add(twice, twice), minus_one(x))

    def minus_one(x: Any) -> Any:
        return torch.full((8,), -1.0)

    try:
        captured = assert_same(torch.tanh, (X,))
        assert kinds(captured)["aten.tanh.default"] == {"operator"} and calls
        captured = assert_same(torch.tanh, (floats(8),))
        assert kinds(captured)["aten.tanh.default"] == {"host"}
        row = next(r for r in captured.report() if r["operator"] == "aten.tanh.default")
        assert row["why"] == "its converter does not take these arguments"
    finally:
        from anyop.torch._nodes import converters

        del converters._converters[op]


def test_a_converter_that_is_wrong_is_not_believed() -> None:
    op = torch.ops.aten.tan.default
    anyop.torch.converter(op)(lambda x: x[:1])
    try:
        captured = assert_same(torch.tan, (X,))
        assert "made f32[1, 8], but torch" in next(iter(captured.report()))["why"]
    finally:
        from anyop.torch._nodes import converters

        del converters._converters[op]


def test_converters_are_of_overloads() -> None:
    with pytest.raises(TypeError, match="must be one overload of a torch operator"):
        anyop.torch.converter(torch.ops.aten.silu)


def test_random_numbers_are_drawn_in_each_call_in_order() -> None:
    def program(x: torch.Tensor) -> Any:
        a = torch.rand_like(x)
        b = torch.sigmoid(a)
        return a, b + torch.rand(3, 8), torch.rand(2)

    captured = anyop.torch.capture(program, X)
    torch.manual_seed(1)
    made = [captured(X) for _ in range(3)]
    torch.manual_seed(1)
    for one in made:
        torch.testing.assert_close(one, program(X))


def test_the_report_tells_calls_reasons_and_places() -> None:
    captured = anyop.torch.capture(lambda x, y: torch.sigmoid(x.cos()) + y, X, Y)
    for _ in range(3):
        captured(X, Y)
    rows = {row["operator"]: row for row in anyop.torch.report(captured)}
    assert rows["aten.cos.default"]["kind"] == "host" and rows["aten.cos.default"]["calls"] == 3
    assert rows["aten.cos.default"]["ms"] > 0
    assert rows["aten.cos.default"]["why"] == "no converter"
    assert rows["aten.cos.default"]["place"].startswith("test_backend_rows.py:")
    assert rows["aten.sigmoid.default"]["calls"] == 3
    assert "aten.cos.default" in str(captured.report())


INF, NAN = float("inf"), float("nan")
SPECIAL = torch.tensor([[-INF] * 4, [1, NAN, 2, 3], [INF, 1, 2, 3], [-INF, 0, 1, 2]])
EDGES: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("softmax", lambda x: torch.softmax(x, -1), (SPECIAL,)),
    ("softmax_bf16", lambda x: torch.softmax(x, -1), (SPECIAL.bfloat16(),)),
    ("silu", torch.nn.functional.silu, (SPECIAL,)),
    ("silu_far", torch.nn.functional.silu, (torch.linspace(-200, 200, 1001),)),
    ("silu_f16", torch.nn.functional.silu, (torch.linspace(-200, 200, 1001).half(),)),
    ("negative_zero", lambda x: 1 / -x, (torch.zeros(3),)),
    ("sub", lambda x: x - x.flip(0), (SPECIAL,)),
    ("to_f16", lambda x: x.half(), (torch.tensor([1e6, 65519.0, 65520.0, NAN, INF, 1e-8]),)),
    ("to_f8", lambda x: x.to(torch.float8_e4m3fn).float(), (torch.tensor([1e6, 448.0, NAN]),)),
    ("no_rows", lambda x: torch.softmax(x, -1) @ x.t(), (torch.zeros(0, 4),)),
    ("no_terms", torch.mm, (torch.zeros(3, 0), torch.zeros(0, 5))),
    ("wraps", lambda x: x + 1, (torch.tensor([2**31 - 1], dtype=torch.int32),)),
    ("rms_of_zeros", lambda x: torch.nn.functional.rms_norm(x, (4,)), (torch.zeros(2, 4),)),
    ("scalars", lambda x: x.sum() * 2.0 + x.mean(), (X,)),
]


@pytest.mark.parametrize(("program", "args"), named(EDGES))
def test_special_values_are_as_torchs(program: Any, args: tuple[Any, ...]) -> None:
    made = anyop.torch.capture(program, *args)(*args)
    torch.testing.assert_close(made, program(*args), equal_nan=True)
