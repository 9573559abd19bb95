# SPDX-License-Identifier: Apache-2.0
"""Operators that write: what they write comes back first, in place where memory is donated."""

from __future__ import annotations

from typing import Any

import anyop
import jax
import jax.numpy as jnp
import numpy as np
import pytest


def new(n: int = 4) -> tuple[Any, Any, Any]:
    """Blocks to copy, where to, and which: block 1 to block 2."""
    return (
        jnp.arange(3.0 * n).reshape(3, n),
        jnp.zeros((4, n)),
        jnp.asarray([[1, 2]], jnp.int32),
    )


def test_what_is_written_comes_back_and_the_old_array_is_whole() -> None:
    src, dst, mapping = new()
    made = anyop.swap_blocks(src, dst, mapping)
    np.testing.assert_array_equal(made[2], src[1])
    np.testing.assert_array_equal(dst, np.zeros((4, 4)))
    again = jax.jit(anyop.swap_blocks)(src, dst, mapping)
    np.testing.assert_array_equal(again, made)
    np.testing.assert_array_equal(dst, np.zeros((4, 4)))


def test_several_come_back_by_name_and_lists_as_lists() -> None:
    query, key = jnp.ones((2, 1, 4)), jnp.ones((2, 1, 4))
    table = jnp.asarray(np.asarray(anyop.rotary_cache(4, 4, like=np)))
    made = anyop.rotary_embedding(jnp.asarray([1, 2]), query, key, table)
    assert type(made).__name__ == "rotary_embedding_results"
    assert made._fields == ("query", "key")
    assert not np.array_equal(made.query, query)
    np.testing.assert_array_equal(made.query, made.key)
    alone = anyop.rotary_embedding(jnp.asarray([1, 2]), query, None, table)
    assert alone.key is None
    caches = anyop.copy_blocks([jnp.eye(3), 2 * jnp.eye(3)], jnp.asarray([[0, 2]]))
    assert isinstance(caches, list)
    np.testing.assert_array_equal(caches[1][2], [2, 0, 0])


def test_donated_memory_is_written_in_place() -> None:
    src, dst, mapping = new(1024)
    step = jax.jit(anyop.swap_blocks, donate_argnums=1)
    at = dst.unsafe_buffer_pointer()
    made = step(src, dst, mapping)
    assert made.unsafe_buffer_pointer() == at
    assert dst.is_deleted()
    with pytest.raises(ValueError) as caught:
        step(src, dst, mapping)
    assert str(caught.value) == (
        "INVALID_ARGUMENT: Invalid buffer passed to Execute() as argument 1 to replica 0: "
        "INVALID_ARGUMENT: Buffer has been deleted or donated."
    )


@pytest.mark.parametrize("call", [
    lambda gone: anyop.swap_blocks(jnp.ones((4, 4)), gone, jnp.asarray([[1, 2]])),
    anyop.gelu,
    jax.grad(lambda gone: anyop.gelu(gone).sum()),
    jax.vmap(anyop.gelu),
])  # fmt: skip
def test_a_donated_array_used_again_is_refused(call: Any) -> None:
    src, gone, mapping = new()
    jax.jit(anyop.swap_blocks, donate_argnums=1)(src, gone, mapping)
    anyop.reset_counters()
    with pytest.raises(RuntimeError) as caught:
        call(gone)
    assert str(caught.value) == "Array has been deleted with shape=float32[4,4]."
    assert not [c for c in anyop.counters() if c.calls]
    np.testing.assert_array_equal(anyop.gelu(src), anyop.gelu(np.asarray(src)))  # all goes on


def copies_in(compiled: Any) -> list[str]:
    """The copies of a compiled program that are as large as the cache."""
    return [line for line in compiled.as_text().splitlines() if " copy(" in line and "4096" in line]


@pytest.mark.parametrize("loop", ["scan", "while_loop", "fori_loop"])
def test_loops_write_one_memory(loop: str) -> None:
    """No copy of a donated cache in the program, and none when it runs: one pointer throughout."""
    src, mapping = jnp.ones((3, 4096)), jnp.asarray([[1, 2]], jnp.int32)

    def step(cache: Any) -> Any:
        return anyop.swap_blocks(src, cache, mapping)

    def run(cache: Any) -> Any:
        if loop == "scan":
            return jax.lax.scan(lambda c, _: (step(c), None), cache, length=8)[0]
        if loop == "fori_loop":
            return jax.lax.fori_loop(0, 8, lambda _, c: step(c), cache)
        return jax.lax.while_loop(lambda s: s[0] < 8, lambda s: (s[0] + 1, step(s[1])), (0, cache))[
            1
        ]

    cache = jnp.zeros((4, 4096))
    at = cache.unsafe_buffer_pointer()
    compiled = jax.jit(run, donate_argnums=0).lower(cache).compile()
    assert copies_in(compiled) == []
    made = compiled(cache)
    assert made.unsafe_buffer_pointer() == at
    np.testing.assert_array_equal(made[2], np.ones(4096))


def test_a_value_that_is_read_later_is_copied_once() -> None:
    src, dst, mapping = new()
    first, second = jax.jit(lambda d: (anyop.swap_blocks(src, d, mapping), d * 2))(dst + 1)
    np.testing.assert_array_equal(second, np.full((4, 4), 2))
    np.testing.assert_array_equal(first[2], src[1])


@pytest.mark.parametrize(("results", "text"), [
    ([((5000, 4), "float32")], "its result 0 is f32[5000, 4] where dst is f32[4, 4]."),
    ([((4, 4), "int32")], "its result 0 is i32[4, 4] where dst is f32[4, 4]."),
    ([((16,), "float32")], "its result 0 is f32[16] where dst is f32[4, 4]."),
    ([], "it has 0 results."),
])  # fmt: skip
def test_a_program_of_somebody_else_has_to_return_what_is_written(results: Any, text: str) -> None:
    """Before anything is copied: what lies behind the memory of the argument is not ours."""
    src, dst, mapping = new()
    call = jax.make_jaxpr(anyop.swap_blocks)(src, dst, mapping).eqns[0].params["call"]
    types = [jax.ShapeDtypeStruct(*r) for r in results]
    made = jax.ffi.ffi_call("anyop", types, has_side_effect=True)
    with pytest.raises(Exception, match="swap_blocks") as caught:
        jax.block_until_ready(made(src, dst, mapping, call=call.text, contract=call.contract))
        jax.effects_barrier()
    refusal = "swap_blocks: it writes dst, which the program must return, but "
    assert f"{refusal}{text} Try anyop.jax." in str(caught.value)
    np.testing.assert_array_equal(dst, np.zeros((4, 4)))


def test_nothing_is_written_where_an_index_is_wrong() -> None:
    src, dst, _ = new()
    step = jax.jit(anyop.swap_blocks)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        step(src, dst, jnp.asarray([[1, 2], [1, 9]], jnp.int32)).block_until_ready()
    assert str(caught.value) == (
        "INVALID_ARGUMENT: swap_blocks: mapping[1, 1] is 9, but must be less than 4 (blocks of "
        "dst)."
    )
    np.testing.assert_array_equal(dst, np.zeros((4, 4)))
