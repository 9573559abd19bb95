# SPDX-License-Identifier: Apache-2.0
"""Runs each kernel of each operator by a policy that pins it, and prints JSON: by operator and
kernel "ran", or why it did not. With --as-is no policy is set; then only kernels that ran are told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import anyop
from anyop import _anyop
from generated import Example, contract, fill, on_numpy, operators

SEEDS = 6000  # some kernels take few calls: rows, a dtype and a format must meet, or six sizes


def calls(op: str) -> Iterator[Example]:
    optional = [p["name"] for p in contract(op)["params"] if p.get("optional")]
    for seed in range(SEEDS):
        given = {} if seed % 3 == 0 else dict.fromkeys(optional, seed % 3 == 1)
        drawn = _anyop.example_call(op, seed, -1, {}, given)
        if drawn is not None:
            yield Example(op, -1, seed, [fill(value, rule) for value, rule in drawn])


def counted(call: Example) -> list[str]:
    """The kernels that the call ran; none where it is refused or has nothing to compute."""
    anyop.reset_counters()
    try:
        results, arguments = on_numpy(call)
    except (ValueError, NotImplementedError):
        return []
    if any(0 in getattr(a, "shape", ()) for a in [*results, *arguments]):
        return []
    return [c.kernel for c in anyop.counters()]


def pinned(op: str) -> dict[str, str]:
    told = {k["name"]: k["state"] for k in anyop.info(op)["kernels"] if k["state"] != "available"}
    left = [k["name"] for k in anyop.info(op)["kernels"] if k["name"] not in told]
    for call in calls(op):
        for kernel in left:
            with anyop.policy(f"{op}={kernel}"):
                if counted(call) == [kernel]:
                    told[kernel] = "ran"
        left = [kernel for kernel in left if kernel not in told]
        if not left:
            break
    return told | dict.fromkeys(left, f"none of {SEEDS} calls counted for it alone")


def as_is(op: str) -> dict[str, str]:
    return dict.fromkeys(next((k for k in map(counted, calls(op)) if k), []), "ran")


if __name__ == "__main__":
    look = as_is if "--as-is" in sys.argv else pinned
    # A composition without kernels runs those of others.
    print(json.dumps({op: look(op) for op in operators() if anyop.info(op)["kernels"]}))
