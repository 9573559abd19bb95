# SPDX-License-Identifier: Apache-2.0
"""Every operator and form through torch.ops, beside the NumPy host."""

from __future__ import annotations

import anyop
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from generated import (  # noqa: E402
    FORMS,
    IDS,
    assert_equal,
    contract,
    example,
    listed,
    on_numpy,
    operators,
    to_numpy,
    torch_op,
)

OPS = torch.ops.anyop


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_results_and_writes_equal_those_on_numpy(op: str, form: int) -> None:
    for present in (True, False):
        call = example(op, form, present=present)
        results, after = on_numpy(call)
        made = listed(torch_op(op)(*call.torch_values))
        assert len(made) == len(results)
        for ours, numpy in zip(made, results, strict=True):
            assert_equal(ours, numpy)
        for p, value, numpy in zip(contract(op)["params"], call.values, after, strict=True):
            if p.get("mut"):
                pairs = (
                    zip(value, numpy, strict=True) if isinstance(value, list) else [(value, numpy)]
                )
                for ours, one in pairs:
                    assert_equal(ours, one)


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_out_is_written_and_counted_as_a_write(op: str, form: int) -> None:
    if not anyop.schemas(op)[1]:
        pytest.skip("no results")
    call = example(op, form)
    results = listed(torch_op(op)(*call.copy().torch_values))
    if any(r is None for r in results):
        pytest.skip("a result is of an absent argument")
    outs = [torch.empty_like(r) for r in results]
    names = ["out"] if len(outs) == 1 else [f"out_{r['name']}" for r in contract(op)["results"]]
    versions = [o._version for o in outs]
    returned = torch_op(op, "out")(*call.torch_values, **dict(zip(names, outs, strict=True)))
    assert [o._version for o in outs] == [v + 1 for v in versions]
    for out, expected in zip(outs, results, strict=True):
        assert torch.equal(out, expected)
    if len(outs) == 1 and returned is not None:
        assert returned is outs[0]


def scattered(like: torch.Tensor) -> torch.Tensor:
    """A tensor of this shape with stride 2 in its last dimension."""
    return torch.full((*like.shape, 2), 7).to(like.dtype)[..., 1]


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_an_out_that_no_kernel_writes_gets_a_copy(op: str, form: int) -> None:
    if not anyop.schemas(op)[1]:
        pytest.skip("no results")
    call = example(op, form)
    results = listed(torch_op(op)(*call.copy().torch_values))
    if any(r is None or r.dim() == 0 or r.numel() < 2 for r in results):
        pytest.skip("a result is absent or one number")
    function = getattr(anyop.ops.anyop, op.removeprefix("anyop."))
    for on_torch in (True, False):
        outs = [scattered(r) for r in results]
        bases = [o._base for o in outs]
        given = call.copy()
        arguments = given.values if on_torch else [to_numpy(v) for v in given.values]
        place = tuple(outs if on_torch else map(to_numpy, outs))
        has_tensors = any("ensor" in p["kind"] for p in contract(op)["params"])
        like = {} if has_tensors else {"like": torch if on_torch else np}
        anyop.reset_counters()
        made = function(*arguments, out=place[0] if len(place) == 1 else place, **like)
        assert sum(c.copies for c in anyop.counters()) == sum(o.shape[-1] > 1 for o in outs)
        for own, out, base, expected in zip(listed(made), outs, bases, results, strict=True):
            assert np.shares_memory(to_numpy(own), to_numpy(out))
            torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
            assert (base[..., 0].float() == 7).all()
            assert out._version == (1 if on_torch else 0)


def test_strict_mode_refuses_such_a_copy() -> None:
    x, out = torch.ones(4, 6), torch.zeros(6, 4).t()
    text = (
        "add: z is f32[4, 6] with strides [1, 4] and would be copied, which strict mode refuses. "
        "Try a contiguous tensor."
    )
    with anyop.strict():
        for run in (lambda: anyop.add(x, x, out=out), lambda: OPS.add.out(x, x, out=out)):
            with pytest.raises(NotImplementedError) as error:
                run()
            assert str(error.value) == text
    assert (out == 0).all()
    notes = "z is written through a copy: no kernel takes strides [1, 4]."
    assert notes in str(anyop.explain(anyop.add, x, x, out=out))


IN_PLACE = [op for op in operators() if anyop.schemas(op)[2]]


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place_variants_write_their_first_argument(op: str) -> None:
    call = example(op)
    expected = torch_op(op)(*call.copy().torch_values)
    x, version = call.values[0], call.values[0]._version
    assert torch_op(op + "_")(*call.torch_values) is x
    assert x._version == version + 1
    assert torch.equal(x, expected)


WRITERS = [op for op in operators() if any(p.get("mut") for p in contract(op)["params"])]


@pytest.mark.parametrize("op", WRITERS)
def test_mut_arguments_are_counted_as_written(op: str) -> None:
    call = example(op)
    watched = []
    for p, value in zip(contract(op)["params"], call.values, strict=True):
        for t in value if isinstance(value, list) else [value]:
            if isinstance(t, torch.Tensor):
                watched.append((t, t._version + bool(p.get("mut"))))
    torch_op(op)(*call.torch_values)
    assert [t._version for t, _ in watched] == [v for _, v in watched]


def test_views_and_repeated_rows_are_read_in_place() -> None:
    wide = torch.randn(4, 32)
    view = wide[:, 8:24]
    assert torch.equal(torch.ops.anyop.sigmoid(view), torch.ops.anyop.sigmoid(view.clone()))
    row = torch.randn(1, 16).expand(4, 16)
    assert torch.equal(torch.ops.anyop.sigmoid(row), torch.ops.anyop.sigmoid(row.clone()))
    assert torch.equal(torch.ops.anyop.sigmoid(wide.t()), torch.ops.anyop.sigmoid(wide).t())


def test_results_of_no_tensor_are_on_the_cpu() -> None:
    makers = [
        op for op in operators() if all("ensor" not in p["kind"] for p in contract(op)["params"])
    ]
    for op in makers:
        assert torch_op(op)(*example(op).torch_values).device.type == "cpu"


def test_every_dtype_has_its_counterpart() -> None:
    from anyop.torch._dispatch.operators import TORCH_DTYPES

    for name, dtype in TORCH_DTYPES.items():
        if name == "f4e2m1x2":
            continue  # pairs, which no cast makes
        x = torch.tensor([0.5 if name == "f8e8m0" else 0.0, 1.0])  # a power of two is never 0
        made = torch.ops.anyop.cast(x, dtype)
        assert made.dtype == dtype
        assert torch.equal(made.real.float() if dtype.is_complex else made.float(), x)
        assert torch.equal(torch.ops.anyop.cast(made, torch.float32), x)


def test_a_call_may_have_no_tensor() -> None:
    from anyop.torch._dispatch import python_route
    from anyop.torch._dispatch.operators import Operator

    def maybe(n: int, x: torch.Tensor | None) -> torch.Tensor:
        return torch.ones(n) if x is None else x

    anyop.define("no_tensor(n: int, x: f32[n]?) -> (y: f32[n])", maybe)
    assert torch.ops.user.no_tensor(3).tolist() == [1, 1, 1]
    implemented = []
    python_route.register(Operator("user.no_tensor"), lambda *row: implemented.append(row[:2]))
    assert ("user::no_tensor", "CompositeExplicitAutograd") in implemented
