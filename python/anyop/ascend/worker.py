# SPDX-License-Identifier: Apache-2.0
"""Runs kernels in a process of their own, which they may end: `python -m anyop.ascend.worker`.

Reads one task as JSON, writes a line of JSON for each try.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anyop
from anyop.ascend.arguments import Array, Memory, check_struct, from_bf16, value_of
from anyop.ascend.native import READ, WRITE, Kernel, Runtime, kernels_of
from anyop.ascend.places import located, told_of
from anyop.ascend.placing import Part, parts_of, placed
from anyop.ascend.tiling import tile

TILED = ("workspace", "tiling")  # arguments that a tiling function makes

REPEATS = 30  # of a kernel that is timed
# Behind arrays of a fast build: kernels that round sizes up to 32 bytes read there, where a device
# has memory too.
SLACK = 512


@dataclass(frozen=True)
class Launch:
    """The arguments of a try, its number of blocks and its tiling key."""

    values: list[Memory | bytes]
    blocks: int
    key: int
    workspace: Memory | None = None


def launch_of(
    runtime: Runtime, kernel: Kernel, task: dict[str, Any], one: dict[str, Any]
) -> Launch:
    """The same data for the same seed. A tiling function says the rest, of the SoC that is set."""
    rng = np.random.default_rng(one["seed"])
    sizes = {**one["sizes"], "blocks": one["blocks"]}
    tiling, values = task["tiling"], list[Memory | bytes]()
    for i, (letter, size) in enumerate(kernel.parameters):
        text = task["arguments"][i]
        if tiling and letter == "p" and text.strip() in TILED:
            values.append(b"")
            continue
        with told_of(task["places"][i]):
            values.append(value_of(text, letter, size, sizes, rng, kernel.structs[i]))
    if not tiling:
        return Launch(values, one["blocks"], task["tiling_key"])
    tensors = [value for value in values if isinstance(value, Memory)]
    with told_of(tiling["place"]):
        tiled = tile(runtime, tiling["library"], tiling["op"], tensors, tiling["attributes"])
    # As fresh memory is: a kernel that reads what it has not written gets no zeros.
    workspace = np.full(tiled.workspace_bytes, 0xFF, np.uint8)
    made = {
        "workspace": Memory(workspace, READ | WRITE, "u8"),
        "tiling": Memory(np.frombuffer(tiled.data, np.uint8).copy(), READ, "u8", is_struct=True),
    }
    for i, (text, (letter, _)) in enumerate(zip(task["arguments"], kernel.parameters, strict=True)):
        if letter == "p" and text.strip() in made:
            values[i] = memory = made[text.strip()]
            if text.strip() == "tiling":
                check_struct("the tiling function's data", memory, kernel.structs[i])
    return Launch(values, tiled.blocks, tiled.key, made["workspace"])


def check(runtime: Runtime, kernel: Kernel, task: dict[str, Any], one: dict[str, Any]) -> Any:
    """One try: its findings. The runtime is set twice, as a tiling function asks for the SoC and
    gives the tiling key.
    """
    with told_of(task["soc_place"]):
        runtime.configure(task["soc"], task["strict"])
    launch = launch_of(runtime, kernel, task, one)
    parts = parts_of(task["names"], launch.values)
    runtime.configure(task["soc"], task["strict"], task["max_steps"], one["seed"], launch.key)
    with placed(runtime, parts, 0) as call:
        ended = not runtime.launch(kernel, launch.blocks, call.pointers)
        findings = [located(row) for row in runtime.findings()]
        if not ended:
            save(task, parts, call.fetch())
        return {"findings": findings, "was_ended": ended, "blocks": launch.blocks}


def timed(runtime: Runtime, kernel: Kernel, task: dict[str, Any], one: dict[str, Any]) -> Any:
    """The results of one run, and the time of the fastest of some more."""
    with told_of(task["soc_place"]):
        runtime.configure(task["soc"], False)
    launch = launch_of(runtime, kernel, task, one)
    parts = parts_of(task["names"], launch.values)
    runtime.configure(task["soc"], False, 0, 0, launch.key)
    with placed(runtime, parts, SLACK) as call:
        runtime.launch(kernel, launch.blocks, call.pointers)
        if findings := runtime.findings():  # few are looked for without checks
            return {"findings": [located(row) for row in findings]}
        results = call.fetch()
        save(task, parts, results)
        least = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter_ns()
            runtime.launch(kernel, launch.blocks, call.pointers)
            least = min(least, time.perf_counter_ns() - start)
        rows = [
            describe(part.name, part.value, array)
            for part, array in zip(parts, results, strict=True)
            if isinstance(part.value, Memory)
            and part.value.access & WRITE
            and array is not None
            and part.value is not launch.workspace
        ]
        return {"results": rows, "us": least / 1e3}


def describe(name: str, value: Memory, array: Array) -> dict[str, Any]:
    """What is printed of a result: its first numbers and their range."""
    numbers = from_bf16(array) if value.dtype == "bf16" else array
    flat = numbers.ravel()
    return {
        "name": name,
        "type": f"{value.dtype}[{', '.join(map(str, array.shape))}]",
        "first": [float(x) for x in flat[:6]],
        "least": float(flat.min()) if flat.size else None,
        "largest": float(flat.max()) if flat.size else None,
    }


def save(task: dict[str, Any], parts: Sequence[Part], arrays: Sequence[Any]) -> None:
    """Arrays before and after, as NumPy reads them; bfloat16 as f32. Of a list its tensors."""
    if not task["save"]:
        return
    folder = Path(task["save"])
    folder.mkdir(parents=True, exist_ok=True)
    for part, after in zip(parts, arrays, strict=True):
        value = part.value
        if not isinstance(value, Memory) or value.array is None or value.items is not None:
            continue
        is_result = bool(value.access & WRITE)
        array = after if is_result else value.array
        if value.dtype == "bf16":
            array = from_bf16(array)
        np.save(folder / f"{part.name}.npy", array)


def main() -> None:
    """Reads the task and answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    task = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels print is no answer
    runtime = Runtime()
    kernel = kernels_of(Path(task["library"]))[task["kernel"]]
    act = check if task["checked"] else timed
    for one in task["tries"]:
        try:
            answer = act(runtime, kernel, task, one)
        except (anyop.Error, MemoryError, OSError, ValueError, OverflowError) as error:
            answer = {"error": str(error)}
        ctypes.CDLL(None).fflush(None)  # what kernels printed: the next one may end the process
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
