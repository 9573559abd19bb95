# SPDX-License-Identifier: Apache-2.0
"""Numbers of threads, and processes that were forked."""

from __future__ import annotations

import ctypes.util
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import anyop
import numpy as np
import pytest

LARGE = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)  # worth sharing
WANTED = LARGE + LARGE


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = anyop.get_num_threads()
    yield
    anyop.set_num_threads(before)


def is_right(rows: int = len(LARGE)) -> bool:
    return np.array_equal(anyop.add(LARGE[:rows], LARGE[:rows]), WANTED[:rows])


@pytest.mark.parametrize("number", [0, -1, 257, 10**6, -(2**31), 2**40, 2**70])
def test_a_wrong_number_of_threads_is_named(number: int) -> None:
    anyop.set_num_threads(2)
    text = f"the number of threads is {number}, but must be 1 to 256."
    with pytest.raises(anyop.InvalidArgument) as error:
        anyop.set_num_threads(number)
    assert str(error.value) == text
    with pytest.raises(anyop.InvalidArgument) as error, anyop.threads(number):
        pass
    assert str(error.value) == text
    assert anyop.get_num_threads() == 2


@pytest.mark.parametrize("number", [2.0, "2", None])
def test_threads_are_counted_by_an_integer(number: object) -> None:
    with pytest.raises(TypeError, match="threads is .*, but must be an int."):
        anyop.set_num_threads(number)  # type: ignore[arg-type]
    anyop.set_num_threads(np.int64(2))  # type: ignore[arg-type]
    assert anyop.get_num_threads() == 2


@pytest.mark.parametrize("number", [1, 2, 64, 256])
def test_more_threads_than_cores_give_the_same_bits(number: int) -> None:
    weight = LARGE[:256]
    anyop.set_num_threads(1)
    one = anyop.linear(LARGE[:64], weight)
    anyop.set_num_threads(number)
    assert np.array_equal(anyop.linear(LARGE[:64], weight), one)
    assert is_right()


def fork(action: object) -> int:
    """The exit status of a child that calls action(); 1 where it returned something false."""
    child = os.fork()
    if child == 0:
        os._exit(0 if action() else 1)  # type: ignore[operator]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_and_its_child_compute_on() -> None:
    anyop.set_num_threads(2)
    assert is_right()  # threads run from here on
    assert fork(lambda: is_right() and fork(is_right) == 0 and is_right()) == 0
    assert is_right()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_forked_while_other_threads_compute_is_right() -> None:
    anyop.set_num_threads(2)
    done = threading.Event()
    wrong: list[int] = []

    def compute() -> None:
        while not done.is_set():
            if not is_right(512):
                wrong.append(1)

    others = [threading.Thread(target=compute) for _ in range(3)]
    for t in others:
        t.start()
    try:
        assert [fork(is_right) for _ in range(5)] == [0] * 5
    finally:
        done.set()
        for t in others:
            t.join()
    assert not wrong


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_workers_of_a_pool_compute() -> None:
    anyop.set_num_threads(2)
    assert is_right()
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(is_right, [1, 100, 2048]) == [True] * 3


BOUND = """
import ctypes, json, os, sys
import anyop, numpy as np
from anyop import _anyop

x = np.ones((2048, 1024), np.float32)
{first}
ctypes.CDLL("{library}")
{then}
main = sorted(os.sched_getaffinity(0))
cores = _anyop.machine()["cores"]
for _ in range(50):
    anyop.add(x, x)
threads = sorted(sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task"))
print(json.dumps([main, cores, anyop.get_num_threads(), threads]))
"""


def bound(first: str = "", then: str = "", **env: str) -> list[object]:
    """What a process has that loads OpenMP: processors of its first thread, cores, the number of
    threads, and processors of each thread.
    """
    library = ctypes.util.find_library("gomp")
    if library is None or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine has no libgomp, or one processor")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "ANYOP_T"))}
    clean["OPENBLAS_NUM_THREADS"] = "1"  # NumPy's, which start with it, else count among ours
    code = BOUND.format(first=first, then=then, library=library)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**clean, **env}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("first", ["", "anyop.get_num_threads()"])
@pytest.mark.parametrize("variable", ["GOMP_CPU_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND"])
def test_cores_that_openmp_has_places_on_are_used(variable: str, first: str) -> None:
    """It binds the first thread to one of them, and threads are bound as who made them."""
    all_of_them = sorted(os.sched_getaffinity(0))
    value = {
        "GOMP_CPU_AFFINITY": " ".join(map(str, all_of_them)),
        "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in all_of_them),
        "OMP_PROC_BIND": "true",
    }
    names = {variable, "OMP_PROC_BIND"} if variable == "OMP_PLACES" else {variable}
    _, cores, count, _ = bound()
    main, *rest = bound(first, **{name: value[name] for name in names})
    assert main == all_of_them[:1], "OpenMP binds"
    assert rest[:2] == [cores, count]
    assert all_of_them in rest[2], "a worker of ours runs on all of them"  # type: ignore[operator]
    assert all_of_them[:1] in rest[2], "the first thread stays where it is"  # type: ignore[operator]


def test_a_process_that_was_bound_by_others_stays_where_it_is() -> None:
    """By OpenMP to one processor, or by somebody else while OpenMP binds nothing."""
    cpu, other, *_ = sorted(os.sched_getaffinity(0))
    assert bound(GOMP_CPU_AFFINITY=str(cpu)) == [[cpu], 1, 1, [[cpu]]]
    bind = f"os.sched_setaffinity(0, [{other}])"
    assert bound(bind) == bound(then=bind) == [[other], 1, 1, [[other]]]
