# SPDX-License-Identifier: Apache-2.0
"""Several devices: what is split and what is gathered, by the text of the compiled program."""

from __future__ import annotations

import itertools
from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

MESH = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
X = np.random.default_rng(1).standard_normal((4, 8), np.float32)
W = np.random.default_rng(2).standard_normal(8, np.float32)


def divided(array: Any, *spec: Any) -> Any:
    return jax.device_put(array, NamedSharding(MESH, P(*spec)))


def compiled(f: Any, *arguments: Any) -> tuple[Any, str]:
    program = jax.jit(f).lower(*arguments).compile()
    return program(*arguments), program.as_text()


def test_rows_are_split_without_a_gather() -> None:
    made, text = compiled(anyop.rms_norm, divided(X, "rows"), divided(W))
    assert "all-gather" not in text
    assert "f32[2,8]" in text  # the half that each device computes
    assert made.sharding.spec == P("rows")
    np.testing.assert_array_equal(made, anyop.rms_norm(X, W))


def test_matrices_and_words_are_split_by_their_rows() -> None:
    weight = np.random.default_rng(3).standard_normal((5, 8), np.float32)
    made, text = compiled(anyop.linear, divided(X, "rows"), divided(weight))
    assert "all-gather" not in text
    np.testing.assert_allclose(made, anyop.linear(X, weight), rtol=1e-5)
    ids = divided(np.arange(4), "rows")
    made, text = compiled(anyop.embedding, ids, divided(X))
    assert "all-gather" not in text
    np.testing.assert_array_equal(made, X)


def test_gradients_are_split_and_sums_are_added() -> None:
    """dx by rows; dweight of each device is a part of the sum."""

    def loss(x: Any, w: Any) -> Any:
        return (anyop.rms_norm(x, w) ** 2).sum()

    step = jax.grad(loss, (0, 1))
    (dx, dw), text = compiled(step, divided(X, "rows"), divided(W))
    assert "all-gather" not in text
    assert "all-reduce" in text
    wanted = step(jnp.asarray(X), jnp.asarray(W))
    np.testing.assert_allclose(dx, wanted[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dw, wanted[1], rtol=1e-5, atol=1e-5)


def test_what_cannot_be_split_is_gathered_and_right() -> None:
    made, text = compiled(anyop.rms_norm, divided(X, None, "rows"), divided(W))
    assert "all-gather" in text
    np.testing.assert_array_equal(made, anyop.rms_norm(X, W))
    cache = np.zeros((4, 8), np.float32)
    mapping = np.asarray([[1, 2]])
    made, text = compiled(anyop.swap_blocks, divided(X, "rows"), divided(cache), divided(mapping))
    assert "all-gather" in text
    np.testing.assert_array_equal(np.asarray(made)[2], X[1])


def test_inside_of_shard_map_a_call_is_one_of_each_device() -> None:
    def f(x: Any, w: Any) -> Any:
        return anyop.rms_norm(x, w)

    inside = jax.shard_map(f, mesh=MESH, in_specs=(P("rows"), P()), out_specs=P("rows"))
    made, text = compiled(inside, divided(X, "rows"), divided(W))
    assert "all-gather" not in text
    np.testing.assert_array_equal(made, anyop.rms_norm(X, W))

    def loss(x: Any, w: Any) -> Any:
        return (inside(x, w) ** 2).sum()

    made = jax.jit(jax.grad(loss, (0, 1)))(divided(X, "rows"), divided(W))
    wanted = jax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(jnp.asarray(X), jnp.asarray(W))
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_heads_are_divided_inside_of_shard_map() -> None:
    """Signatures do not tell that heads are apart; each device stores and attends with its own."""
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((3, h, 8), np.float32) for h in (4, 2, 2))
    caches = [np.zeros((2, 4, 2, 8), np.float32) for _ in "kv"]
    slots, table, lens = np.arange(3), np.asarray([[0, 1]], np.int32), np.asarray([3], np.int32)
    starts = np.asarray([0, 3], np.int32)

    def step(q: Any, k: Any, v: Any, keys: Any, values: Any) -> Any:
        keys, values = anyop.reshape_and_cache(k, v, keys, values, jnp.asarray(slots))
        where = (jnp.asarray(table), jnp.asarray(lens), jnp.asarray(starts))
        return anyop.paged_attention(q, keys, values, *where)[0], keys, values

    of_tokens, of_caches = P(None, "rows"), P(None, None, "rows")
    specs = (of_tokens, of_tokens, of_tokens, of_caches, of_caches)
    outs = (of_tokens, of_caches, of_caches)
    inside = jax.shard_map(step, mesh=MESH, in_specs=specs, out_specs=outs)
    given = [divided(a, *spec) for a, spec in zip((q, k, v, *caches), specs, strict=True)]
    made, text = compiled(inside, *given)
    assert "all-gather" not in text and "f32[3,2,8]" in text  # half of the heads of q
    anyop.reshape_and_cache(k, v, *caches, slots)
    wanted = (anyop.paged_attention(q, *caches, table, lens, starts)[0], *caches)
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_size_with_a_name_is_not_split_wherever_it_stands() -> None:
    """d of rms_norm stands whole in every tensor, and every element depends on all of it."""
    made, text = compiled(anyop.rms_norm, divided(X, None, "rows"), divided(W, "rows"))
    assert "all-gather" in text
    np.testing.assert_array_equal(made, anyop.rms_norm(X, W))


def test_strict_mode_refuses_to_gather() -> None:
    with anyop.strict():
        made, text = compiled(anyop.rms_norm, divided(X, "rows"), divided(W))
        assert "all-gather" not in text
        with pytest.raises(Exception, match="strict mode refuses to gather") as caught:
            compiled(lambda x, w: anyop.rms_norm(x, w), divided(X, None, "rows"), divided(W))
    assert (
        "rms_norm: x is divided between devices as P(None, 'rows'), but the call can be divided "
        "along the dimensions of ... only, and strict mode refuses to gather. Try "
        "jax.lax.with_sharding_constraint, or jax.shard_map."
    ) in str(caught.value)


def test_meshes_whose_types_say_how_arrays_are_divided() -> None:
    mesh = jax.make_mesh((2,), ("rows",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, NamedSharding(mesh, P("rows")))
        w = jax.device_put(W, NamedSharding(mesh, P()))
        np.testing.assert_array_equal(jax.jit(anyop.rms_norm)(x, w), anyop.rms_norm(X, W))
        np.testing.assert_array_equal(anyop.rms_norm(x, w), anyop.rms_norm(X, W))


GRID = jax.make_mesh((2, 2), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
WAYS = [None, "a", "b", ("a", "b")]
MATRICES = [
    P(*ways)
    for ways in itertools.product(WAYS, WAYS)
    if len(axes := "".join("".join(w) for w in ways if w)) == len({*axes})
]


@pytest.mark.parametrize("of_y", MATRICES, ids=str)
def test_each_way_of_dividing_two_arguments_is_taken(of_y: Any) -> None:
    """An axis of the mesh divides one dimension, also where two arguments have it in others."""
    x, y = np.random.default_rng(5).standard_normal((2, 4, 4, 3), np.float32)
    assert len(MATRICES) == 9
    for of_x in MATRICES:
        given = [jax.device_put(v, NamedSharding(GRID, p)) for v, p in ((x, of_x), (y, of_y))]
        made = jax.jit(anyop.add)(*given)
        np.testing.assert_array_equal(made, x + y, err_msg=f"{of_x} and {of_y}")
