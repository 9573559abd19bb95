# SPDX-License-Identifier: Apache-2.0
"""What `anyop diff` does in a process of its own for each build, as two builds of one library do
not fit into one process: `python -m anyop.cli.build_worker TASK LIBRARY FOLDER`.

Writes its answer to FOLDER/answer.pickle.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import anyop
from anyop import _anyop
from anyop.cli import capsules

SEEDS = 16  # generated calls of each operator
ROUNDS = 40


def describe(operators: list[str]) -> dict[str, Any]:
    """Contracts, by full name."""
    return {name: anyop.info(name) for name in operators}


def generate(operators: list[str]) -> int:
    """Makes calls from the signatures, which ANYOP_RECORD records; the number of those that ran."""
    ran = 0
    for name in operators:
        op, params = _anyop.functions()[name], anyop.info(name)["params"]
        for seed in range(SEEDS):
            call = _anyop.example_call(op, seed, -1, {}, {})
            if call is None:
                continue
            random = np.random.default_rng(seed)
            values = {
                p["name"]: _value(value, rule, random)
                for p, (value, rule) in zip(params, call, strict=True)
            }
            try:
                op(**values)
                ran += 1
            except (anyop.Error, TypeError, ValueError):
                continue  # data that no signature describes: block tables, lengths
    return ran


def _value(value: Any, rule: tuple[str, int] | None, random: np.random.Generator) -> Any:
    if isinstance(value, tuple):
        return _tensor(value, rule, random)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return [_tensor(v, rule, random) for v in value]
    return value


def _tensor(kind: tuple[str, Any], rule: tuple[str, int] | None, random: Any) -> Any:
    name, shape = kind
    dtype = _anyop.numpy_dtype(name)
    if rule and rule[0] == "below":
        return random.integers(0, max(rule[1], 1), shape).astype(dtype)
    if rule:
        starts = np.sort(random.integers(0, rule[1] + 1, shape)).astype(dtype)
        starts[:1] = 0
        return starts
    if name[0] in "fb" and name != "bool":
        return random.standard_normal(shape).astype(np.float32).astype(dtype)
    return random.integers(0, 3, shape).astype(dtype)


def replay(folder: Path) -> dict[str, Any]:
    """Of each recorded call what it wrote, its kernel and best time in ns; or its error."""
    answer: dict[str, Any] = {}
    for path in capsules.find([folder]):
        capsule = capsules.read_call(path)
        row: dict[str, Any] = {"op": capsule.op, "call": capsule.call}
        try:
            outcome = capsule.run()
            row |= {"kernel": outcome.kernel, "written": outcome.written}
            row["ns"] = min(capsule.run(ROUNDS).times_ns)
        except anyop.Error as error:
            row["error"] = str(error)
        answer[path.name] = row
    return answer


def main(task: str, library: str, folder: str) -> None:
    if Path(library).name != "anyop_ops.so":  # else it is loaded already: ANYOP_LIBRARY
        anyop.load(library)
    name, version = next(
        (n, v) for n, v, file in _anyop.libraries() if os.path.realpath(file) == library
    )
    operators = sorted(n for n in _anyop.functions() if n.startswith(f"{name}."))
    tasks: dict[str, Callable[[], Any]] = {
        "describe": lambda: describe(operators),
        "generate": lambda: generate(operators),
        "replay": lambda: replay(Path(folder) / "calls"),
    }
    answer = {"name": name, "version": version, "answer": tasks[task]()}
    (Path(folder) / "answer.pickle").write_bytes(pickle.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
