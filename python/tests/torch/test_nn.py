# SPDX-License-Identifier: Apache-2.0
"""Modules have the values, gradients and state of those that they replace."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

import anyop.torch  # noqa: E402
from anyop.hosting.facts import Operator  # noqa: E402
from anyop.torch import nn  # noqa: E402
from anyop.torch.patterns import nn as names  # noqa: E402
from nn_cases import T, assert_same  # noqa: E402

F = torch.nn.functional


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


ACTIVATIONS = {
    "none": lambda y: y,
    "relu": F.relu,
    "relu2": lambda y: F.relu(y).square(),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda y: F.gelu(y, approximate="tanh"),
    "sigmoid": torch.sigmoid,
}


def test_every_word_of_linear_has_its_function_of_torch() -> None:
    parameters = {p.name: p for p in Operator("anyop.linear").params}
    assert tuple(ACTIVATIONS) == parameters["activation"].words
    assert set(ACTIVATIONS) == {"none", *names.ACTIVATIONS}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_an_activation_has_its_gradient(activation: str) -> None:
    module, after = nn.Linear(8, 4, activation=activation), ACTIVATIONS[activation]
    parameters = module.weight.detach(), module.bias.detach()

    def ours(x: Any, weight: Any, bias: Any) -> Any:
        return torch.func.functional_call(module, {"weight": weight, "bias": bias}, (x,))

    assert_same(ours, lambda x, weight, bias: after(F.linear(x, weight, bias)), T, *parameters)
    with torch.no_grad():
        torch.testing.assert_close(module(T), after(F.linear(T, *parameters)))


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


CLASSES = [m for m in map(nn.__dict__.get, nn.__all__) if isinstance(m, type)]
CLASSES = [m for m in CLASSES if issubclass(m, torch.nn.Module)]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_jit_script_is_refused_by_the_name_of_the_module(kind: Any) -> None:
    modules = [*Block().modules(), nn.Sigmoid(), nn.Softmax(), nn.Gelu()]
    module = next(m for m in modules if type(m) is kind)
    for scripted in (module, torch.nn.Sequential(torch.nn.Identity(), module)):
        with pytest.raises(NotImplementedError) as error:
            torch.jit.script(scripted)
        assert str(error.value) == (
            f"{kind.__name__}: torch.jit.script compiles the source of forward, but that of this "
            "module chooses its operator in Python. Try torch.jit.trace, torch.export.export or "
            "torch.compile."
        )


class Doubled(nn.RMSNorm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return anyop.rms_norm(x, self.weight) * 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_what_is_advised_beside_torch_jit_script_works() -> None:
    block, ids = Block().requires_grad_(False), torch.tensor([1, 4, 9, 2, 0])
    torch.testing.assert_close(torch.jit.trace(block, (ids,))(ids), block(ids))
    torch.testing.assert_close(torch.export.export(block, (ids,)).module()(ids), block(ids))
    doubled = Doubled(8)  # a forward that TorchScript can compile
    torch.testing.assert_close(torch.jit.script(doubled)(T), doubled(T))
