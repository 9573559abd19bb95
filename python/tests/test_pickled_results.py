# SPDX-License-Identifier: Apache-2.0
"""What calls return may be pickled and copied, and is of a type that can be named."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop, _results

ROW = np.array([[3, 1, 2]], np.float32)
SEVERAL = [name for name, f in _anyop.functions().items() if _anyop.result_type(f)]


def kinds() -> list[type[Any]]:
    found = [_anyop.result_type(_anyop.functions()[name]) for name in SEVERAL]
    return [kind for kind in found if kind is not None]


def test_the_type_of_several_results_is_found_by_its_name() -> None:
    assert anyop.top_k_results is type(anyop.top_k(ROW, 2))
    assert anyop.ops.anyop.top_k_results is anyop.top_k_results
    assert not hasattr(anyop, "softmax_results")  # one tensor
    assert not hasattr(anyop, "no_such_results")
    for kind in kinds():
        assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_results_are_pickled_as_what_they_are(protocol: int) -> None:
    assert len(kinds()) > 20
    for kind in kinds():
        values = kind._make(range(len(kind._fields)))
        for again in (pickle.loads(pickle.dumps(values, protocol)), copy.deepcopy(values)):
            assert again == values
            assert type(again) is kind


def test_rows_about_graphs_are_pickled_as_what_they_are() -> None:
    graph = anyop.graph(lambda x: anyop.softmax(x), "f32[2, 3]")
    x = np.ones((2, 3), np.float32)
    rows = [graph.memory(), graph.stats(), *graph.profile(x, repeats=1), *anyop.counters()]
    rows.append(anyop.explain(anyop.softmax, x))
    for row in rows:
        again = pickle.loads(pickle.dumps(row))
        assert again == row
        assert type(again) is type(row)


def test_another_process_reads_results() -> None:
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).indices.tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(anyop.top_k(ROW, 2)),
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == b"[[0, 2]]\n"


def test_results_of_an_operator_that_is_not_there_are_told() -> None:
    with pytest.raises(
        anyop.NotAvailable,
        match=r"^my_ops\.pair: results of it are unpickled, but no library is loaded that has the "
        r"operator\. Try loading its library first\.$",
    ):
        _results.restored("my_ops.pair", (1, 2))
    with pytest.raises(
        ValueError,
        match=r"^anyop\.top_k: 3 results of it are unpickled, but it has 2 \(values, indices\)\. "
        r"Try the library that they were made with\.$",
    ):
        _results.restored("anyop.top_k", (1, 2, 3))


def test_results_of_a_defined_operator_are_pickled() -> None:
    def pair(x: Any) -> Any:
        return x, x + 1

    made = anyop.define("pair(x: f32[n]) -> (a: f32[n], b: f32[n])", library="pickled")(pair)
    result = made(np.ones(2, np.float32))
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is type(result) is anyop.ops.pickled.pair_results
    np.testing.assert_array_equal(again.b, [2, 2])
