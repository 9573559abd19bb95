# SPDX-License-Identifier: Apache-2.0
"""What is beside MindSpore's tensors or around them: other arrays, versions, threads, processes."""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from collections.abc import Callable
from typing import Any

import anyop
import anyop.mindspore
import mindspore as ms
import numpy as np
import pytest
from anyop import _mindspore_interface as interface
from anyop.hosting.facts import Operator
from anyop.mindspore import _compile, _node
from mindspore import Parameter, Tensor, nn

x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
X = Tensor(x)


def test_numpy_2_beside_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "__version__", "2.3.0")
    assert anyop.mindspore.status() == (
        "NumPy is 2.3.0, but MindSpore is built for NumPy 1, and its own arithmetic fails. Try: "
        'pip install "numpy<2"'
    )


@pytest.fixture
def other_mindspore(monkeypatch: pytest.MonkeyPatch) -> str:
    """A MindSpore whose attributes are not as the mirror has them."""
    why = "function 1 of MindSpore's custom_aot_extra.h is GetAttrText, not GetAttrBool"
    monkeypatch.setattr(interface, "difference", lambda mirrored: why)
    monkeypatch.setattr(_compile, "follow", lambda prepare: None)  # once is enough
    monkeypatch.setattr(anyop.mindspore, "_why_no_graphs", anyop.mindspore._start_graphs())
    return why


def in_a_graph(x: Any) -> Any:
    return anyop.gelu(x) + 1


def test_another_mindspore_works_outside_of_graphs(other_mindspore: str) -> None:
    status = anyop.mindspore.status()
    assert status == f"graphs do not know the operators: {other_mindspore}"
    np.testing.assert_array_equal(anyop.gelu(X).asnumpy(), anyop.gelu(x))
    with pytest.raises(anyop.NotAvailable) as caught:
        ms.jit(in_a_graph)(X)
    assert str(caught.value).split("\n")[0] == (
        f"gelu: {other_mindspore}, but calls in graphs need MindSpore's interface as 2.10 has it. "
        "Try that MindSpore, or PyNative."
    )


BESIDE: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: anyop.add(X, x), anyop.WrongType,
     "add: y is a NumPy array, but the call has MindSpore tensors, and all must come from one "
     "host. Try mindspore.Tensor(y)."),
    (lambda: anyop.add(x, X), anyop.WrongType,
     "add: y is a MindSpore tensor, but the call has NumPy arrays, and all must come from one "
     "host. Try y.asnumpy()."),
    (lambda: anyop.gelu(X, out=x), anyop.WrongType,
     "gelu: y is a NumPy array, but the call has MindSpore tensors, and all must come from one "
     "host. Try mindspore.Tensor(y)."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), BESIDE)
def test_other_arrays_beside(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


def constant_beside(x: Any) -> Any:
    return anyop.add(x, ARRAY)


def constant_alone(x: Any) -> Any:
    return anyop.gelu(ARRAY) + x


def in_a_list(x: Any) -> Any:
    return anyop.copy_blocks([x, ARRAY], SLOTS)


def number(x: Any) -> Any:
    return anyop.add(x, 2.0)


def nothing(x: Any) -> Any:
    return anyop.add(None, x)


ARRAY, SLOTS = x, Tensor(np.zeros((1, 2), np.int64))
FOREIGN = (
    "a NumPy array, but the call has MindSpore tensors, and all must come from one host. Try "
    "mindspore.Tensor({})."
)
IN_GRAPHS = [
    (constant_beside, "add: y is " + FOREIGN.format("y")),
    (constant_alone, "gelu: x is " + FOREIGN.format("x")),
    (in_a_list, "copy_blocks: caches[1] is " + FOREIGN.format("caches[1]")),
    (number, "add: y is 2.0, but must be a MindSpore tensor."),
    (nothing, "add: x is None, but must be a MindSpore tensor."),
]


@pytest.mark.parametrize("mode", ["pynative", "jit", "graph"])
@pytest.mark.parametrize(("program", "text"), IN_GRAPHS)
def test_other_arrays_in_every_mode(program: Any, text: str, mode: str) -> None:
    if mode == "pynative" and program is constant_alone:
        return  # a call of NumPy's
    run: Any = program if mode == "pynative" else ms.jit(program) if mode == "jit" else Wrapped()
    if mode == "graph":
        run.program = program
        ms.set_context(mode=ms.GRAPH_MODE)
    try:
        with pytest.raises(anyop.WrongType) as caught:
            run(X)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    assert str(caught.value).split("\n")[0] == text


class Wrapped(nn.Cell):
    def construct(self, x: Any) -> Any:
        return self.program(x)


def beside_torch(x: Any, y: Any) -> Any:
    return anyop.add(x, y)


def test_tensors_of_torch_in_every_mode() -> None:
    class OfTorch:  # what a graph is shown of one
        shape = (4, 64)

    OfTorch.__module__ = "torch"
    with pytest.raises(anyop.WrongType) as caught:
        _node._refuse_others(Operator("anyop.add"), "y", OfTorch())
    text = (
        "add: y is a torch tensor, but the call has MindSpore tensors, and all must come from one "
        "host. Try mindspore.Tensor(y.numpy())."
    )
    assert str(caught.value) == text
    found = importlib.util.find_spec("torch")
    if not (found and found.origin):  # a folder of tests is called so too
        pytest.skip("torch is not installed beside MindSpore")
    torch = importlib.import_module("torch")
    for call in (beside_torch, ms.jit(beside_torch)):
        with pytest.raises(anyop.WrongType) as caught:
            call(X, torch.ones(4, 64))
        assert str(caught.value).split("\n")[0] == text


class Norm(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(64, np.float32)), name="weight")

    def construct(self, x: Any) -> Any:
        return anyop.rms_norm(x, self.weight)


def test_a_cell_whose_parameter_is_deleted() -> None:
    cell = Norm()
    compiled = ms.jit(cell.construct)
    wanted = anyop.rms_norm(x, np.ones(64, np.float32))
    np.testing.assert_array_equal(compiled(X).asnumpy(), wanted)
    del cell.weight
    with pytest.raises(AttributeError, match="weight"):
        cell(X)
    np.testing.assert_array_equal(compiled(X).asnumpy(), wanted)  # the graph keeps its own
    np.testing.assert_array_equal(anyop.rms_norm(X).asnumpy(), anyop.rms_norm(x))


def test_two_threads_run_compiled_graphs() -> None:
    # In turns: MindSpore itself mixes the arguments of two calls of graphs at once.
    compiled, wrong, turn = ms.jit(in_a_graph), [], threading.Lock()
    compiled(X).asnumpy()

    def work(seed: int) -> None:
        own = np.random.default_rng(seed).standard_normal((4, 64)).astype(np.float32)
        for _ in range(20):
            with turn:
                made = compiled(Tensor(own)).asnumpy()
            if not np.array_equal(made, anyop.gelu(own) + 1):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_messages_follow_glog() -> None:
    assert os.environ["GLOG_v"] == "4"  # noqa: SIM112
    assert os.environ["ANYOP_LOG"] == "none"
