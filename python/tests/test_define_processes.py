# SPDX-License-Identifier: Apache-2.0
"""anyop.define in processes of its own: a policy, threads, many operators."""

from __future__ import annotations

import subprocess
import sys

import pytest

AGAINST_THE_POLICY = """
import gc
import anyop, numpy as np

anyop.set_policy("user.f=cpu_avx2")
def make():
    big = np.ones(10)
    def f(x):
        return x + big[0]
    return f
try:
    anyop.define("f(x: f64[n]) -> (y: f64[n])", make())
except ValueError as error:
    assert str(error) == (
        "policy 'user.f=cpu_avx2': user.f has no kernel 'cpu_avx2', only cpu_python."
    ), error
else:
    raise AssertionError
gc.collect()
assert "user.f" not in [s["name"] for s in anyop.specs()]
assert "user" not in list(anyop.ops)
anyop.set_policy("")
assert anyop.define("f(x: f64[n]) -> (y: f64[n])", make())(np.ones(2)).tolist() == [2, 2]
"""


def test_what_the_policy_contradicts_is_not_defined() -> None:
    subprocess.run([sys.executable, "-c", AGAINST_THE_POLICY], check=True)


AT_ONCE = """
import itertools, sys, threading, warnings
import anyop, numpy as np
if "torch" in sys.argv:
    import torch
warnings.simplefilter("error")
failures, barrier, numbers, x = [], threading.Barrier(6), itertools.count(), np.ones(3, np.float32)

def work():
    try:
        barrier.wait()
        for _ in range(60):
            k = next(numbers)
            back = f"back_{k // 2}(dy: f32[n]) -> (dx: f32[n]?)"
            anyop.define(back, lambda dy: dy, library="at_once")
            forth = f"forth_{k}(x: f32[n]) -> (y: f32[n])"
            op = anyop.define(forth, lambda x: x, library="at_once", gradient=f"back_{k // 2}")
            assert op(x).tolist() == x.tolist()
            if "torch" in sys.argv:
                assert op(torch.tensor(x)).tolist() == x.tolist()
                assert getattr(torch.ops.at_once, f"forth_{k}")(torch.tensor(x)).shape == (3,)
            list(anyop.ops.at_once.items())
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work) for _ in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failures, failures
"""


@pytest.mark.parametrize("host", ["numpy", "torch"])
def test_threads_define_at_once(host: str) -> None:
    pytest.importorskip(host)
    subprocess.run([sys.executable, "-c", AT_ONCE, host], check=True)


FIRST_AT_ONCE = """
import sys, threading, time
import anyop, torch

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "anyop.torch._route.lent":
            time.sleep(0.3)

sys.meta_path.insert(0, Slow())
anyop.define("f(x: f32[n]) -> (y: f32[n])", lambda x: x, library="first")
run = torch.ops.first.f
threads = [threading.Thread(target=run, args=(torch.ones(3),)) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert "anyop.torch._route.lent" in sys.modules
"""


def test_threads_make_the_first_call_at_once() -> None:
    """While one imports what lends memory, none waits for it with the interpreter's lock."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-c", FIRST_AT_ONCE], check=True, timeout=120)


MANY = """
import resource, sys, time
import anyop, numpy as np

def f(x):
    return x

def define(n, begin):
    start = time.process_time()
    for i in range(begin, begin + n):
        anyop.define(f"f{i}(x: f32[n]) -> (y: f32[n])", f)
    return time.process_time() - start

define(500, 0)
few = define(500, 500)
define(3000, 1000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
many = define(500, 4000)
define(1500, 4500)
kib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2000
print(few, many, kib)
assert many < 2 * few + 0.1, (few, many)
assert kib < 10, kib
"""


def test_many_operators_cost_each_what_few_do() -> None:
    subprocess.run([sys.executable, "-c", MANY], check=True)
