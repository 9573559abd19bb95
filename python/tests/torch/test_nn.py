# SPDX-License-Identifier: Apache-2.0
"""Modules: the values, gradients and state of those that they replace; packing; rope tables."""

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

F = torch.nn.functional
T = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))


def linear(**options: Any) -> nn.Linear:
    torch.manual_seed(1)
    return nn.Linear(8, 40, **options)


def frozen(**options: Any) -> nn.Linear:
    return linear(**options).requires_grad_(False)


def grads(f: Callable[..., Any], *tensors: Any) -> list[Any]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    y = f(*leaves)
    direction = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    return [y, *torch.autograd.grad((y * direction).sum(), leaves)]


def assert_same(f: Callable[..., Any], g: Callable[..., Any], *tensors: Any) -> None:
    """Values and gradients agree."""
    for ours, theirs in zip(grads(f, *tensors), grads(g, *tensors), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


REPLACED = [
    (nn.RMSNorm(8, 1e-5), torch.nn.RMSNorm(8, 1e-5), T),
    (nn.Linear(8, 40), torch.nn.Linear(8, 40), T),
    (nn.Linear(8, 3, bias=False), torch.nn.Linear(8, 3, bias=False), T.reshape(1, 5, 8)),
    (nn.Embedding(7, 8), torch.nn.Embedding(7, 8), torch.tensor([[0, 6], [3, 3]])),
    (nn.Embedding(7, 8, -1), torch.nn.Embedding(7, 8, -1), torch.tensor([1, 6, 2])),
]


@pytest.mark.parametrize(("ours", "theirs", "x"), REPLACED, ids=lambda m: type(m).__name__)
def test_replaces_the_module_of_torch(ours: Any, theirs: Any, x: Any) -> None:
    assert {k: v.shape for k, v in ours.state_dict().items()} == {
        k: v.shape for k, v in theirs.state_dict().items()
    }
    ours.load_state_dict(theirs.state_dict())
    names = list(dict(ours.named_parameters()))

    def values(module: Any) -> list[Any]:
        module.zero_grad()
        y = module(x)
        (y * torch.arange(y.numel()).view(y.shape)).sum().backward()
        return [y, *(module.get_parameter(n).grad for n in names)]

    for own, other in zip(values(ours), values(theirs), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-4)


def test_dtype_device_and_reset() -> None:
    made = nn.Linear(4, 3, device="meta", dtype=torch.bfloat16)
    assert (made.weight.device.type, made.weight.dtype) == ("meta", torch.bfloat16)
    norm = nn.RMSNorm(4, device="meta").to_empty(device="cpu")
    norm.reset_parameters()
    assert norm.weight.tolist() == [1, 1, 1, 1]
    assert nn.RMSNorm(2, weight_offset=1.0).weight.tolist() == [0, 0]
    assert nn.RMSNorm(2, elementwise_affine=False).state_dict() == {}
    for module, text in [
        (nn.RMSNorm(4, 1e-5, weight_offset=1.0), "RMSNorm(4, eps=1e-05, weight_offset=1.0)"),
        (
            nn.Linear(2, 3, activation="silu"),
            "Linear(in_features=2, out_features=3, bias=True, activation='silu')",
        ),
        (nn.Embedding(2, 3, 0), "Embedding(2, 3, padding_idx=0)"),
        (nn.SiluAndMul(), "SiluAndMul()"),
        (nn.Softmax(scale=0.5), "Softmax(scale=0.5)"),
        (
            nn.Attention(4, 8, num_kv_heads=2, sliding_window=16),
            "Attention(num_heads=4, head_size=8, num_kv_heads=2, causal=True, sliding_window=16)",
        ),
    ]:
        assert repr(module) == text


def test_rms_norm_adds_the_residual() -> None:
    norm = nn.RMSNorm(8, 1e-5)
    y, total = norm(T, T.flip(0))
    torch.testing.assert_close(total, T + T.flip(0))
    torch.testing.assert_close(y, F.rms_norm(T + T.flip(0), (8,), norm.weight, 1e-5))
    assert_same(
        lambda x, r: sum(norm(x, r)),
        lambda x, r: F.rms_norm(x + r, (8,), norm.weight, 1e-5) + x + r,
        T,
        T.flip(0),
    )


# ---- Packing


def packs(module: Any, x: Any = T) -> bool:
    """Whether a call without gradients runs the packed operator; its values are right anyway."""
    anyop.reset_counters()
    with torch.no_grad():
        y = module(x)
        expected = F.linear(x, module.weight, module.bias)
    torch.testing.assert_close(
        y, expected, rtol=1e-2 if x.dtype != torch.float32 else 1e-4, atol=1e-2
    )
    ran = {row.op for row in anyop.counters()}
    assert ran & {"anyop.linear", "anyop.linear_packed"}
    return "anyop.linear_packed" in ran


def test_packs_only_where_nothing_can_need_a_gradient() -> None:
    assert not packs(linear())
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


# ---- Rotary embeddings


def rotate(x: Any, positions: Any, base: float, neox: bool) -> Any:
    """Pairs as complex numbers, for x [t, h, d]."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-torch.arange(half) / half)
    turn = torch.polar(torch.ones_like(angle), angle)[:, None]
    pairs = torch.stack(x.split(half, -1), -1) if neox else x.unflatten(-1, (half, 2))
    turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    return turned.transpose(-1, -2).flatten(-2) if neox else turned.flatten(-2)


@pytest.mark.parametrize("neox", [True, False])
def test_rotates_queries_and_keys(neox: bool) -> None:
    rope = nn.get_rope(8, 32, neox, {"rope_theta": 100.0})
    positions = torch.tensor([3, 0, 31, 7, 7])
    query, key = torch.randn(5, 3, 8), torch.randn(5, 2, 8)
    expected = [rotate(x, positions, 100.0, neox) for x in (query, key)]
    for shape in (lambda x: x, lambda x: x.flatten(1)):
        q, k = rope(positions, shape(query), shape(key))
        torch.testing.assert_close(q, shape(expected[0]))
        torch.testing.assert_close(k, shape(expected[1]))
    assert rope(positions, query)[1] is None
    assert_same(lambda x: rope(positions, x)[0], lambda x: rotate(x, positions, 100.0, neox), query)
    packed = torch.cat([query.flatten(1), key.flatten(1)], -1)
    parts = packed.split([24, 16], -1)
    assert rope(positions, *parts, inplace=True) == parts
    torch.testing.assert_close(packed[:, :24].view(5, 3, 8), expected[0])


def test_rotates_a_part_of_each_head() -> None:
    rope = nn.get_rope(8, 16, rope_parameters={"partial_rotary_factor": 0.5})
    x, positions = torch.randn(2, 3, 1, 8), torch.arange(6).view(2, 3)
    y, _ = rope(positions, x)
    torch.testing.assert_close(y[..., 4:], x[..., 4:])
    expected = rotate(x[..., :4].reshape(6, 1, 4), positions.flatten(), 1e4, True)
    torch.testing.assert_close(y[..., :4].reshape(6, 1, 4), expected)


TABLES = [
    ({"rope_type": "linear", "factor": 2.0}, 64, {"kind": "linear", "factor": 2.0}),
    ({"type": "linear", "factor": 2.0}, 64, {"kind": "linear", "factor": 2.0}),
    (
        {
            "rope_type": "llama3",
            "rope_theta": 5e5,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
        32,
        {"kind": "llama3", "base": 5e5, "factor": 8.0, "original_max_position": 16},
    ),
    (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        64,
        {"kind": "yarn", "factor": 4.0, "original_max_position": 16},
    ),
    (
        {"rope_type": "dynamic", "factor": 2.0},
        64,
        {
            "kind": "dynamic_factor",
            "factor": 2.0,
            "max_position": 64,
            "original_max_position": 32,
        },
    ),
    ({"rope_type": "dynamic", "alpha": 3.0}, 32, {"kind": "dynamic_alpha", "alpha": 3.0}),
    (
        {
            "rope_type": "longrope",
            "short_factor": [1.0] * 4,
            "long_factor": [2.0, 3.0, 4.0, 5.0],
            "original_max_position_embeddings": 16,
        },
        32,
        {
            "kind": "longrope",
            "rescale": [2.0, 3.0, 4.0, 5.0],
            "max_position": 32,
            "original_max_position": 16,
        },
    ),
]


@pytest.mark.parametrize(("parameters", "length", "table"), TABLES)
def test_tables_follow_the_configuration(
    parameters: dict[str, Any], length: int, table: dict[str, Any]
) -> None:
    rope = nn.get_rope(8, 32, rope_parameters=parameters)
    expected = anyop.rotary_cache(length, 8, **table, like=torch)
    assert torch.equal(rope.cos_sin_cache, expected)
    assert nn.get_rope(8, 32, rope_parameters=dict(parameters)) is rope


def test_the_table_keeps_its_dtype_and_is_no_state() -> None:
    rope = nn.RotaryEmbedding(8, 8, 32)
    before = rope.cos_sin_cache.clone()
    assert rope.state_dict() == {}
    assert torch.equal(rope.to(torch.bfloat16).cos_sin_cache, before)
    assert nn.get_rope(8, 32, dtype=torch.bfloat16).cos_sin_cache.dtype == torch.bfloat16
    y, _ = rope(torch.arange(5), torch.randn(5, 8, dtype=torch.bfloat16))
    assert y.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"rope_type": "lama3"}, "rope_type is 'lama3'.*Did you mean 'llama3'"),
        ({"rope_tetha": 1.0}, "holds 'rope_tetha', which no table takes. Did you mean 'rope_theta"),
        ({"partial_rotary_factor": 1.5}, "must be above 0 and at most 1"),
    ],
)
def test_unknown_configurations_are_refused(parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        nn.get_rope(8, 32, rope_parameters=parameters)


# ---- Attention


def attend(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """[b, s, h, d] each; torch's own."""
    args = [x.transpose(1, 2) for x in (q, k, v)]
    return F.scaled_dot_product_attention(*args, enable_gqa=True, **options).transpose(1, 2)


def test_attends_as_torch_does() -> None:
    q, k, v = torch.randn(2, 6, 4, 16), torch.randn(2, 6, 2, 16), torch.randn(2, 6, 2, 16)
    module = nn.Attention(4, 16, num_kv_heads=2)
    assert_same(module, lambda *args: attend(*args, is_causal=True), q, k, v)
    flat = module(*(x.flatten(2) for x in (q, k, v)))
    torch.testing.assert_close(flat.view(q.shape), attend(q, k, v, is_causal=True))
    ends = torch.tensor([0, 4, 12], dtype=torch.int32)
    y = module(*(x.flatten(0, 1) for x in (q, k, v)), query_start_loc=ends)
    wanted = attend(*(x.flatten(0, 1)[None, :4] for x in (q, k, v)), is_causal=True)
    torch.testing.assert_close(y[None, :4], wanted)
    every = nn.Attention(4, 16, 0.5, 2, causal=False)
    torch.testing.assert_close(every(q, k, v), attend(q, k, v, scale=0.5))


def test_a_window_hides_older_keys() -> None:
    q, k, v = torch.randn(1, 6, 2, 8), torch.randn(1, 6, 2, 8), torch.randn(1, 6, 2, 8)
    distance = torch.arange(6)[:, None] - torch.arange(6)
    mask = (distance >= 0) & (distance < 3)
    y = nn.Attention(2, 8, sliding_window=3)(q, k, v)
    torch.testing.assert_close(y, attend(q, k, v, attn_mask=mask))


def test_a_paged_cache_gives_what_fresh_keys_give() -> None:
    module = nn.Attention(4, 16, num_kv_heads=2)
    q, k, v = torch.randn(7, 4, 16), torch.randn(7, 2, 16), torch.randn(7, 2, 16)
    expected = module(q, k, v)
    cache = module.new_cache(4, 4)
    assert cache[0].shape == (4, 4, 2, 16)
    table = torch.tensor([[2, 0]], dtype=torch.int32)
    slots = torch.tensor([8, 9, 10, 11, 0, 1, 2])
    parts = []
    for begin, end in ((0, 5), (5, 6), (6, 7)):  # a prompt, then token by token
        batch = nn.PagedBatch(
            table,
            torch.tensor([end], dtype=torch.int32),
            torch.tensor([0, end - begin], dtype=torch.int32) if end - begin > 1 else None,
            slots[begin:end],
        )
        one = [x[begin:end].flatten(1) for x in (q, k, v)]
        parts.append(module(*one, cache, batch))
    torch.testing.assert_close(torch.cat(parts).view(q.shape), expected)
    with pytest.raises(ValueError, match="a cache is given, but no batch"):
        module(q, k, v, cache)


# ---- Modules made from the registry


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.SiluAndMul(), lambda x: F.silu(x[..., :4]) * x[..., 4:]),
        (nn.Sigmoid(), torch.sigmoid),
        (nn.Softmax(scale=0.5), lambda x: torch.softmax(x * 0.5, -1)),
    ],
)
def test_regular_modules_apply_their_operator(module: Any, function: Any) -> None:
    assert_same(module, function, T)
    assert not list(module.parameters())


def test_any_regular_operator_becomes_a_module() -> None:
    @anyop.define("nn_scaled(x: f32[...], by: float = 2.0) -> (y: f32[...])")
    def nn_scaled(x: Any, by: float) -> Any:
        """nn_scaled: multiplies."""
        return x * by

    made = nn.module_of(nn_scaled)
    assert made.__name__ == "NnScaled"
    assert made.__doc__.startswith("nn_scaled: multiplies.")  # type: ignore[union-attr]
    torch.testing.assert_close(made(by=3.0)(T), T * 3)
    assert repr(made(by=3.0)) == "NnScaled(by=3.0)"
    with pytest.raises(TypeError, match="no option 'yb'. Did you mean 'by'"):
        made(yb=1)
    with pytest.raises(ValueError, match="anyop.linear: a module of one operator takes one tensor"):
        nn.module_of(anyop.linear)


# ---- Compilers


class Block(torch.nn.Module):
    """Every module once."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm1, self.norm2 = nn.Embedding(11, 16), nn.RMSNorm(16), nn.RMSNorm(16)
        self.qkv, self.out = nn.Linear(16, 32, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.down = nn.Linear(16, 48), nn.Linear(24, 16)
        self.rope, self.attention = nn.get_rope(8, 32), nn.Attention(2, 8, num_kv_heads=1)
        self.act = nn.SiluAndMul()

    def forward(self, ids: Any) -> Any:
        hidden = self.embed(ids)
        q, k, v = self.qkv(self.norm1(hidden)).split([16, 8, 8], -1)
        q, k = self.rope(torch.arange(ids.shape[0]), q, k)
        x = self.out(self.attention(q, k, v))
        x, hidden = self.norm2(x, hidden)
        return hidden + self.down(self.act(self.gate(x)))


def trained(model: Any, ids: Any) -> list[Any]:
    model.zero_grad()
    y = model(ids)
    y.square().mean().backward()
    return [y, *(p.grad for p in model.parameters())]


def check_compiled(backend: str, dynamic: bool | None = None) -> None:
    torch.manual_seed(3)
    block, ids = Block(), torch.tensor([1, 4, 9, 2, 0])
    compiled = torch.compile(block, fullgraph=True, backend=backend, dynamic=dynamic)
    for n in (5, 3):
        expected = [t.clone() for t in trained(block, ids[:n])]
        for own, other in zip(trained(compiled, ids[:n]), expected, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(compiled(ids), block(ids))


def test_compiles_in_one_graph_and_trains() -> None:
    check_compiled("aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiles_with_inductor(dynamic: bool | None) -> None:
    check_compiled("inductor", dynamic)
