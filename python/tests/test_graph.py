# SPDX-License-Identifier: Apache-2.0
"""anyop.graph: what a replay gives is what the function gives, bit for bit."""

from __future__ import annotations

import gc
import resource
import threading
from typing import Any

import anyop
import numpy as np
import pytest

RANDOM = np.random.default_rng(3)
N, D = 6, 64


def array(*shape: int, dtype: str = "f32") -> Any:
    return anyop.cast(RANDOM.standard_normal(shape, np.float32), dtype)


def same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


WEIGHT = array(D)
WIDE = array(2 * D, D)
SQUARE = array(D, D)


def block(x: Any, eps: Any) -> Any:
    normed = anyop.rms_norm(x, WEIGHT, eps)
    return anyop.add(anyop.silu_and_mul(anyop.linear(normed, WIDE)), x)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_replay_gives_the_bits_of_the_function(dtype: str) -> None:
    weight, wide = array(D, dtype=dtype), array(2 * D, D, dtype=dtype)

    def f(x: Any) -> Any:
        return anyop.silu_and_mul(anyop.linear(anyop.rms_norm(x, weight), wide))

    g = anyop.graph(f, f"{dtype}[{N}, {D}]")
    x = array(N, D, dtype=dtype)
    same(g(x), f(x))


def test_one_graph_serves_every_size_of_a_symbol() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    for n in (0, 1, 2, 17, 64, 3, 1):
        x = array(n, D)
        same(g(x, 1e-5), block(x, 1e-5))


def test_numbers_vary_from_call_to_call() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    x = array(N, D)
    for eps in (1e-6, 0.5, 3):
        same(g(x, eps), block(x, eps))
    assert g(x, 0.0).tobytes() != g(x, 0.5).tobytes()


def test_a_whole_number_is_a_size_too() -> None:
    def f(k: Any, x: Any) -> Any:
        return anyop.add(x[:k], x[x.shape[0] - k :])

    g = anyop.graph(f, "int", "f32[n, 8]")
    x = array(9, 8)
    for k in (1, 4, 9):
        same(g(k, x), f(k, x))
    with pytest.raises(anyop.InvalidArgument, match="slice 0 to 10 of dimension 0"):
        g(10, x)


def test_bounds_of_a_slice_come_in_any_order() -> None:
    def f(x: Any, b: Any, a: Any) -> Any:
        return anyop.softmax(x[a:b]), anyop.softmax(x[b:])

    g = anyop.graph(f, "f32[n, 8]", "int", "int")
    x = array(9, 8)
    for a, b in ((0, 9), (2, 5), (4, 4)):
        for got, want in zip(g(x, b, a), f(x, b, a), strict=True):
            same(got, want)


def test_a_graph_becomes_part_of_another() -> None:
    def first(x: Any, eps: Any, k: Any) -> Any:
        return anyop.rms_norm(anyop.linear(x, SQUARE), WEIGHT, eps), anyop.softmax(x[:k])

    inner = anyop.graph(first, "f32[m, 64]", "float", "int", state={"square": SQUARE})

    def f(x: Any, e: Any) -> Any:
        a, b = inner(x, e, x.shape[0] - 1)
        c, _ = inner(a, k=2, eps=1)
        return anyop.add(a[1:], b), anyop.linear(c, SQUARE)

    g = anyop.graph(f, "f32[n, 64]", "float")
    assert str(g).count("64] = anyop.linear(") == 3
    assert g.stats().state_bytes == SQUARE.nbytes + WEIGHT.nbytes  # bound once
    line = first.__code__.co_firstlineno + 1
    assert f"# test_graph.py:{line}" in str(g)
    for n in (3, 8):
        x = array(n, D)
        for got, want in zip(g(x, 0.25), f(x, 0.25), strict=True):
            same(got, want)
    pair = type(anyop.add_rms_norm(array(N, D), array(N, D), WEIGHT))
    named = anyop.graph(lambda x: anyop.add_rms_norm(x, x, WEIGHT), "f32[n, 64]")
    seen: list[Any] = []
    anyop.graph(lambda x: seen.append(named(x)) or seen[0].y, "f32[n, 64]")
    assert type(seen[0]) is pair


def test_a_graph_inside_of_another_changes_its_state() -> None:
    total = np.zeros(4, np.float32)

    def add(x: Any) -> None:
        anyop.add(total, x, out=total)

    count = anyop.graph(add, "f32[4]")
    both = anyop.graph(lambda x: (count(x), count(x)) and anyop.softmax(x), "f32[4]")
    both(np.ones(4, np.float32))
    assert total.tolist() == [2.0] * 4


def test_inputs_come_by_position_or_name_and_may_be_strided() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    x = array(D, N).T
    same(g(eps=0.5, x=x), block(np.ascontiguousarray(x), 0.5))


def test_an_example_array_is_a_type() -> None:
    x = array(N, D, dtype="bf16")
    g = anyop.graph(lambda x: anyop.softmax(x), x)
    assert g.inputs == {"x": "bf16[6, 64]"}
    same(g(x), anyop.softmax(x))


def test_results_come_alone_in_tuples_or_not_at_all() -> None:
    x, seen = array(N, D), array(N, D)

    def sums(x: Any) -> Any:
        return anyop.add_rms_norm(x, x, WEIGHT)

    got = anyop.graph(sums, "f32[n, 64]")(x)
    assert type(got) is type(sums(x))
    for a, b in zip(got, sums(x), strict=True):
        same(a, b)
    pair = anyop.graph(lambda x: [x, anyop.softmax(x)], "f32[n, 64]")(x)
    assert type(pair) is tuple
    same(pair[0], x)
    assert not np.shares_memory(pair[0], x)
    same(pair[1], anyop.softmax(x))
    assert len(anyop.graph(lambda x: (anyop.softmax(x),), "f32[n, 64]")(x)) == 1

    def write(x: Any) -> None:
        anyop.softmax(x, out=seen)

    assert anyop.graph(write, "f32[6, 64]")(x) is None
    same(seen, anyop.softmax(x))


def test_out_takes_the_results() -> None:
    x, y, z = array(N, D), array(N, D), array(N, D)
    g = anyop.graph(lambda x: (anyop.softmax(x), anyop.rms_norm(x)), "f32[n, 64]")
    a, b = g(x, out=(y, None))
    assert a is y
    same(y, anyop.softmax(x))
    same(b, anyop.rms_norm(x))
    one = anyop.graph(lambda x: anyop.softmax(x), "f32[n, 64]")
    assert one(x, out=z) is z
    same(z, y)


def test_arrays_beside_the_arguments_are_bound_by_reference() -> None:
    weight = array(D)
    g = anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 64]")
    x = array(N, D)
    weight *= 2
    same(g(x), anyop.rms_norm(x, weight))
    assert g.stats().state_bytes == weight.nbytes


def test_a_graph_keeps_its_arrays_alive() -> None:
    def make() -> tuple[Any, Any]:
        weight = array(D)
        return anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 64]"), weight.copy()

    g, weight = make()
    gc.collect()
    array(1000, D)
    x = array(N, D)
    same(g(x), anyop.rms_norm(x, weight))


def caches() -> tuple[Any, ...]:
    return (
        array(5, 2, 8),
        array(5, 2, 8),
        np.zeros((4, 4, 2, 8), "f4"),
        np.zeros((4, 4, 2, 8), "f4"),
    )


def test_state_is_changed_in_place_by_every_replay() -> None:
    k, v, keys, values = caches()
    slots = np.array([3, 0, 9, 15, 4])
    g = anyop.graph(
        lambda k, v, slots: anyop.reshape_and_cache(k, v, keys, values, slots),
        "f32[t, 2, 8]", "f32[t, 2, 8]", "i64[t]", state={"keys": keys, "values": values},
    )  # fmt: skip
    assert "state keys: f32[4, 4, 2, 8]" in str(g)
    want = keys.copy(), values.copy()
    for shift in (0, 1):
        at = (slots + shift) % 16
        g(k, v, at)
        anyop.reshape_and_cache(k, v, *want, at)
        same(keys, want[0])
        same(values, want[1])
    assert keys.any()


def test_an_input_that_an_operator_changes_is_changed() -> None:
    _, _, keys, values = caches()
    g = anyop.graph(
        anyop.reshape_and_cache,
        "f32[t, 2, 8]", "f32[t, 2, 8]", "f32[4, 4, 2, 8]", "f32[4, 4, 2, 8]", "i64[t]",
    )  # fmt: skip
    k, v, want, other = caches()
    slots = np.arange(5)
    assert g(k, v, keys, values, slots) is None
    anyop.reshape_and_cache(k, v, want, other, slots)
    same(keys, want)
    keys.flags.writeable = False
    with pytest.raises(anyop.InvalidArgument, match="key_cache is read-only, but is written"):
        g(k, v, keys, values, slots)


def test_views_are_those_of_numpy() -> None:
    def f(x: Any) -> Any:
        rows = x.reshape(-1, 4, 16)
        halves = x[1:, :32], x[:-1, -32:]
        turned = rows.transpose(1, 0, 2)
        return (
            anyop.softmax(x[0]), anyop.softmax(x[-1, None, 8:16]), anyop.softmax(turned),
            anyop.add(*halves), anyop.softmax(rows[..., 1, :]), anyop.softmax(x[2:4]),
        )  # fmt: skip

    g = anyop.graph(f, "f32[n, 64]")
    for n in (4, 9):
        x = array(n, D)
        for got, want in zip(g(x), f(x), strict=True):
            same(got, want)


def test_sizes_print_and_compute() -> None:
    seen: dict[str, Any] = {}

    def f(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        seen.update(
            shape=x.shape, size=x.size, sum=2 * n + m - 1, product=(n - 1) * (n + 1), minus=-n + 3,
            half=(6 * n + 4) // 2, known=n - n + 5, rest=(4 * n) % 2, rank=x.ndim, dtype=x.dtype,
            square=n**2, quotient=divmod(4 * n, 2),
            facts=(n + 1 > n, n == n, n != n + 2, m - 1 <= m), text=repr(x), rows=len(x[:3]),
        )  # fmt: skip
        return x

    anyop.graph(f, "bf16[n, 64]", "f32[m]")
    assert str(seen["shape"]) == "(n, 64)"
    assert str(seen["size"]) == "64*n"
    assert str(seen["sum"]) == "2*n + m - 1"
    assert str(seen["product"]) == "n*n - 1"
    assert str(seen["minus"]) == "-n + 3"
    assert str(seen["half"]) == "3*n + 2"
    assert seen["known"] == 5
    assert str(seen["square"]) == "n*n"
    assert str(seen["quotient"]) == "(2*n, 0)"
    assert seen["rest"] == 0
    assert seen["rank"] == 2
    assert seen["dtype"] == array(1, dtype="bf16").dtype
    assert all(seen["facts"])
    assert seen["text"] == "x, bf16[n, 64]"
    assert seen["rows"] == 3


def test_the_text_names_the_users_lines() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    line = block.__code__.co_firstlineno + 1
    assert f"# test_graph.py:{line}\n" in g.text
    assert str(g) == g.text
    assert g.text.startswith("input x: f32[n, 64]\ninput eps: float\n")
    assert repr(g) == "<graph block(x: f32[n, 64], eps: float), 4 nodes>"
    assert g.outputs == {"out": "f32[n, 64]"}
    assert g.symbols == ("n",)
    assert g.name == "block"


def test_memory_is_told_by_size() -> None:
    def chain(x: Any) -> Any:
        for _ in range(5):
            x = anyop.linear(x, SQUARE)
        return x

    g = anyop.graph(chain, "f32[n, 64]")
    report = g.memory(n=16)
    assert 0 < report.bound_bytes <= report.peak_bytes < report.unshared_bytes
    assert g.memory(n=32).peak_bytes > report.peak_bytes
    with pytest.raises(anyop.WrongType) as caught:
        g.memory()
    assert str(caught.value) == "chain: n is missing. Try n=1."
    for sizes in ({"n": 1, "m": 2}, {"m": 2}):
        with pytest.raises(anyop.WrongType) as caught:
            g.memory(**sizes)
        assert str(caught.value) == "chain: unknown size 'm'. The graph has n."


def test_operators_in_python_are_recorded_and_run() -> None:
    twice = anyop.define(
        "graph_twice(x: T[...]) -> (y: T[...]) where T in f32", lambda x: x + x, library="graphs"
    )
    g = anyop.graph(lambda x: anyop.softmax(twice(x)), "f32[n, 64]")
    x = array(N, D)
    same(g(x), anyop.softmax(x + x))


def test_values_in_any_place_are_recorded() -> None:
    x = array(N, D)
    g = anyop.graph(lambda w: anyop.rms_norm(x, w), "f32[64]")
    same(g(WEIGHT), anyop.rms_norm(x, WEIGHT))
    g = anyop.graph(lambda eps: anyop.rms_norm(x, WEIGHT, eps), "float")
    same(g(0.5), anyop.rms_norm(x, WEIGHT, 0.5))
    g = anyop.graph(lambda y: anyop.softmax(x, out=y), "f32[6, 64]")
    y = array(N, D)
    same(g(y), anyop.softmax(x))
    same(y, anyop.softmax(x))


def test_threads_replay_one_graph_at_once() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    inputs = [array(n, D) for n in (1, 5, 33, 70)]
    wants = [block(x, 1e-5) for x in inputs]
    failures: list[str] = []

    def work(first: int) -> None:
        for i in range(300):
            k = (first + i) % len(inputs)
            if g(inputs[k], 1e-5).tobytes() != wants[k].tobytes():
                failures.append(f"thread {first}, call {i}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_memory_does_not_grow_over_replays_or_graphs() -> None:
    g = anyop.graph(block, "f32[n, 64]", "float")
    x, y = array(256, D), array(256, D)

    def work(count: int) -> None:
        for _ in range(count):
            g(x, 1e-5)
            g(x, 1e-5, out=y)
            anyop.graph(lambda x: anyop.rms_norm(x, WEIGHT), "f32[64]")(x[0])

    work(50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4000  # KB


def test_a_graph_is_read_back_from_its_text() -> None:
    keys, table = np.zeros((4, 64), "f4"), array(9, D)

    def f(x: Any, eps: Any) -> Any:
        y = anyop.rms_norm(x, WEIGHT, eps)
        anyop.softmax(y[:4], out=keys)
        return anyop.add(y, x), anyop.add(table[:1], y[:1])

    g = anyop.graph(f, "f32[n, 64]", "float", state={"keys": keys})
    again = anyop.Graph.parse(str(g), g.state, name="again")
    assert str(again) == str(g)
    assert again.name == "again"
    assert np.shares_memory(again.state["keys"], keys)
    x = array(N, D)
    for got, want in zip(again(x, 0.5), g(x, 0.5), strict=True):
        same(got, want)
    fixed = {**g.state, "keys": keys.copy()}
    fixed["keys"].flags.writeable = False
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.Graph.parse(str(g), fixed)
    assert str(caught.value) == "graph: keys is read-only, but is written. Try a copy."
    with pytest.raises(anyop.InvalidArgument, match="line 1, column"):
        anyop.Graph.parse("input x f32[n]")
    with pytest.raises(anyop.InvalidArgument, match="keys"):
        anyop.Graph.parse(str(g))


def test_buffers_tell_where_values_lie() -> None:
    g = anyop.graph(lambda x: anyop.linear(anyop.linear(x, SQUARE), SQUARE), "f32[n, 64]")
    buffers = g.buffers(n=16)
    between = [b for b in buffers if b[1] == 16 * D * 4]
    assert [b[3] - b[2] for b in between] == [1]  # from the first operator to the second
    peak = g.memory(n=16).peak_bytes
    assert 0 <= peak - max(offset + size for offset, size, _, _ in buffers) < 64


def test_views_of_one_array_are_bound_apart() -> None:
    table = array(9, D)

    def f(x: Any) -> Any:
        return anyop.rms_norm(x, table[0]), anyop.linear(x, table), anyop.linear(x, table[:4])

    x = array(N, D)
    g = anyop.graph(f, "f32[n, 64]")
    for got, want in zip(g(x), f(x), strict=True):
        same(got, want)
    assert g.stats().state_bytes == table.nbytes


def test_state_may_be_called_what_a_result_is() -> None:
    v1 = np.full(3, 2, np.float32)  # v1 is also what the first call's result is called

    def step(x: Any) -> Any:
        return anyop.mul(anyop.add(x, x), v1)

    x = np.arange(3, dtype=np.float32)
    assert (anyop.graph(step, "f32[3]")(x) == step(x)).all()
