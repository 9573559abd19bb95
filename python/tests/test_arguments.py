# SPDX-License-Identifier: Apache-2.0
"""How Python's objects become arguments: every kind, through a library made for it."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyop
import ml_dtypes
import numpy as np
import pytest


def describe(probe: Any, **arguments: Any) -> list[float]:
    return list(probe.describe(**arguments))


def test_defaults_are_those_of_the_signature(probe: Any) -> None:
    assert describe(probe) == [1, 0.5, 0, 1, 1, 12, -1]


@pytest.mark.parametrize("n", [7, np.int8(7), np.uint64(7), np.array(7)])
def test_ints_are_what_has_an_index(probe: Any, n: Any) -> None:
    assert describe(probe, n=n)[0] == 7


@pytest.mark.parametrize("f", [2, 2.0, np.float32(2), np.float64(2), np.int16(2), np.array(2.0)])
def test_numbers_are_taken_for_floats(probe: Any, f: Any) -> None:
    assert describe(probe, f=f)[1] == 2


@pytest.mark.parametrize("b", [True, np.True_])
def test_bools_are_bools(probe: Any, b: Any) -> None:
    assert describe(probe, b=b)[2] == 1


def test_words_need_not_be_interned(probe: Any) -> None:
    assert describe(probe, w="green")[3] == 2
    assert describe(probe, w="".join(["gr", "een"]))[3] == 2


@pytest.mark.parametrize(
    "dtype", ["bf16", "bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)]
)
def test_dtypes_have_many_names(probe: Any, dtype: Any) -> None:
    assert describe(probe, to=dtype)[4] == 3


@pytest.mark.parametrize(
    ("dtype", "number"), [(np.float64, 0), ("f16", 2), ("float8_e5m2", 5), ("int64", 6), (bool, 11)]
)
def test_dtypes_of_numpy(probe: Any, dtype: Any, number: int) -> None:
    assert describe(probe, to=dtype)[4] == number


@pytest.mark.parametrize("sizes", [[3, 4], (3, 4), np.array([3, 4]), range(3, 5)])
def test_lists_of_ints_are_sequences(probe: Any, sizes: Any) -> None:
    assert describe(probe, sizes=sizes)[5] == 34


def test_lists_may_be_empty_or_long(probe: Any) -> None:
    assert describe(probe, sizes=[])[5] == 0
    assert describe(probe, gains=[0.5] * 1000)[6] == 500


def test_lists_of_arrays(probe: Any) -> None:
    arrays = [np.full(3, i, np.float32) for i in range(100)]
    np.testing.assert_array_equal(probe.total(arrays), [4950] * 3)
    np.testing.assert_array_equal(probe.total(tuple(arrays[:2])), [1] * 3)


def test_mut_arguments_change_in_place_and_no_result_is_none(probe: Any) -> None:
    a, b = np.zeros(2, np.float32), np.zeros(2, np.float32)
    assert probe.bump([a], b) is None
    assert probe.bump([a]) is None
    assert (a[0], b[0]) == (2, 1)


def test_several_results_are_a_named_tuple(probe: Any) -> None:
    results = probe.halves(np.arange(4, dtype=np.float32))
    assert isinstance(results, tuple)
    assert results._fields == ("low", "high")
    np.testing.assert_array_equal(results.low, [0, 1])
    np.testing.assert_array_equal(results[1], [2, 3])


def test_out_of_several_results_is_a_tuple(probe: Any) -> None:
    x, high = np.arange(4, dtype=np.float32), np.empty(2, np.float32)
    results = probe.halves(x, out=(None, high))
    assert results.high is high
    np.testing.assert_array_equal(results.low, [0, 1])
    np.testing.assert_array_equal(high, [2, 3])


def test_gradient_of_an_absent_argument_is_left_out(probe: Any) -> None:
    x = np.ones(3, np.float32)
    assert probe.gradient(x, x).dw is None
    np.testing.assert_array_equal(probe.gradient(x, x, x).dw, x)
    assert probe.gradient(x, x, x, out=(False, None)).dx is None


@pytest.mark.parametrize(
    "dtype",
    ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?", "longlong", "c8", "ulonglong"]
    + [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
)
def test_every_dtype_goes_in_and_comes_out(probe: Any, dtype: Any) -> None:
    x = np.arange(6).astype(dtype).reshape(2, 3)
    y = probe.copy(x)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.view(np.uint8), x.view(np.uint8))


OTHER_BFLOAT16 = """
import importlib.util, sys
import anyop, numpy as np

spec = importlib.util.spec_from_file_location("_ml_dtypes_ext", sys.argv[1])
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
x = np.ones((2, 8), np.float32).astype(other.bfloat16)
assert "ml_dtypes" not in sys.modules
assert anyop.add(x, x).dtype == other.bfloat16
import ml_dtypes
assert ml_dtypes.bfloat16 is not other.bfloat16
y = np.ones((2, 8), np.float32).astype(ml_dtypes.bfloat16)
assert (anyop.add(x, y).astype(np.float32) == 2).all()
assert anyop.rms_norm(x, out=y) is y
twice = anyop.define("twice(x: bf16[a, b]) -> (y: bf16[a, b])", lambda x: (y + y)[:, ::1])
assert (twice(x).astype(np.float32) == 2).all()
assert anyop.explain(anyop.add, x, y).kernel
assert (anyop.graph(lambda x: anyop.add(x, y), "bf16[2, 8]")(x).astype(np.float32) == 2).all()
for wrong in (np.zeros((2, 8), "V2"), np.zeros((2, 8), np.clongdouble)):
    try:
        anyop.add(wrong, wrong)
    except ValueError as error:
        assert "has no such dtype" in str(error)
    else:
        raise AssertionError(wrong.dtype)
"""


def test_a_bfloat16_of_another_package_is_one_too(tmp_path: Path) -> None:
    (extension,) = Path(ml_dtypes.__file__).parent.glob("_ml_dtypes_ext*.so")
    copy = shutil.copy(extension, tmp_path / extension.name)  # registers types of its own
    subprocess.run([sys.executable, "-c", OTHER_BFLOAT16, str(copy)], check=True)


def test_stride_that_is_no_multiple_of_the_element_is_copied(probe: Any) -> None:
    packed = np.zeros(4, dtype=[("tag", "u1"), ("value", "<f4")])
    packed["value"] = [1, 2, 3, 4]
    np.testing.assert_array_equal(probe.copy(packed["value"]), [1, 2, 3, 4])
    with anyop.strict(), pytest.raises(ValueError, match="strict mode allows no copies"):
        probe.copy(packed["value"])


def test_operator_without_tensors_takes_like(probe: Any) -> None:
    assert probe.describe(like=np)[0] == 1
    assert probe.describe(like=np.zeros(1))[0] == 1
    with pytest.raises(TypeError, match="like is 3, but must be numpy, torch, or an array"):
        probe.describe(like=3)
    nameless = type(np)("nameless")
    del nameless.__dict__["__name__"]
    with pytest.raises(TypeError, match="like is <module '\\?'.*>, but must be numpy, torch, or"):
        probe.describe(like=nameless)


def test_lock_is_released_in_long_calls(probe: Any) -> None:
    ticks = 0

    def count() -> None:
        nonlocal ticks
        while not done:
            ticks += 1
            time.sleep(0.001)

    done = False
    thread = threading.Thread(target=count)
    thread.start()
    probe.wait(np.ones((1, 2), np.float32))
    during = ticks
    done = True
    thread.join()
    assert during > 20


def test_threads_call_at_the_same_time(probe: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        for n in range(1, 60):
            x = np.full(2 * n, seed, np.float32)
            low, high = probe.halves(x)
            if not ((low == seed).all() and (high == seed).all() and low.shape == (n,)):
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_leak_nothing(probe: Any) -> None:
    x = np.ones(4, np.float32)
    out = (None, np.empty(2, np.float32))

    def calls() -> None:
        for _ in range(100):
            probe.halves(x, out=out)
            probe.total([x, x])
            probe.describe(n=3, w="green", sizes=[1, 2], to="bf16")
            for wrong in (lambda: probe.total([x, 3]), lambda: probe.halves(x, out=(x, x))):
                with pytest.raises(anyop.Error):
                    wrong()

    calls()
    gc.collect()
    references = [sys.getrefcount(o) for o in (x, out, out[1], None)]
    blocks = sys.getallocatedblocks()
    calls()
    gc.collect()
    after = [sys.getrefcount(o) for o in (x, out, out[1], None)]
    assert after[:3] == references[:3]
    assert abs(after[3] - references[3]) < 50
    assert sys.getallocatedblocks() - blocks < 200
