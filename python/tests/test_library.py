# SPDX-License-Identifier: Apache-2.0
"""Libraries, contracts as data, scopes, counters."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop._graph.size import Size
from anyop._graph.value import Value

X, W = np.ones((2, 8), np.float32), np.ones(8, np.float32)


def kernel_of(x: Any = X) -> str | None:
    return anyop.explain(anyop.rms_norm, x, W).kernel


def test_loading_again_does_nothing(probe_file: Path, probe: Any) -> None:
    before = anyop.specs()
    assert anyop.load(str(probe_file)) is probe
    assert anyop.specs() == before


def test_operators_of_a_library_are_below_ops(probe: Any) -> None:
    assert anyop.ops.probe.total is probe.total
    assert "probe" in list(anyop.ops)
    assert anyop.ops.anyop.rms_norm is anyop.rms_norm
    assert "rms_norm" in dir(anyop)


def test_a_missing_name_gets_the_nearest(probe: Any) -> None:
    with pytest.raises(AttributeError, match="no operator or attribute 'rms_nrm'.*'rms_norm'"):
        _ = anyop.rms_nrm
    with pytest.raises(AttributeError, match="library probe has no operator 'totl'.*'total'"):
        _ = probe.totl
    with pytest.raises(AttributeError, match="no library 'prob' is loaded.*'probe'"):
        _ = anyop.ops.prob
    wanted = "'everything'. Did you mean 'anyop.ops.probe.everything'"
    with pytest.raises(AttributeError, match=wanted):
        _ = anyop.everything
    with pytest.raises(TypeError, match=r"Try help\(anyop\.ops\.probe\.total\)\.$"):
        probe.total(*[1] * 99)
    with pytest.raises(anyop.NotAvailable, match="rms_nrm.*rms_norm"):
        anyop.info("rms_nrm")


def test_names_that_utf8_does_not_hold_are_no_names(probe: Any) -> None:
    for where in (anyop, anyop.ops, probe):
        assert not hasattr(where, "\udcff")
    for call in (lambda: anyop.info("\udcff"), lambda: anyop.explain("\udcff", X)):
        with pytest.raises(anyop.InvalidArgument, match=r"op is '\\udcff', but must be a text"):
            call()
    with pytest.raises(anyop.InvalidArgument, match=r"a name is '\\udcff', but must be a text"):
        anyop.graph(lambda x: anyop.add(x, x), "f32[n]", state={"\udcff": X})


def test_a_file_that_is_no_library_is_not_available(tmp_path: Path) -> None:
    with pytest.raises(anyop.NotAvailable, match="missing.so"):
        anyop.load(tmp_path / "missing.so")
    text = tmp_path / "text.so"
    text.write_text("no library")
    with pytest.raises(anyop.NotAvailable, match="text.so"):
        anyop.load(text)
    other = tmp_path / "other.so"
    shutil.copy(anyop._anyop.__file__, other)  # a shared object without anyop_library
    with pytest.raises(anyop.NotAvailable, match="other.so"):
        anyop.load(other)
    with pytest.raises(anyop.WrongType) as caught:
        anyop.load(3)  # type: ignore[arg-type]
    assert str(caught.value) == "load: path is 3, but must be a path."
    with pytest.raises(anyop.InvalidArgument) as refused:
        anyop.load("a\0b.so")
    assert str(refused.value) == "load: path is 'a\\x00b.so', but no file can have such a name."


def test_a_file_that_is_cut_off_is_not_available(probe_file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.so"
    whole = probe_file.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(anyop.NotAvailable) as caught:
        anyop.load(cut)
    assert str(caught.value) == (
        f"{cut}: has {len(whole) // 2} bytes, but its header tells of {len(whole)}: the file is "
        "cut off. Try to build or copy it again."
    )


def test_paths_need_not_be_utf8(probe_file: Path, tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe4.so")
    with pytest.raises(anyop.NotAvailable) as caught:
        anyop.load(name)
    shown = f"{tmp_path}/\\xff\\xe4.so: there is no such file, or it cannot be read."
    assert str(caught.value) == shown
    shutil.copy(probe_file, name)
    code = f"""
import anyop, os
path = os.fsdecode({os.fsencode(name)!r})
assert anyop.load(path) is anyop.load(os.fsencode(path)) is anyop.ops.probe
assert path in [file for _, _, file in anyop._anyop.libraries()]
assert anyop.info("probe.total")["file"] == path
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_types_of_the_extension_cannot_be_made_otherwise() -> None:
    extension: Any = anyop._anyop
    types = {t for t in vars(extension).values() if isinstance(t, type)}
    graph = anyop.graph(lambda x: anyop.softmax(x), "f32[4]")
    made = [graph, graph.stats(), graph.memory(), *graph.profile(np.ones(4, np.float32))]
    types |= {type(o) for o in [anyop.softmax.__self__, anyop.softmax, *made]}
    types = {t for t in types if not issubclass(t, BaseException)}
    assert {t.__name__ for t in types} >= {"Tracer", "Traced", "Graph", "Captured", "Op"}
    for t in types:
        for make in (lambda t=t: t.__new__(t), lambda t=t: object.__new__(t), t):
            with pytest.raises(TypeError):
                make()


def test_values_of_a_graph_need_their_tracer() -> None:
    extension: Any = anyop._anyop
    tracer = extension.Tracer("mine")
    for value in (tracer, Value(tracer, tracer.input("x", "f32[n]")), Size(tracer, "n")):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                copied(value)
    with pytest.raises(anyop.InvalidArgument, match="mine: the graph has no value 7"):
        Value(tracer, 7)
    with pytest.raises(anyop.WrongType, match="made without its tracer"):
        Value.__new__(Value, 3)
    bare = Value.__new__(Value, tracer)
    with pytest.raises(anyop.Error):
        anyop.softmax(bare)
    for wrong in (3, int, os.stat_result):
        with pytest.raises(anyop.WrongType, match="must return a tensor, or a tuple"):
            tracer.compile(wrong)
    for call in (
        lambda: tracer.slice(9, 0, 0, 1),
        lambda: tracer.reshape(-1, (1,)),
        lambda: tracer.transpose(0, 0, 5),
        lambda: tracer.describe(9),
        lambda: tracer.describe("a"),
        lambda: tracer.input("\ud800", "f32[n]"),
    ):
        with pytest.raises((anyop.Error, TypeError)):
            call()


def test_info_is_the_contract_as_data() -> None:
    info = anyop.info(anyop.rms_norm)
    assert info == anyop.info("rms_norm") == anyop.info("anyop.rms_norm")
    assert info["name"] == "anyop.rms_norm"
    assert [p["name"] for p in info["params"]] == ["x", "weight", "eps", "weight_offset"]
    assert [r["name"] for r in info["results"]] == ["y"]
    assert info["doc"].startswith("rms_norm: ")
    assert {"cpu_portable"} <= {k["name"] for k in info["kernels"]}


def test_specs_are_all_contracts_by_name(probe: Any) -> None:
    names = [s["name"] for s in anyop.specs()]
    assert names == sorted(names)
    assert {"anyop.rms_norm", "probe.total"} <= set(names)


def test_explain_names_the_kernel_and_the_reasons() -> None:
    explanation = anyop.explain(anyop.rms_norm, X, W)
    assert explanation.error == ""
    assert sum(k.taken for k in explanation.kernels) == 1
    assert all(k.reason for k in explanation.kernels if not k.taken)
    assert explanation.kernel in str(explanation)
    wrong = anyop.explain("rms_norm", X, W[:7])
    assert "weight is f32[7]" in wrong.error
    assert wrong.kernel is None
    with pytest.raises(TypeError, match="op is 3, but must be an operator or its name"):
        anyop.explain(3)  # type: ignore[arg-type]


def test_policy_holds_inside_its_block() -> None:
    outside = kernel_of()
    with anyop.policy("rms_norm=cpu_portable"):
        assert kernel_of() == "cpu_portable"
        with anyop.policy("all"):
            pass
        assert kernel_of() == "cpu_portable"
    assert kernel_of() == outside


def test_policy_ends_with_an_exception() -> None:
    outside = kernel_of()
    with pytest.raises(KeyError), anyop.policy("rms_norm=cpu_portable"):
        raise KeyError
    assert kernel_of() == outside


def test_policy_is_of_this_thread() -> None:
    outside, seen = kernel_of(), []
    with anyop.policy("rms_norm=cpu_portable"):
        thread = threading.Thread(target=lambda: seen.append(kernel_of()))
        thread.start()
        thread.join()
    assert seen == [outside]


def test_policy_of_the_process() -> None:
    anyop.set_policy("rms_norm=cpu_portable")
    try:
        assert anyop.get_policy() == "anyop.rms_norm=cpu_portable"
        assert kernel_of() == "cpu_portable"
    finally:
        anyop.set_policy("")


@pytest.mark.parametrize("text", ["rms_nrm=cpu_portable", "all,-rms_nrm", "all,none"])
def test_wrong_policies_are_value_errors(text: str) -> None:
    with pytest.raises(ValueError), anyop.policy(text):
        pass


WRONG: list[tuple[Any, Any, str]] = [
    (anyop.policy, 3, "policy is 3, but must be a str."),
    (anyop.strict, 1, "strict is 1, but must be True or False."),
    (anyop.strict, "no", "strict is 'no', but must be True or False."),
    (anyop.batch_invariant, "no", "batch_invariant is 'no', but must be True or False."),
    (anyop.threads, "2", "threads is '2', but must be an int."),
    (anyop.threads, 1.5, "threads is 1.5, but must be an int."),
    (anyop.data_checks, 3, "data_checks is 3, but must be a str."),
    (anyop.policy, None, "policy is None, but must be a str."),
    (anyop.strict, None, "strict is None, but must be True or False."),
    (anyop.batch_invariant, None, "batch_invariant is None, but must be True or False."),
    (anyop.threads, None, "threads is None, but must be an int."),
    (anyop.data_checks, None, "data_checks is None, but must be a str."),
    (lambda to: anyop.Scope(fallback_to_host=to), "cpu",
     "fallback_to_host is 'cpu', but must be True or False."),
    (anyop.set_policy, None, "policy is None, but must be a str."),
    (anyop.set_num_threads, None, "threads is None, but must be an int."),
    (anyop.synchronize, None, "synchronize: the device is None, but must be a str."),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "given", "error"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_scope_of_a_wrong_type_is_refused(scope: Any, given: Any, error: str) -> None:
    before = anyop._anyop.scope_text()
    with pytest.raises(anyop.WrongType) as caught, scope(given):
        pass
    assert str(caught.value) == error
    assert anyop._anyop.scope_text() == before


@pytest.mark.parametrize(
    ("scope", "given", "error"),
    [
        (anyop.data_checks, "hosts",
         "data_checks is 'hosts', but must be 'device', 'host' or 'trusted'."),
        (anyop.fallback, "gpu", "fallback: 'gpu' is no place to fall back to. Try 'cpu'."),
        (anyop.fallback, None, "fallback: None is no place to fall back to. Try 'cpu'."),
        (anyop.threads, 0, "the number of threads is 0, but must be 1 to 256."),
    ],
)  # fmt: skip
def test_a_scope_of_a_wrong_value_is_refused(scope: Any, given: Any, error: str) -> None:
    with pytest.raises(anyop.InvalidArgument) as caught, scope(given):
        pass
    assert str(caught.value) == error


def test_bools_of_numpy_are_bools() -> None:
    for on in (True, False):
        with anyop.strict(np.bool_(on)):  # type: ignore[arg-type]
            assert anyop._anyop.is_strict() is on


def test_strict_refuses_copies() -> None:
    x = np.ones((8, 2), np.float32).T
    with anyop.strict(), pytest.raises(anyop.Error, match="strict"):
        anyop.rms_norm(x, W)
    anyop.rms_norm(x, W)


def test_counters_prove_what_ran() -> None:
    anyop.reset_counters()
    assert anyop.counters() == []
    for _ in range(3):
        anyop.rms_norm(X, W)
    anyop.rms_norm(np.ones((8, 2), np.float32).T, W)
    (row,) = anyop.counters()
    assert (row.op, row.kernel, row.calls, row.copies) == ("anyop.rms_norm", kernel_of(), 4, 1)


def test_threads_are_set_for_the_process_and_for_a_block() -> None:
    before = anyop.get_num_threads()
    try:
        anyop.set_num_threads(1)
        assert anyop.get_num_threads() == 1
    finally:
        anyop.set_num_threads(before)
    with anyop.threads(1):
        assert anyop.explain("rms_norm", X, W).threads == 1
    with pytest.raises(ValueError):
        anyop.set_num_threads(0)


def test_unknown_environment_variables_are_errors() -> None:
    code = "import os; os.environ['ANYOP_POLCY'] = 'none'; import anyop"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "ANYOP_POLCY" in run.stderr
    assert "ANYOP_POLICY" in run.stderr
