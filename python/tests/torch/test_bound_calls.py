# SPDX-License-Identifier: Apache-2.0
"""Every operator as a bound call: the same bits as the plain call, from its text alone."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
from generated import (  # noqa: E402
    FORMS,
    IDS,
    Example,
    contract,
    differentiable,
    example,
    on_numpy,
    to_numpy,
    trained,
)

# Reads (text, inputs, bits) of every call; runs each on a thread that knows no scope, and prints
# the texts whose bits are others.
ELSEWHERE = """
import pickle, sys, threading
import ml_dtypes
from anyop import _anyop
with open(sys.argv[1], "rb") as file:
    calls = pickle.load(file)
def run():
    for text, inputs, bits in calls:
        call = _anyop.find_bound_call(text)
        made = call.run(inputs)
        written = [x for x, (_, _, is_written) in zip(inputs, call.inputs) if is_written]
        if call.text != text or [a.tobytes() for a in (*made, *written)] != bits:
            print(text)
thread = threading.Thread(target=run)
thread.start()
thread.join()
print(len(calls), "calls")
"""


def tensors(values: list[Any]) -> list[Any]:
    """The arrays of a call, in the order of a bound call's inputs."""
    flat: list[Any] = []
    for value in values:
        is_list = isinstance(value, list) and value and isinstance(value[0], np.ndarray)
        flat += value if is_list else [value] if isinstance(value, np.ndarray) else []
    return flat


def bind(call: Example) -> Any:
    return _anyop.bound_call(call.op, *[to_numpy(v) for v in call.values])


def bits(arrays: list[Any]) -> list[bytes]:
    return [np.asarray(a).tobytes() for a in arrays]


def results_and_written(call: Example) -> list[bytes]:
    """What the plain call makes: its results, then the arguments that it writes."""
    results, after = on_numpy(call)
    is_written = [p.get("mut", False) for p in contract(call.op)["params"]]
    written = [a for a, w in zip(after, is_written, strict=True) if w]
    return bits([r for r in results if r is not None] + tensors(written))


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_a_bound_call_has_the_bits_of_the_plain_one(op: str, form: int) -> None:
    call = example(op, form)
    bound = bind(call)
    assert _anyop.find_bound_call(bound.text) == bound
    assert _anyop.find_bound_call(bound.text).text == bound.text
    inputs = tensors([to_numpy(v) for v in call.copy().values])
    made = bound.run(inputs)
    written = [x for x, (_, _, is_written) in zip(inputs, bound.inputs, strict=True) if is_written]
    assert bits([*made, *written]) == results_and_written(call)
    assert [str(a.dtype) for a in made] == [
        str(_anyop.numpy_dtype(dtype)) for _, dtype, _ in bound.results if dtype
    ]


@pytest.mark.parametrize(("op", "form"), FORMS, ids=IDS)
def test_inference_with_unknown_parts_agrees_with_the_call(op: str, form: int) -> None:
    call = example(op, form)
    bound = bind(call)
    inputs = tensors([to_numpy(v) for v in call.copy().values])
    actual = [a.shape for a in bound.run(inputs)]
    shapes = [a.shape for a in inputs]
    assert [shape for _, shape in bound.infer([(None, s) for s in shapes])] == actual
    for k, shape in enumerate(shapes):
        for d in range(-1, len(shape)):  # -1: its rank
            unknown = None if d < 0 else (*shape[:d], None, *shape[d + 1 :])
            given = [(None, unknown if i == k else s) for i, s in enumerate(shapes)]
            for (_, found), real in zip(bound.infer(given), actual, strict=True):
                assert found is None or all(
                    n in (-1, m) for n, m in zip(found, real, strict=True)
                ), (op, given)


@pytest.mark.parametrize("op", sorted({op for op, _ in FORMS if differentiable(op)}))
def test_the_gradient_is_wired_as_the_operator_says(op: str) -> None:
    call = trained(op)
    bound, wiring = bind(call), anyop.info(op)["gradient"]
    names = [name for name, _, _ in bound.inputs]
    wanted = [name in wiring["targets"] for name in names]
    forward, gradient, sources, targets = bound.gradient(wanted)
    assert gradient.text.startswith(f"anyop.call/1 {wiring['op']}(")
    results = [name for name, _, _ in forward.results]
    found = [(kind, names[at] if kind == "input" else results[at]) for kind, at in sources]
    kinds = {"param": "input"}
    expected = [
        (kinds.get(kind, kind), name)
        for kind, name in wiring["sources"]
        if kind != "param" or name in names
    ]
    assert found == expected
    assert [names[t] for t in targets] == [n for n in wiring["targets"] if n in names]
    assert [name for name, _, _ in gradient.results] == [
        f"d{n}" for n in wiring["targets"] if n in names
    ]
    if sum(wanted) > 1:
        first = wanted.index(True)
        one = bound.gradient([i == first for i in range(len(wanted))])
        assert one[3] == (first,)


@pytest.mark.parametrize("op", sorted({op for op, _ in FORMS if differentiable(op)}))
def test_the_gradient_has_the_bits_of_autograd(op: str) -> None:
    call = trained(op)
    values = [to_numpy(v) for v in call.copy().values]
    bound = bind(call)
    targets = anyop.info(op)["gradient"]["targets"]
    forward, gradient, sources, targets_at = bound.gradient(
        [name in targets for name, _, _ in bound.inputs]
    )
    inputs = tensors(values)
    results = forward.run(inputs)
    rng = np.random.default_rng(5)
    grads = [rng.random(r.shape, np.float32).astype(r.dtype) for r in results]
    pick = {"result_gradient": grads, "input": inputs, "result": results}
    made = gradient.run([pick[kind][at] for kind, at in sources])

    theirs = [v.detach().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v
              for v in call.torch_values]  # fmt: skip
    library, _, name = op.rpartition(".")
    outputs = getattr(getattr(torch.ops, library), name)(*theirs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    pairs = [
        (o, torch.from_numpy(g)) for o, g in zip(outputs, grads, strict=True) if o.requires_grad
    ]
    torch.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
    given = [v for v in theirs if isinstance(v, torch.Tensor)]
    for array, at in zip(made, targets_at, strict=True):
        assert array.tobytes() == given[at].grad.numpy().tobytes(), bound.inputs[at][0]


def test_texts_are_the_whole_call_in_another_process(tmp_path: Path) -> None:
    """Bound in a scope, run by a thread of another process that is in none."""
    calls = []
    with anyop.batch_invariant():
        for op, form in FORMS:
            call = example(op, form)
            bound = bind(call)
            assert bound.text.endswith(" in batch_invariant")
            inputs = tensors([to_numpy(v) for v in call.copy().values])
            calls.append((bound.text, inputs, results_and_written(call)))
    file = tmp_path / "calls"
    file.write_bytes(pickle.dumps(calls))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == f"{len(calls)} calls\n", done.stdout + done.stderr


def test_a_bound_call_runs_in_its_own_scope_on_any_thread() -> None:
    x = np.ones((4, 64), np.float32)
    with anyop.policy("rms_norm=cpu_portable"):
        bound = _anyop.bound_call("rms_norm", x)
    assert bound.text.endswith(' in policy = "anyop.rms_norm=cpu_portable"')
    anyop.reset_counters()
    thread = threading.Thread(target=lambda: bound.run([x]))
    thread.start()
    thread.join()
    made = {(row.op, row.kernel): row.calls for row in anyop.counters()}
    assert made[("anyop.rms_norm", "cpu_portable")] == 1


def test_dtypes_stand_for_tensors() -> None:
    by_name = _anyop.bound_call("rms_norm", "bf16", weight="bf16", eps=1e-5)
    tensor = torch.ones(2, 4, dtype=torch.bfloat16)
    assert _anyop.bound_call("rms_norm", tensor, tensor[0], eps=1e-5) == by_name
    assert pickle.loads(pickle.dumps(by_name)) == by_name
    assert by_name != _anyop.bound_call("rms_norm", "bf16", eps=1e-5)
    assert {by_name: 1}[_anyop.find_bound_call(by_name.text)] == 1
    with pytest.raises(TypeError, match="but must be a tensor of a dtype that anyop has"):
        _anyop.bound_call("rms_norm", "f33")


def test_a_run_takes_dlpack_and_writes_results_that_are_given() -> None:
    bound = _anyop.bound_call("rms_norm", "f32")
    y = np.empty((2, 4), np.float32)
    assert bound.run([torch.ones(2, 4)], [y])[0] is y
    np.testing.assert_array_equal(y, anyop.rms_norm(np.ones((2, 4), np.float32)))
    with pytest.raises(TypeError, match="bound call: 2 inputs are given, but there are 1"):
        bound.run([y, y])
    frozen = np.empty((2, 4), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        bound.run([y], [frozen])


def test_an_operator_of_python_is_bound_too_and_interrupts_pass() -> None:
    @anyop.define("doubled_if_right(x: f32[n]) -> (y: f32[n])", library="bound_test")
    def doubled(x: Any) -> Any:
        if x[0] < 0:
            raise KeyError("negative") if x[0] > -2 else KeyboardInterrupt
        return x * 2

    bound = _anyop.bound_call("bound_test.doubled_if_right", "f32")
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.extend(bound.run([np.ones(2, np.float32)])))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(made[0], [2, 2])
    with pytest.raises(anyop.Error, match=r"doubled\(\) raised KeyError: 'negative'"):
        bound.run([np.array([-1, 0], np.float32)])
    with pytest.raises(KeyboardInterrupt):
        bound.run([np.array([-3, 0], np.float32)])


def test_a_graph_is_one_bound_call() -> None:
    def step(x: Any, weight: Any, s: Any) -> Any:
        return anyop.add(anyop.rms_norm(x, weight), anyop.mul(x, x)), anyop.rms_norm(x, eps=s)

    graph = anyop.graph(step, "f32[n, 8]", "f32[8]", "float")
    rng = np.random.default_rng(1)
    x, weight = rng.random((3, 8), np.float32), rng.random(8, np.float32)
    bound = _anyop.bound_graph(graph, s=0.5)
    again = _anyop.find_bound_call(bound.text)
    assert again == bound
    assert bits(list(bound.run([x, weight]))) == bits(list(graph(x, weight, 0.5)))
    assert bound.infer([(None, (None, 8)), (None, (8,))]) == (("f32", (-1, 8)), ("f32", (-1, 8)))
    with pytest.raises(NotImplementedError, match="graph: it has no gradient"):
        bound.gradient([True, False])


def test_a_saved_graph_is_a_bound_call_in_another_process(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).random((4, 8), np.float32)
    graph = anyop.graph(
        lambda x, s: anyop.linear(anyop.rms_norm(x, eps=s), weight),
        "f32[n, 8]", "float", frozen={"weight": weight},
    )  # fmt: skip
    graph.save(tmp_path / "saved")
    bound = _anyop.bound_saved_graph(str(tmp_path / "saved"), "", s=0.25)
    x = np.random.default_rng(3).random((3, 8), np.float32)
    expected = bits([graph(x, 0.25)])
    assert bits(list(bound.run([x]))) == expected
    file = tmp_path / "calls"
    file.write_bytes(pickle.dumps([(bound.text, [x], expected)]))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(file)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "1 calls\n", done.stdout + done.stderr
