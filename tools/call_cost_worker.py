# SPDX-License-Identifier: Apache-2.0
"""Calls of small operators from Python, which call_cost.py measures in two trees.

    call_cost_worker.py HOST [NAME CALLS]

Without a name it reads names from its input, a line each, and answers ns per call, the least of
some repeats. With one it makes that many calls and ends, so that instructions can be counted.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

CALLS, REPEATS, WARM = 400, 5, 2000


def operators(host: str) -> dict[str, Callable[[], Any]]:
    """Calls so small that nearly all of their time is what the host's half of a call takes."""
    import anyop

    anyop.set_num_threads(1)
    library: Any = importlib.import_module(host)
    if host == "torch":
        importlib.import_module("anyop.torch")
        library.set_num_threads(1)

    def ones(*shape: int) -> Any:
        return library.ones(shape, dtype=library.float32)

    ops: Any = anyop
    x, y, out, weight = ones(4, 64), ones(4, 64), ones(4, 64), ones(64)
    graph = ops.graph(lambda a: ops.add(ops.rms_norm(a, weight), a), "f32[4,64]")
    calls = {
        "add": lambda: ops.add(x, y),
        "add, out": lambda: ops.add(x, y, out=out),
        "rms_norm": lambda: ops.rms_norm(x, weight),
        "rms_norm, out": lambda: ops.rms_norm(x, weight, out=out),
        "silu_and_mul": lambda: ops.silu_and_mul(x),
        "graph of two": lambda: graph(x),
    }
    if host == "torch":
        registered = library.ops.anyop.rms_norm
        calls["torch.ops rms_norm"] = lambda: registered(x, weight)
    return calls


def ns_per_call(call: Callable[[], Any]) -> float:
    least = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter_ns() - start) / CALLS)
    return least


def main(host: str, name: str = "", count: str = "0") -> None:
    calls = operators(host)
    if name:
        call = calls[name]
        for _ in range(int(count)):
            call()
        return
    for call in calls.values():
        for _ in range(WARM):
            call()
    print("\t".join(calls), flush=True)
    for line in sys.stdin:
        print(ns_per_call(calls[line.strip()]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
