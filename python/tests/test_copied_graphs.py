# SPDX-License-Identifier: Apache-2.0
"""Graphs in copies: copy, deepcopy, pickle, other processes; alone and in what holds them."""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyop
import numpy as np
import pytest
from fuzzed import mutated, tries

X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
    "the oldest pickle": lambda g: pickle.loads(pickle.dumps(g, protocol=0)),
    "a copy of a copy": lambda g: copy.deepcopy(pickled(g)),
}
every_way = pytest.mark.parametrize("way", COPIES)


class Pair(NamedTuple):
    total: Any
    y: Any


class Layer:
    """Arrays, and a graph that is bound to them: a weight, a cache that it writes, a row of it."""

    def __init__(self) -> None:
        random = np.random.default_rng(3)
        self.w = random.random(8, np.float32)
        self.cache = random.random((2, 8), np.float32)
        self.step = anyop.graph(self.forward, "f32[n, 8]", "float", name="step")

    def forward(self, x: Any, eps: Any) -> Any:
        y = anyop.rms_norm(x, self.w, eps)
        anyop.softmax(anyop.add(y[-1:], self.cache[1:]), out=self.cache[:1])
        return Pair(anyop.add(y, x), anyop.add(y[:1], self.cache[:1]))

    def follows(self) -> None:
        """Its graph reads and writes its own arrays."""
        for _ in range(2):
            self.w *= -2
            self.cache += 1
            before = self.cache.copy()
            got = self.step(X, 1e-5)
            after, self.cache = self.cache, before
            for mine, expected in zip(got, self.forward(X, 1e-5), strict=True):
                np.testing.assert_allclose(mine, expected, rtol=1e-5)
            np.testing.assert_allclose(after, before, rtol=1e-5)
            self.cache = after
            assert type(got) is Pair


@every_way
def test_a_copy_of_what_holds_a_graph_holds_one_over_its_own_arrays(way: str) -> None:
    layer = Layer()
    twin = COPIES[way](layer)
    layer.follows()
    twin.follows()
    layer.follows()
    assert not any(np.shares_memory(s, layer.w) for s in twin.step.state.values())


@every_way
def test_a_copied_graph_has_state_of_its_own(way: str) -> None:
    cache = np.zeros((1, 8), np.float32)

    def step(x: Any) -> Any:
        anyop.softmax(x[-1:], out=cache)
        return (anyop.add(x, x),)

    graph = anyop.graph(step, "f32[n, 8]", state={"cache": cache}, name="a graph's own name")
    graph(X)
    twin = COPIES[way](graph)
    assert (str(twin), twin.name, twin.inputs) == (str(graph), graph.name, graph.inputs)
    assert type(twin(X)) is tuple
    np.testing.assert_array_equal(twin.state["cache"], cache)
    twin(-X)
    assert (twin.state["cache"] != cache).any()
    assert graph.stats().calls == 1


def test_a_shallow_copy_is_the_graph() -> None:
    layer = Layer()
    assert copy.copy(layer.step) is layer.step


def test_a_graph_that_is_held_twice_is_copied_once() -> None:
    layer = Layer()
    one, two = copy.deepcopy([layer.step, layer.step])
    assert one is two


@every_way
def test_graphs_of_a_folder_share_in_copies_what_they_shared(way: str, tmp_path: Path) -> None:
    layer = Layer()
    other = anyop.graph(lambda x: anyop.add(x, layer.cache[:1]), "f32[1, 8]", name="read")
    anyop.save_graphs(tmp_path / "both", {"step": layer.step, "read": other})
    graphs = COPIES[way](anyop.load_graphs(tmp_path / "both").graphs)
    before = graphs["read"](X[:1])
    graphs["step"](X, 1e-5)
    assert (graphs["read"](X[:1]) != before).any()
    layer.step(X, 1e-5)
    np.testing.assert_array_equal(graphs["read"](X[:1]), other(X[:1]))


@every_way
def test_packed_weights_and_constants_are_copied(way: str) -> None:
    w = np.random.default_rng(0).random((16, 8), np.float32)
    graph = anyop.graph(lambda x: anyop.linear(x, w), "f32[n, 8]", frozen={"w": w}, name="g")
    twin = COPIES[way](graph)
    np.testing.assert_array_equal(twin(X), graph(X))
    assert str(twin) == str(graph)
    empty = np.zeros((0, 8), np.float32)
    narrow = anyop.graph(lambda x: anyop.linear(x, empty), "f32[n, 8]", name="narrow")
    assert COPIES[way](narrow)(X).shape == (3, 0)


def _run(graph: Any, x: Any) -> Any:
    return graph(x, 1e-5)


def test_a_new_process_takes_a_graph() -> None:
    layer = Layer()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        got = pool.apply(_run, (layer.step, X))
    for mine, expected in zip(got, layer.step(X, 1e-5), strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_a_process_that_has_not_imported_anyop_reads_a_pickle(tmp_path: Path) -> None:
    w = np.ones(8, np.float32)
    graph = anyop.graph(lambda x: anyop.rms_norm(x, w), "f32[n, 8]", name="g")
    (tmp_path / "g").write_bytes(pickle.dumps((graph, X)))
    code = "import pickle, sys; g, x = pickle.load(open(sys.argv[1], 'rb')); print(g(x).sum())"
    command = [sys.executable, "-c", code, tmp_path / "g"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(graph(X).sum())


@every_way
def test_what_calls_python_is_not_copied(way: str) -> None:
    graph = anyop.graph(
        lambda x: anyop.host(lambda a: a * 2, x, result="f32[n]"), "f32[n]", name="g"
    )
    assert copy.copy(graph) is graph
    with pytest.raises(anyop.InvalidArgument) as caught:
        COPIES[way](graph)
    assert re.fullmatch(
        r"g cannot be copied or pickled: v1 = host\.call_\d+\(part=\d+, s0=n, x1=x\), at "
        r"test_copied_graphs\.py:\d+, calls Python, which a saved graph does without\. Try "
        r"operators only\.",
        str(caught.value),
    )


def test_state_that_no_array_holds_as_a_whole_is_not_copied() -> None:
    torch = pytest.importorskip("torch")
    memory = np.zeros((3, 8), np.float32)
    a, b = torch.from_numpy(memory[:2]), torch.from_numpy(memory[1:])

    def step(x: Any) -> Any:
        anyop.add(x, a, out=b)
        return anyop.add(x, a)

    graph = anyop.graph(step, "f32[2, 8]", name="g")
    with pytest.raises(anyop.InvalidArgument) as caught:
        copy.deepcopy(graph)
    assert str(caught.value) == (
        "g cannot be copied or pickled: the states y and z share memory that is not of one array "
        "without gaps, so that copies would share none. Try binding the array that all are views "
        "of."
    )


def test_state_that_was_resized_is_not_copied() -> None:
    layer = Layer()
    layer.w.resize(9, refcheck=False)
    with pytest.raises(anyop.InvalidArgument, match=r"step: the state \w+ was resized"):
        copy.deepcopy(layer.step)


def test_a_read_only_array_does_not_become_state_that_is_written() -> None:
    layer = Layer()
    restore, parts = layer.step.__reduce__()
    buffers: list[Any] = []
    data = pickle.dumps(layer.step, protocol=5, buffer_callback=buffers.append)
    with pytest.raises(anyop.InvalidArgument, match=r"step: \w+ is read-only, but is written"):
        pickle.loads(data, buffers=[bytes(b) for b in buffers])
    pickle.loads(data, buffers=[bytearray(b) for b in buffers])(X, 1e-5)
    name, manifest, text, memory, returns, host = parts
    with pytest.raises(anyop.InvalidArgument, match="the copy of step: graph, line 1"):
        restore(name, manifest, "nonsense", memory, returns, host)
    with pytest.raises(anyop.InvalidArgument, match="the copy of step: graph, line"):
        restore(name, manifest, text, {}, returns, host)
    with pytest.raises(
        anyop.WrongType, match="it returns a <class 'int'>, but must return a tuple"
    ):
        restore(name, manifest, text, memory, int, host)


def test_a_damaged_pickle_is_refused() -> None:
    layer = Layer()
    restore, (name, manifest, text, memory, *rest) = copy.deepcopy(layer).step.__reduce__()
    odd = (None, -1, 0, 2**62, 2**80, "x", (), (8,), (0, 8), (-1,), (2**62, 2**62), X, X[:, ::2])

    def damaged(value: Any, chance: Any) -> Any:
        if isinstance(value, tuple) and value and chance.random() < 0.8:
            at = chance.randrange(len(value))
            return (*value[:at], damaged(value[at], chance), *value[at + 1 :])
        return chance.choice(odd)

    for chance in tries(2):
        key = chance.choice(list(memory))
        given = {**memory, key: damaged(memory[key], chance)}
        shown = mutated(text, chance) if chance.random() < 0.3 else text
        with contextlib.suppress(anyop.Error, TypeError, OverflowError):
            restore(name, manifest, shown, given, *rest)(X, 1e-5)
