# SPDX-License-Identifier: Apache-2.0
"""What operators write in compiled graphs, in which order, and which writes are refused."""

from __future__ import annotations

from typing import Any

import anyop
import anyop.mindspore
import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops

RANDOM = np.random.default_rng(0)
KEY = Tensor(np.ones((2, 1, 4), "f4"))
SLOTS = Tensor(np.array([1, 2]))


def cache(name: str = "") -> Any:
    zeros = Tensor(np.zeros((2, 4, 1, 4), "f4"))
    return Parameter(zeros, name=name) if name else zeros


class Inputs(nn.Cell):
    """Writes what it is given, and reads it before and after."""

    def construct(self, key: Any, slots: Any, keys: Any, values: Any) -> Any:
        before = keys.sum()
        anyop.reshape_and_cache(key, key, keys, values, slots)
        between = keys.sum()
        anyop.reshape_and_cache(key * 2, key, keys, value_cache=values, slot_mapping=slots)
        return before, between, keys.sum()


class Parameters(nn.Cell):
    """The same with caches of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.keys, self.values = Inputs(), cache("keys"), cache("values")

    def construct(self, key: Any, slots: Any) -> Any:
        return self.inner(key, slots, self.keys, self.values)


@pytest.mark.parametrize("mode", ["pynative", "jit", "graph"])
@pytest.mark.parametrize("what", ["inputs", "parameters"])
def test_reads_and_writes_keep_their_order(mode: str, what: str) -> None:
    net = Parameters() if what == "parameters" else Inputs()
    caches = [net.keys, net.values] if what == "parameters" else [cache(), cache()]
    arguments = (KEY, SLOTS, *([] if what == "parameters" else caches))
    if mode == "graph":
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        run = ms.jit(net.construct) if mode == "jit" else net
        made = [float(t.asnumpy()) for t in run(*arguments)]
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert made == [0.0, 8.0, 16.0]
    assert [float(c.asnumpy().sum()) for c in caches] == [16.0, 8.0]


class Decoder(nn.Cell):
    """A step over the caches of several layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        zeros = [Tensor(np.zeros((8, 8, 1, 4), "f4")) for _ in range(2 * layers)]
        self.caches = ms.ParameterTuple([Parameter(z, name=f"c{i}") for i, z in enumerate(zeros)])
        self.layers = layers

    def construct(self, x: Any, slot: Any) -> Any:
        for i in range(self.layers):
            keys, values = self.caches[2 * i], self.caches[2 * i + 1]
            anyop.reshape_and_cache(x, x, keys, values, slot)
            x = anyop.rms_norm(x + keys.sum(), eps=1e-5)
        return x


@pytest.mark.parametrize("mode", ["jit", "graph"])
def test_64_steps_of_a_decoder(mode: str) -> None:
    eager, compiled = Decoder(3), Decoder(3)
    run = ms.jit(compiled.construct) if mode == "jit" else compiled
    for step in range(64):
        x = Tensor(RANDOM.standard_normal((1, 1, 4)).astype(np.float32))
        slot = Tensor(np.array([step]))
        wanted = eager(x, slot).asnumpy()
        if mode == "graph":
            ms.set_context(mode=ms.GRAPH_MODE)
        try:
            np.testing.assert_array_equal(run(x, slot).asnumpy(), wanted)
        finally:
            ms.set_context(mode=ms.PYNATIVE_MODE)
    for ours, theirs in zip(compiled.caches, eager.caches, strict=True):
        np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


def reshaped(base: Any) -> Any:
    return base.reshape(2, 4, 1, 4)


def sliced(base: Any) -> Any:
    return reshaped(base[0:8, :])


def halved(base: Any) -> Any:
    return reshaped(ops.split(base, 8)[0])


def narrowed(base: Any) -> Any:
    return mint.narrow(base.reshape(2, 4, 1, 4), 0, 0, 2)


def transposed(base: Any) -> Any:
    return base.reshape(4, 2, 1, 4).swapaxes(0, 1)


class View(nn.Cell):
    """Writes into a view of an input or Parameter, or of what is computed."""

    def __init__(self, view: Any, of: str) -> None:
        super().__init__()
        self.view, self.of = view, of
        zeros = Tensor(np.zeros((8, 4), "f4"))
        self.keys, self.own = cache("keys"), Parameter(zeros, name="layer.own")

    def construct(self, key: Any, slots: Any, given: Any) -> Any:
        base = given * 2 if self.of == "computed" else given if self.of == "given" else self.own
        values = self.view(base)
        anyop.reshape_and_cache(key, key, self.keys, value_cache=values, slot_mapping=slots)
        return values


def lost(name: str, base: str, primitive: str) -> str:
    return (
        f"reshape_and_cache: {name} is a view of {base} (by {primitive}), but must be whole in "
        "a graph, where MindSpore copies a view and the write would be lost. Try "
        f"{base} itself, in the shape in which it is written, or PyNative."
    )


@pytest.mark.parametrize(("mode", "of", "view", "primitive"), [
    ("jit", "given", reshaped, "Reshape"), ("graph", "layer.own", reshaped, "Reshape"),
    ("jit", "layer.own", sliced, "Reshape"), ("jit", "layer.own", halved, "Reshape"),
    ("jit", "given", narrowed, "NarrowView"), ("graph", "given", transposed, "Transpose"),
])  # fmt: skip
def test_a_write_into_a_view_is_refused(mode: str, of: str, view: Any, primitive: str) -> None:
    given, net = Tensor(np.zeros((8, 4), "f4")), View(view, of)
    if mode == "graph":
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        for _ in range(2):  # and when it is tried again
            with pytest.raises(anyop.Unsupported) as caught:
                (ms.jit(net.construct) if mode == "jit" else net)(KEY, SLOTS, given)
            assert str(caught.value) == lost("value_cache", of, primitive)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert not given.asnumpy().any() and not net.own.asnumpy().any()
    net(KEY, SLOTS, given)  # PyNative writes through views
    assert (given if of == "given" else net.own).asnumpy().sum() == 8


class Looped(nn.Cell):
    """Writes inside of a loop that only the running graph ends, and after it."""

    def __init__(self, view: Any, where: str) -> None:
        super().__init__()
        self.view, self.is_inside = view, where == "inside"
        self.keys, self.own = cache("keys"), Parameter(Tensor(np.zeros((8, 4), "f4")), name="own")

    def construct(self, key: Any, slots: Any, values: Any) -> Any:
        i = slots[0] * 0
        while i < 2:
            if self.is_inside:
                anyop.reshape_and_cache(key, key, self.keys, self.view(self, values), slots)
            i = i + 1
        if not self.is_inside:
            anyop.reshape_and_cache(key, key, self.keys, self.view(self, values), slots)
        return i


def own_reshaped(self: Any, values: Any) -> Any:
    return self.own.reshape(2, 4, 1, 4)


def as_given(self: Any, values: Any) -> Any:
    return values


@pytest.mark.parametrize("where", ["inside", "after"])
def test_writes_in_loops(where: str) -> None:
    with pytest.raises(anyop.Unsupported) as caught:
        ms.jit(Looped(own_reshaped, where).construct)(KEY, SLOTS, cache())
    assert str(caught.value) == lost("value_cache", "own", "Reshape")
    with pytest.raises(anyop.Unsupported) as caught:
        ms.jit(Looped(as_given, where).construct)(KEY, SLOTS, cache())
    assert str(caught.value) == (
        "reshape_and_cache: value_cache is the input values, but must be a Parameter in a branch "
        "or loop of a graph, or after one, where MindSpore copies inputs and the write would be "
        "lost. Try a Parameter of the Cell, or PyNative."
    )
    net, given = Looped(as_given, where), cache("given")
    ms.jit(net.construct)(KEY, SLOTS, given)
    assert given.asnumpy().sum() == net.keys.asnumpy().sum() == 8


@pytest.mark.parametrize("view", [reshaped, sliced, halved, narrowed, transposed])
def test_a_write_into_a_view_of_what_is_computed_is_right(view: Any) -> None:
    given, net = Tensor(np.ones((8, 4), "f4")), View(view, "computed")
    wanted = View(view, "computed")(KEY, SLOTS, given).asnumpy()
    assert (wanted == 1).sum() == 8
    np.testing.assert_array_equal(ms.jit(net.construct)(KEY, SLOTS, given).asnumpy(), wanted)
