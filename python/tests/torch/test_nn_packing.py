# SPDX-License-Identifier: Apache-2.0
"""When a Linear module packs its weight, and when it packs it anew."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

import anyop.torch  # noqa: E402
from anyop.torch import nn  # noqa: E402
from nn_cases import T  # noqa: E402

F = torch.nn.functional


def linear(**options: Any) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(8, 40, **options)


def frozen(**options: Any) -> nn.Linear:
    return linear(**{"pack": True, **options}).requires_grad_(False)


def packs(module: Any, x: Any = T) -> bool:
    """Whether a call without gradients runs the packed operator; its values are right anyway."""
    anyop.reset_counters()
    with torch.no_grad():
        y = module(x)
        expected = F.linear(x, module.weight, module.bias)
    # Sums of 8 products in f32, in another order; one rounding, which may fall the other way.
    ulp = torch.finfo(x.dtype).eps
    torch.testing.assert_close(y, expected, rtol=max(ulp, 1e-5), atol=1e-5)
    ran = {row.op for row in anyop.counters()}
    assert ran & {"anyop.linear", "anyop.linear_packed"}
    return "anyop.linear_packed" in ran


def test_packs_only_where_nothing_can_need_a_gradient() -> None:
    assert not packs(linear(pack=True))
    assert not packs(frozen(pack=False))
    module = frozen()
    module(T)  # gradients are on
    assert module._packed is None
    assert packs(module)
    with torch.inference_mode():
        module(T)
    assert packs(module)
    module.weight.requires_grad_()
    assert not packs(module)
    assert module._packed is None
    x = T.clone().requires_grad_()
    frozen()(x).sum().backward()
    assert x.grad is not None


def test_the_packed_weight_is_made_once() -> None:
    module = frozen()
    anyop.reset_counters()
    with torch.no_grad():
        for _ in range(3):
            module(T)
    calls = {row.op: row.calls for row in anyop.counters()}
    assert calls == {"anyop.pack_weight": 1, "anyop.linear_packed": 3}


def change_in_place(m: Any) -> None:
    with torch.no_grad():
        m.weight.mul_(-1)


def change_by_optimizer(m: Any) -> None:
    m.weight.requires_grad_()
    m(T).sum().backward()
    torch.optim.SGD(m.parameters(), 0.5).step()
    m.weight.requires_grad_(False)


def change_data(m: Any) -> None:
    m.weight.data = -m.weight.data


def change_data_at_the_same_address(m: Any) -> None:
    m.weight.data = torch.empty(0)
    m.weight.data = torch.randn(40, 8)


def change_parameter(m: Any) -> None:
    m.weight = torch.nn.Parameter(torch.randn(40, 8), requires_grad=False)


def change_by_loading(m: Any) -> None:
    m.load_state_dict(torch.nn.Linear(8, 40).state_dict())


def change_by_assigning(m: Any) -> None:
    m.load_state_dict(torch.nn.Linear(8, 40).state_dict(), assign=True)
    m.requires_grad_(False)


CHANGES = [
    change_in_place,
    change_by_optimizer,
    change_data,
    change_data_at_the_same_address,
    change_parameter,
    change_by_loading,
    change_by_assigning,
]


def change_data_in_place(m: Any) -> None:
    m.weight.data += torch.randn(40, 8)


def change_a_row_of_data(m: Any) -> None:
    m.weight.data[3].neg_()


def change_by_numpy(m: Any) -> None:
    m.weight.detach().numpy()[:] *= -2


def change_by_dlpack(m: Any) -> None:
    torch.from_dlpack(m.weight.detach()).mul_(-1)


def change_by_foreach(m: Any) -> None:
    torch._foreach_mul_([m.weight.data], -1)


UNCOUNTED = [  # by torch's version of the tensor
    change_data_in_place,
    change_a_row_of_data,
    change_by_numpy,
    change_by_dlpack,
    change_by_foreach,
]


@pytest.mark.parametrize("change", CHANGES + UNCOUNTED)
def test_a_module_follows_its_weight_unless_it_is_asked_to_pack(
    change: Callable[[Any], None],
) -> None:
    module = linear().requires_grad_(False)
    assert not packs(module)
    change(module)
    assert not packs(module)  # compares the values


@pytest.mark.parametrize("change", UNCOUNTED)
def test_a_packed_weight_is_dropped_after_a_write_that_torch_does_not_count(
    change: Callable[[Any], None],
) -> None:
    module = frozen()
    assert packs(module)
    change(module)
    module.drop_packed()
    assert packs(module)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_weight_is_packed_anew(change: Callable[[Any], None]) -> None:
    module = frozen()
    assert packs(module)
    change(module)
    assert packs(module)  # compares the values too


def test_casts_drop_the_packed_weight() -> None:
    module = frozen()
    assert packs(module)
    assert module.to(torch.bfloat16)._packed is None
    assert packs(module, T.bfloat16())
    assert module.train()._packed is None
    assert packs(module, T.bfloat16())
    module.drop_packed()
    assert module._packed is None


def test_the_packed_weight_is_no_part_of_the_state() -> None:
    module = frozen()
    assert packs(module)
    assert set(module.state_dict()) == {"weight", "bias"}
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert twin._packed is None
        with torch.no_grad():
            twin.weight.mul_(2)
        assert packs(twin)
    assert packs(module)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    assert file.tell() < 2 * 4 * (8 * 40 + 40) + 4000


def test_weights_whose_changes_cannot_be_seen_are_not_packed() -> None:
    with torch.inference_mode():
        module = frozen()
    assert not packs(module)
    module = frozen()
    with torch.no_grad():
        y = torch.func.functional_call(module, {"weight": module.weight * 2}, (T,))
        torch.testing.assert_close(y, F.linear(T, module.weight * 2, module.bias))
        weights = torch.stack([module.weight, -module.weight])
        ys = torch.func.vmap(
            lambda w: torch.func.functional_call(module, {"weight": w}, (T,)), randomness="error"
        )(weights)
    torch.testing.assert_close(ys[1], F.linear(T, -module.weight, module.bias))
    assert packs(module)


def test_wrong_inputs_are_told_of_the_weight_also_when_packed() -> None:
    module = frozen()
    with torch.no_grad():
        module(T)
        with pytest.raises(ValueError, match=r"linear: weight is f32\[40, 8\], but must be .*7"):
            module(T[:, :7])
        with pytest.raises(ValueError, match=r"linear: weight is f32\[40, 8\], but must be bf16"):
            module(T.bfloat16())


def test_compiled_calls_neither_pack_nor_see_what_is_packed() -> None:
    module = frozen()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(T), F.linear(T, module.weight, module.bias))
        assert module._packed is None
        module(T)
        anyop.reset_counters()
        compiled(T)
    assert {row.op for row in anyop.counters()} == {"anyop.linear"}


def test_traced_calls_neither_pack_nor_see_what_is_packed() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils.flop_counter import FlopCounterMode

    for module in (frozen(), frozen()):
        with torch.no_grad():
            traced = torch.jit.trace(module, (T,))
            torch.testing.assert_close(traced(T), module(T))  # packs
            torch.jit.trace(module, (T,))
            made = make_fx(module)(T)
            with FlopCounterMode(display=False) as counter:
                module(T)
        assert counter.get_total_flops() == 2 * T.shape[0] * T.shape[1] * 40
        names = [str(node.target) for node in made.graph.nodes]
        assert "anyop.linear.default" in names
        assert not any("pack" in name for name in names)
