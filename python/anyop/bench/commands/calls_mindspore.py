# SPDX-License-Identifier: Apache-2.0
"""What a call with MindSpore's tensors costs, beside MindSpore's own operators and its ways to add
one.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import mindspore
import numpy as np

import anyop
from anyop._compiler import CannotBuildError, find_compiler
from anyop.bench.commands.interleave import EACH, Row, chain, interleave

CHAIN = 100  # of 20 nodes the cost of one drowns in the noise of the call
BUILDER = Path(__file__).with_name("by_hand_mindspore.cc")
CUSTOM, BUILT = "mindspore.ops.Custom(a, b)", "by mindspore.ops.CustomOpBuilder, add(a, b)"
OURS, OWN = "anyop.add(a, b), MindSpore's tensors", "mindspore.ops.add(a, b)"
EACH_OWN = "each mindspore.ops.add of that chain after the first"
BY_HAND = """
#include <cstdint>
extern "C" int Add(int, void** data, int*, std::int64_t** sizes, const char**, void*, void*) {
  const float *x = static_cast<float*>(data[0]), *y = static_cast<float*>(data[1]);
  for (std::int64_t i = 0; i < sizes[0][0]; ++i) static_cast<float*>(data[2])[i] = x[i] + y[i];
  return 0;
}
"""


def measure(calls: int = 500) -> list[Row]:
    """Minimum over interleaved rounds, tensors of 4 floats; no call returns before it is done."""
    mindspore.runtime.launch_blocking()
    names: dict[str, Any] = _tensors() | {
        "anyop_add": anyop.ops.anyop.add,
        "ms_add": mindspore.ops.add,
        "graph_anyop": mindspore.jit(chain(anyop.add, CHAIN)),
        "graph_ms": mindspore.jit(chain(mindspore.ops.add, CHAIN)),
        "one_anyop": mindspore.jit(chain(anyop.add, 1)),
        "one_ms": mindspore.jit(chain(mindspore.ops.add, 1)),
    }
    graph, one = f"mindspore.jit of {CHAIN} mindspore.ops.add", "mindspore.jit(mindspore.ops.add)"
    rows = [
        (OWN, "ms_add(a, b)", ""),
        (one, "one_ms(a, b).asnumpy()", ""),
        (graph, "graph_ms(a, b).asnumpy()", ""),
        ("anyop.add(a, b, out=c), MindSpore's tensors", "anyop_add(a, b, out=c)", OWN),
        (OURS, "anyop_add(a, b)", OWN),
        ("mindspore.jit(anyop.add)", "one_anyop(a, b).asnumpy()", one),
        (f"mindspore.jit of {CHAIN} anyop.add", "graph_anyop(a, b).asnumpy()", graph),
    ]
    with tempfile.TemporaryDirectory() as folder:
        try:
            names["custom"] = _custom(Path(folder))
            rows.append((CUSTOM, "custom(a, b)", ""))
        except (CannotBuildError, subprocess.CalledProcessError) as error:
            click.echo(f"Without mindspore.ops.Custom: {error}.", err=True)
        made = interleave(rows, names, calls)
    return made + list(_each(made))


def _tensors() -> dict[str, Any]:
    values = {"a": 1, "b": 2, "c": 0}
    return {n: mindspore.Tensor(np.full(4, v, np.float32)) for n, v in values.items()}


def _custom(folder: Path) -> Any:
    (folder / "add.cc").write_text(BY_HAND)
    command = [find_compiler(), "-O3", "-shared", "-fPIC", "-o", "add.so", "add.cc"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)

    def first(x: Any, y: Any) -> Any:
        return x

    return mindspore.ops.Custom(f"{folder / 'add.so'}:Add", first, first, "aot")


def _each(made: list[Row]) -> Iterator[Row]:
    """A node of a graph: of a chain, each call after the first."""
    ns = {row.what: row.ns for row in made}

    def each(add: str) -> float:
        whole, one = ns[f"mindspore.jit of {CHAIN} {add}"], ns[f"mindspore.jit({add})"]
        return round((whole - one) / (CHAIN - 1), 1)

    ours, theirs = each("anyop.add"), each("mindspore.ops.add")
    yield Row(EACH_OWN, theirs, "", None)
    yield Row(EACH, ours, EACH_OWN, round(ours / theirs, 3))


def measure_compiled() -> list[Row]:
    """A call beside the operator that CustomOpBuilder builds; none where it cannot."""
    mindspore.runtime.launch_blocking()
    click.echo("Compiling the operator of CustomOpBuilder, about a minute ...", err=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            # Without build_dir it leaves files in the working directory.
            builder = mindspore.ops.CustomOpBuilder(
                "anyop_by_hand", [str(BUILDER)], backend="CPU", build_dir=folder
            )
            built = builder.load()
        except Exception as error:  # no compiler, no ninja
            click.echo(f"Without CustomOpBuilder: {str(error).splitlines()[0]}", err=True)
            return []
    names = _tensors() | {"built_add": built.add, "anyop_add": anyop.ops.anyop.add}
    beside = f"{OURS}, beside CustomOpBuilder"
    return interleave(
        [(BUILT, "built_add(a, b)", ""), (beside, "anyop_add(a, b)", BUILT)], names, calls=500
    )
