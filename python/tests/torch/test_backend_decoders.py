# SPDX-License-Identifier: Apache-2.0
"""Decoder models run without the host inside of their layers; masks are read right."""

from __future__ import annotations

import copy
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from backend_cases import compiled_last, floats, kinds  # noqa: E402
from decoders import Decoder, gelu_new, rotated  # noqa: E402

KINDS = ("llama", "gemma", "phi")


def assert_as_exact(made: torch.Tensor, plain: torch.Tensor, exact: torch.Tensor) -> None:
    """As near to what f32 gives as torch is: roundings of 16 bits may fall otherwise, no more."""
    assert made.dtype == plain.dtype and made.shape == plain.shape
    if made.dtype == torch.float32:
        torch.testing.assert_close(made, plain, rtol=1e-4, atol=1e-5)
        return
    mine, theirs = ((x.float() - exact).norm().item() for x in (made, plain))
    assert mine <= 1.5 * theirs + 2**-10 * exact.norm().item()


def decoder(kind: str, dtype: torch.dtype = torch.float32, **sizes: int) -> Decoder:
    torch.manual_seed(0)
    return Decoder(kind, **sizes).to(dtype).eval()


def host_calls(captured: Any) -> int:
    return str(captured).count("torch_host.")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_needs_the_host_once(kind: str, dtype: torch.dtype) -> None:
    model, ids = decoder(kind, dtype), torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        captured = anyop.torch.capture(model, ids)
        exact = copy.deepcopy(model).float()(ids)
        assert_as_exact(captured(ids), model(ids), exact)
    assert host_calls(captured) == 1  # cos and sin
    assert {"anyop.rope", "anyop.attention", "anyop.linear"} <= called(captured)


def called(captured: Any) -> set[str]:
    words = str(captured).replace("(", " ").split()
    return {w for w in words if w.startswith("anyop.")}


@pytest.mark.parametrize(
    ("batch", "dtype"),
    [
        (2, torch.bfloat16),
        pytest.param(1, torch.float32, marks=pytest.mark.exhaustive),
        pytest.param(1, torch.bfloat16, marks=pytest.mark.exhaustive),
        pytest.param(2, torch.float32, marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_steps_with_a_static_cache_need_the_host_once(
    kind: str, batch: int, dtype: torch.dtype
) -> None:
    mine = decoder(kind, dtype, batch=batch)
    plain, exact = copy.deepcopy(mine), copy.deepcopy(mine).float()
    with torch.no_grad():
        first, one = torch.randint(0, 50, (batch, 5)), torch.randint(0, 50, (batch, 1))
        prefill = anyop.torch.capture(mine, first, torch.tensor(0))
        step = anyop.torch.capture(mine, one, torch.tensor(5))
        for f, ids, at in ((prefill, first, 0), (step, one, 5), (step, one, 6), (step, one, 11)):
            made = f(ids, torch.tensor(at))
            assert_as_exact(made, plain(ids, torch.tensor(at)), exact(ids, torch.tensor(at)))
        for a, b, c in zip(mine.layers, plain.layers, exact.layers, strict=True):
            assert_as_exact(a.key_cache, b.key_cache, c.key_cache)
            assert_as_exact(a.value_cache, b.value_cache, c.value_cache)
    for f in (prefill, step):
        assert host_calls(f) <= 2
        assert {"anyop.rope", "anyop.paged_attention", "anyop.reshape_and_cache"} <= called(f)


def test_layers_add_no_host_calls() -> None:
    counts = set()
    for layers in (1, 4):
        model = decoder("llama", layers=layers)
        with torch.no_grad():
            counts.add(host_calls(anyop.torch.capture(model, torch.randint(0, 50, (1, 7)))))
    assert counts == {1}


def test_steps_through_torch_compile() -> None:
    mine = decoder("llama")
    plain = copy.deepcopy(mine)
    torch._dynamo.reset()
    compiled = torch.compile(mine, backend="anyop")
    with torch.no_grad():
        for at in range(4):
            ids = torch.randint(0, 50, (1, 1))
            made = compiled(ids, torch.tensor(at))
            torch.testing.assert_close(made, plain(ids, torch.tensor(at)), rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()


Q, K, V = (floats(2, 4, n, 8, seed=i) for i, n in enumerate((5, 9, 9)))


def indices() -> Any:
    """Of queries and of keys."""
    return torch.arange(5)[:, None], torch.arange(9)[None]


def added(seen: torch.Tensor) -> torch.Tensor:
    return torch.zeros(5, 9).masked_fill(~seen, float("-inf"))


# What is seen of query and key, and whether `attention` can say so.
MASKS: dict[str, tuple[Any, bool]] = {
    "past": (lambda i, j: j <= i + 4, True),
    "window": (lambda i, j: (j <= i + 4) & (j > i + 4 - 3), True),
    "added": (lambda i, j: added(j <= i + 4), True),
    "all": (lambda i, j: j >= 0 * i, True),
    "from the first key on": (lambda i, j: j <= i, True),
    "every second": (lambda i, j: (j <= i + 4) & (j % 2 == 0), False),
    "one hole": (lambda i, j: (j <= i + 4) & ~((i == 4) & (j == 2)), False),
    "a bias": (lambda i, j: added(j <= i + 4) + 0.5 * (j == 0), False),
    "the future": (lambda i, j: j >= i + 4, False),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_are_known(name: str) -> None:
    make, is_ours = MASKS[name]

    def program(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, make(*indices()))

    check(program, (Q, K, V), is_ours)


def check(program: Any, args: tuple[Any, ...], is_ours: bool) -> None:
    captured = anyop.torch.capture(program, *args)
    torch.testing.assert_close(captured(*args), program(*args))
    found = kinds(captured)["aten._scaled_dot_product_flash_attention_for_cpu.default"]
    assert found == ({"operator"} if is_ours else {"host"})


POSITIONS: dict[str, tuple[Any, bool]] = {
    "past": (lambda i, j, at: j <= i + at, True),
    "past, moved": (lambda i, j, at: j - 1 <= i + at - 1, True),
    "before": (lambda i, j, at: j < i + at + 1, True),
    "turned around": (lambda i, j, at: i + at >= j, True),
    "window": (lambda i, j, at: (j <= i + at) & (j > i + at - 3), True),
    "of one query": (lambda i, j, at: j[None, None] <= (i[:, 0] + at)[None, None, :, None], True),
    "future": (lambda i, j, at: j >= i + at, False),
    "twice": (lambda i, j, at: j <= 2 * i + at, False),
    "another window": (lambda i, j, at: (j <= i + at) & (j > i - 3), False),
    "less": (lambda i, j, at: j <= i - at, False),
    "or": (lambda i, j, at: (j <= i + at) | (j == 0), False),
}


@pytest.mark.parametrize("at", [0, 3, 4])
@pytest.mark.parametrize("name", POSITIONS)
def test_masks_that_depend_on_a_position(name: str, at: int) -> None:
    make, is_ours = POSITIONS[name]

    def program(q: Any, k: Any, v: Any, at: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, make(*indices(), at))

    check(program, (Q, K, V, torch.tensor(at)), is_ours)


def test_a_position_that_is_written_after_the_mask_was_made() -> None:
    position, plain = torch.tensor(1), torch.tensor(1)

    def program(q: Any, k: Any, v: Any, at: Any) -> Any:
        i, j = indices()
        mask = j <= i + at
        at.add_(1)
        return F.scaled_dot_product_attention(q, k, v, mask)

    captured = anyop.torch.capture(lambda q, k, v: program(q, k, v, position), Q, K, V)
    for _ in range(3):
        torch.testing.assert_close(captured(Q, K, V), program(Q, K, V, plain))
        assert position == plain
    assert "anyop.paged_attention" in called(captured)


def test_a_position_that_is_written_while_the_mask_is_made() -> None:
    position, plain = torch.tensor(1), torch.tensor(1)

    def program(q: Any, k: Any, v: Any, at: Any) -> Any:
        i, j = indices()
        mask = j <= i + at
        at.add_(1)
        return F.scaled_dot_product_attention(q, k, v, mask & (j > i + at - 4))

    captured = anyop.torch.capture(lambda q, k, v: program(q, k, v, position), Q, K, V)
    for _ in range(2):
        torch.testing.assert_close(captured(Q, K, V), program(Q, K, V, plain))


def test_keys_that_are_written_after_their_heads_were_repeated() -> None:
    cache, plain = K.clone(), K.clone()

    def program(q: Any, v: Any, cache: Any) -> Any:
        k = cache[:, :2, None].expand(2, 2, 2, 9, 8).reshape(2, 4, 9, 8)
        w = v[:, :2, None].expand(2, 2, 2, 9, 8).reshape(2, 4, 9, 8)
        cache.index_copy_(2, torch.tensor([0]), v[:, :, :1])
        return F.scaled_dot_product_attention(q, k, w)

    captured = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(captured(Q, V, cache), program(Q, V, plain))


def test_a_mask_that_is_given_stays_a_mask() -> None:
    i, j = indices()
    mask = j <= i + 4
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), (Q, K, V, mask), False)


def tables(t: int, width: int, is_doubled: bool = True) -> Any:
    def made(x: torch.Tensor) -> tuple[Any, Any]:
        angles = torch.arange(t)[:, None] * x.new_ones(1, width // 2).cumsum(1) / 7
        other = angles if is_doubled else angles * 2
        both = torch.cat((angles, other), -1)[None]
        return both.cos(), both.sin()

    return made


@pytest.mark.parametrize("head", [1, 2])
@pytest.mark.parametrize("width", [8, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_rotations(head: int, width: int, dtype: torch.dtype) -> None:
    make = tables(5, width)

    def program(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        cos, sin = (f.to(x.dtype).unsqueeze(head) for f in make(scale))
        return rotated(x, cos, sin)

    x = floats(2, 3, 5, 8, dtype=dtype) if head == 1 else floats(2, 5, 3, 8, dtype=dtype)
    captured = anyop.torch.capture(program, x, floats(1))
    close = {} if dtype == torch.float32 else {"rtol": 4e-3, "atol": 4e-3}
    torch.testing.assert_close(captured(x, floats(1)), program(x, floats(1)), **close)
    assert "anyop.rope" in called(captured)


def test_rotations_by_different_halves_stay_as_they_are() -> None:
    make = tables(5, 8, is_doubled=False)

    def program(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return rotated(x, *(f.unsqueeze(1) for f in make(scale)))

    x = floats(2, 3, 5, 8)
    captured = anyop.torch.capture(program, x, floats(1))
    torch.testing.assert_close(captured(x, floats(1)), program(x, floats(1)))
    assert "anyop.rope" not in called(captured)


CACHES = [
    ("rows", (9, 8), 0, (3, 8)), ("heads", (9, 2, 8), 0, (3, 2, 8)),
    ("batch", (2, 9, 8), 1, (2, 3, 8)), ("batch of heads", (2, 9, 3, 8), 1, (2, 3, 3, 8)),
    ("heads first", (2, 3, 9, 8), 2, (2, 3, 3, 8)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "dim", "rows"), [c[1:] for c in CACHES], ids=[c[0] for c in CACHES]
)
@pytest.mark.parametrize("how", ["index_copy_", "index_put_"])
def test_rows_of_a_cache_are_written_where_it_lies(
    shape: tuple[int, ...], dim: int, rows: tuple[int, ...], how: str
) -> None:
    cache, plain = torch.zeros(shape), torch.zeros(shape)
    index = (slice(None),) * dim

    def program(cache: Any, at: Any, x: Any) -> Any:
        if how == "index_copy_":
            cache.index_copy_(dim, at, x)
        else:
            cache[(*index, at)] = x
        return torch.sigmoid(cache)

    x = floats(*rows)
    captured = anyop.torch.capture(lambda at, x: program(cache, at, x), torch.tensor([0, 1, 2]), x)
    for at in (torch.tensor([1, 8, 0]), torch.tensor([5, 3, 4])):
        torch.testing.assert_close(captured(at, x), program(plain, at, x))
        torch.testing.assert_close(cache, plain)
    name = {"index_copy_": "aten.index_copy_.default", "index_put_": "aten.index_put_.default"}[how]
    assert kinds(captured)[name] == {"operator"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norms_and_activations(dtype: torch.dtype) -> None:
    weight, bias = floats(8).to(dtype), floats(8, seed=1).to(dtype)

    def program(x: torch.Tensor) -> Any:
        y = F.layer_norm(x, (8,), weight, bias, 1e-3)
        return y, F.layer_norm(x, (8,)), F.gelu(x), F.gelu(x, approximate="tanh"), gelu_new(x)

    x = floats(3, 5, 8, dtype=dtype)
    captured = anyop.torch.capture(program, x)
    close = {} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(captured(x), program(x), **close)
    assert host_calls(captured) == 0 and str(captured).count("anyop.gelu(") == 2  # two are one


def test_a_norm_whose_input_is_written_meanwhile() -> None:
    def program(x: Any, hidden: Any) -> Any:
        inverse = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + 1e-5)
        hidden.add_(1.0)
        return hidden * inverse + x

    x, state = floats(3, 64), floats(3, 64, seed=1)
    expected = state.clone()
    captured = anyop.torch.capture(lambda x: program(x, state), x)
    torch.testing.assert_close(state, expected, rtol=0, atol=0)  # capturing wrote nothing
    for _ in range(2):
        torch.testing.assert_close(captured(x), program(x, expected))
        torch.testing.assert_close(state, expected)


def test_what_looks_like_gelu() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.05 * torch.pow(x, 3.0))))

    captured = anyop.torch.capture(program, floats(8))
    torch.testing.assert_close(captured(floats(8)), program(floats(8)))
    assert "anyop.gelu" not in called(captured)


def test_what_depends_on_nothing_is_computed_once() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * torch.arange(8).cos()

    captured = anyop.torch.capture(program, floats(3, 8))
    torch.testing.assert_close(captured(floats(3, 8)), program(floats(3, 8)))
    assert host_calls(captured) == 0 and "aten.cos.default" not in kinds(captured)


@pytest.mark.parametrize("how", ["capture", "compile"])
def test_a_cache_that_the_program_makes_is_written_once(how: str) -> None:
    def program(x: torch.Tensor, at: torch.Tensor) -> Any:
        cache = torch.zeros(2, 9, 8)
        cache.index_copy_(1, at, x)
        return torch.sigmoid(cache), cache

    x, at = floats(2, 3, 8), torch.tensor([4, 0, 8])
    captured = compiled(program) if how == "compile" else anyop.torch.capture(program, x, at)
    first = captured(x, at)
    for made in (first, captured(x + 1, at - 0)):
        assert made[1].shape == (2, 9, 8)
    torch.testing.assert_close(first, program(x, at))
    torch.testing.assert_close(captured(x + 1, at), program(x + 1, at))
    graph = compiled_last().lowered.graph if how == "compile" else captured
    assert host_calls(graph) == 0
    assert str(graph).count("anyop.reshape_and_cache") == 2


def compiled(program: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(program, backend="anyop")


def test_constants_that_are_written_are_made_anew() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(3, 8)
        made[1:] += x[1:]
        return made

    captured = anyop.torch.capture(program, floats(3, 8))
    for _ in range(2):
        torch.testing.assert_close(captured(floats(3, 8)), program(floats(3, 8)))
