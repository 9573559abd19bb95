# SPDX-License-Identifier: Apache-2.0
"""Graphs with more inputs and outputs than any operator has."""

import anyop
import numpy as np
import pytest

PAIRS = 150
NAMES = [f"x{i}" for i in range(2 * PAIRS)]


@pytest.fixture(scope="module")
def graph():
    scope = {"anyop": anyop}
    sums = ", ".join(f"anyop.add(x{2 * i}, x{2 * i + 1})" for i in range(PAIRS))
    exec(f"def sums({', '.join(NAMES)}):\n    return {sums}\n", scope)
    return anyop.graph(scope["sums"], *["f32[m, 8]"] * len(NAMES))


@pytest.fixture
def arrays():
    return [np.full((3, 8), i, np.float32) for i in range(len(NAMES))]


def check(results):
    assert len(results) == PAIRS
    for i, y in enumerate(results):
        assert (np.asarray(y) == 4 * i + 1).all()


def test_hundreds_of_inputs_and_outputs(graph, arrays):
    check(graph(*arrays))
    out = tuple(np.empty((3, 8), np.float32) for _ in range(PAIRS))
    graph(*arrays, out=out)
    check(out)


def test_keywords_in_any_order(graph, arrays):
    check(graph(**dict(reversed(list(zip(NAMES, arrays, strict=True))))))
    check(graph(*arrays[:7], **dict(zip(NAMES[7:], arrays[7:], strict=True))))
    with pytest.raises(TypeError, match="sums: x299 is missing"):
        graph(*arrays[:-1])


def test_outputs_that_overlap_are_refused(graph, arrays):
    out = [np.empty((3, 8), np.float32) for _ in range(PAIRS)]
    with pytest.raises(ValueError, match="output out0 overlaps output out149 in memory"):
        graph(*arrays, out=(*out[:-1], out[0]))
    with pytest.raises(ValueError, match="output out0 overlaps x299 in memory"):
        graph(*arrays, out=(arrays[299], *out[1:]))


def test_torch_tensors(graph, arrays):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(a) for a in arrays]
    check(graph(*tensors))
    check(graph(*tensors, out=tuple(torch.empty(3, 8) for _ in range(PAIRS))))
