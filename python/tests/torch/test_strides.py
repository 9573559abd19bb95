# SPDX-License-Identifier: Apache-2.0
"""Strides of results that torch's own fakes tell wrong."""

from __future__ import annotations

import itertools
import logging
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from anyop.torch._lower.outputs import MISTOLD  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode  # noqa: E402

GIVEN = {"number": 2, "Scalar": 2, "int": 1, "float": 0.5}  # by type, for what has no default


def elementwise() -> Iterator[Any]:
    """ATen's operators of one to three tensors with one result, element by element."""
    names = {s.name for s in torch._C._jit_get_all_schemas()}  # dir(torch.ops.aten): those in use
    for name in sorted(n.removeprefix("aten::") for n in names if n.startswith("aten::")):
        packet = getattr(torch.ops.aten, name, None)
        for overload in getattr(packet, "overloads", list)():
            op = getattr(packet, overload)
            is_known = (
                torch.Tag.pointwise in op.tags or "floor" in name or overload == "Tensor_mode"
            )
            if is_known and not op._schema.is_mutable and len(op._schema.returns) == 1:
                yield op


def calls(op: Any, tensors: list[Any]) -> Any:
    given, args, kwargs = iter(tensors), [], {}
    for a in op._schema.arguments:
        if str(a.type) == "Tensor":
            args.append(next(given))
        elif a.name == "rounding_mode":
            kwargs[a.name] = "floor"
        elif a.has_default_value():
            continue
        else:
            args.append(GIVEN[str(a.type)])
    return op(*args, **kwargs)


def layouts(shape: tuple[int, ...], dtype: Any) -> list[Any]:
    x = torch.ones(shape).to(dtype)
    if len(shape) < 2:
        return [x]
    return [x, x.mT.contiguous().mT, x[..., :1].expand(shape)]


def strides(x: Any) -> list[int]:
    return [s for n, s in zip(x.shape, x.stride(), strict=True) if n != 1]


def is_mistold(op: Any) -> bool:
    """Whether torch and its fake differ for some layout of the arguments."""
    n = sum(str(a.type) == "Tensor" for a in op._schema.arguments)
    if not 0 < n < 4:
        return False
    for shapes in ([(2, 3, 4)] * n, [(2, 3, 4), (1, 2, 3, 1), (4,)][:n]):
        for dtypes in ([torch.float32] * n, [torch.bfloat16, torch.float32, torch.float32][:n],
                       [torch.bool] * n):  # fmt: skip
            for given in itertools.product(*map(layouts, shapes, dtypes)):
                try:
                    mode = FakeTensorMode()
                    told = calls(op, [mode.from_tensor(x) for x in given])
                    made = calls(op, list(given))
                except Exception:  # no such types
                    continue
                if strides(told) != strides(made):
                    return True
    return False


@pytest.mark.exhaustive
def test_operators_whose_strides_are_mistold_are_known() -> None:
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {op for op in elementwise() if is_mistold(op)}
    finally:
        logging.disable(logging.NOTSET)
    assert found == MISTOLD


X = torch.randn(3, 6, 5).bfloat16().mT.contiguous().mT
Y = torch.randn(2, 3, 6, 1)
PROGRAMS = {
    "floor_divide": lambda x, y: (x // y)[None],
    "div": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "copysign": lambda x, y: torch.copysign(x, y) + 1,
    "xlogy": lambda x, y: torch.xlogy(y.abs() * 3, x.float().abs()[0]),
    "power": lambda x, y: 2 ** x.float(),
}


@pytest.mark.parametrize("way", ["compile", "capture"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_are_what_torch_makes(name: str, way: str) -> None:
    program = PROGRAMS[name]
    if way == "compile":
        torch._dynamo.reset()
        made = torch.compile(program, backend="anyop")(X, Y)
    else:
        made = anyop.torch.capture(program, X, Y)(X, Y)
    wanted = program(X, Y)
    assert strides(made) == strides(wanted)
    torch.testing.assert_close(made, wanted, equal_nan=True)


HELD = torch.randn(5, 6).t()
PARAMETER = torch.nn.Parameter(torch.randn(5, 6).t(), requires_grad=False)
OPERATORS = ("lt", "le", "gt", "ge", "eq", "ne", "sub", "truediv")


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.randn(5, 6).t())
        self.weight = torch.nn.Parameter(torch.randn(5, 6).t())
        self.rows = {"row": [torch.randn(5, 6).t()]}


HOLDER = Holder()
OPERANDS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "global": lambda x, p: (HELD, x),
    "buffer": lambda x, p: (HOLDER.buffer, x + 1),
    "in_a_dictionary": lambda x, p: (HOLDER.rows["row"][0], x),
    "weight": lambda x, p: (HOLDER.weight, x),
    "argument_and_global": lambda x, p: (x, HELD),
    "argument_and_weight": lambda x, p: (x, HOLDER.weight),
    "global_and_parameter": lambda x, p: (HELD, PARAMETER),
    "argument_that_is_a_parameter": lambda x, p: (x, p),
    "parameter_and_global": lambda x, p: (p, HELD.t().contiguous().t()),
    "what_was_made_of_a_parameter": lambda x, p: (x, p * 1),
    "two_held": lambda x, p: (HOLDER.rows["row"][0], torch.where(x < HELD, x, HELD)),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_operands_keep_their_order_in_a_capture(name: str) -> None:
    """Python asks the right one of a comparison first, if its class derives from the left one's."""
    x, p = torch.randn(6, 5), torch.nn.Parameter(torch.randn(5, 6).t(), requires_grad=False)

    def program(x: Any, p: Any) -> Any:
        a, b = OPERANDS[name](x, p)
        return [*(getattr(operator, f)(a, b) for f in OPERATORS), a.gt(b), torch.eq(b, a)]

    sizes = {"x": {0: "n"}, "p": {0: "n"}}
    with torch.no_grad():
        for dynamic in (None, sizes) if name == "argument_that_is_a_parameter" else (None,):
            captured = anyop.torch.capture(program, x, p, dynamic=dynamic)
            for a, b in zip(captured(x, p), program(x, p), strict=True):
                assert strides(a) == strides(b)
                torch.testing.assert_close(a, b)
    assert type(HELD) is type(HOLDER.buffer) is torch.Tensor
    assert "__lt__" not in vars(FakeTensor)


def test_a_tensor_with_a_history_is_not_compared_in_doubt() -> None:
    known = (torch.randn(5, 6, requires_grad=True) * 2).t()

    def program(x: Any) -> Any:
        return known > x

    x = torch.randn(6, 5)
    with pytest.raises(ValueError) as error:
        anyop.torch.capture(program, x)
    place = f"test_strides.py:{program.__code__.co_firstlineno + 1}"
    assert str(error.value) == (
        f"program: {place} compares a tensor that autograd has the history of with one of the "
        "graph's, but which of both torch gets first is not known while a graph is made. Try a "
        "detach() of it."
    )
    known = known.detach()
    assert strides(anyop.torch.capture(program, x)(x)) == strides(program(x))


def test_what_a_program_holds_is_as_before_where_it_raises() -> None:
    def program(x: Any) -> Any:
        seen = HOLDER.buffer > x
        raise RuntimeError(f"{tuple(seen.shape)}")

    with pytest.raises(RuntimeError, match="6, 5"):
        anyop.torch.capture(program, torch.randn(6, 5))
    assert type(HOLDER.buffer) is torch.Tensor
    assert "__lt__" not in vars(FakeTensor)
