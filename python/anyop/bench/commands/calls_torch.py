# SPDX-License-Identifier: Apache-2.0
"""What a call with torch tensors costs, beside the ways in which operators are added to torch."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import torch

import anyop
from anyop.bench.commands.interleave import Row, interleave

OPPONENTS = Path(__file__).with_name("by_hand.cc")


def opponents() -> str:
    """Builds and loads the hand-written C++ operator. Returns why it cannot, or ""."""
    from torch.utils import cpp_extension

    click.echo("Compiling the hand-written C++ operator, about 30 s ...", err=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            cpp_extension.load(
                "anyop_opponents",
                [str(OPPONENTS)],
                extra_cflags=["-O3", "-std=c++20"],
                build_directory=folder,
                is_python_module=False,
            )
    except Exception as error:  # no compiler, no ninja, headers that do not fit
        return str(error).splitlines()[0]
    return ""


def python_operators() -> dict[str, Any]:
    """The same operator by torch.library, as Python packages register theirs."""

    def add_out(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> None:
        torch.add(x, y, out=z)

    library = torch.library.Library("anyop_python", "FRAGMENT")  # noqa: TOR901
    library.define("add_out(Tensor x, Tensor y, Tensor(a!) z) -> ()")
    library.impl("add_out", add_out, "CPU")
    library.define("nothing_out(Tensor x, Tensor y, Tensor(a!) z) -> ()")
    library.impl("nothing_out", lambda x, y, z: None, "CPU")

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y)

    anyop.torch.direct_register_custom_op("add", add, [], target_lib=library)
    custom = torch.library.custom_op("anyop_python::custom_add", add, mutates_args=())
    return {"library": library, "custom_op": custom, "ops": torch.ops.anyop_python}


def measure() -> list[Row]:
    """Minimum over interleaved rounds, one thread, tensors of 4 floats."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _rows(opponents())
    finally:
        torch.set_num_threads(threads)


def _rows(no_opponent: str) -> list[Row]:
    a, b = torch.ones(4), torch.full((4,), 2.0)
    names: dict[str, Any] = {
        "anyop_add": anyop.ops.anyop.add,
        "op": torch.ops.anyop.add.default,
        "torch_add": torch.add,
        "a": a,
        "b": b,
        "c": torch.empty(4),
        "g": torch.ones(4, requires_grad=True),
    }
    python = python_operators()
    names["nothing_out"] = python["ops"].nothing_out.default
    names["add_out"] = python["ops"].add_out.default
    names["registered"] = python["ops"].add.default
    names["custom"] = python["custom_op"]
    # (what is shown, the statement, the row that it is compared with)
    direct = "anyop.add(a, b, out=c)"
    rows = [
        ("torch.add(a, b, out=c)", "torch_add(a, b, out=c)", ""),
        ("torch.add(a, b)", "torch_add(a, b)", ""),
        ("define/impl, out-writing, kernel does nothing", "nothing_out(a, b, c)", ""),
        ("define/impl, out-writing, torch.add", "add_out(a, b, c)", ""),
        ("direct_register_custom_op (vLLM's way)", "registered(a, b)", ""),
        ("torch.library.custom_op", "custom(a, b)", ""),
        (direct, "anyop_add(a, b, out=c)", "define/impl, out-writing, torch.add"),
        ("torch.ops.anyop.add(a, b)", "op(a, b)", ""),
        ("anyop.add(a, b)", "anyop_add(a, b)", "torch.ops.anyop.add(a, b)"),
        ("anyop.add(g, b), g needs a gradient", "anyop_add(g, b)", ""),
        ("torch.ops.anyop.add(g, b)", "op(g, b)", ""),
    ]
    if no_opponent:
        click.echo(f"Without the hand-written operator: {no_opponent}", err=True)
    else:
        names["typed"] = torch.ops.anyop_opponents.sum.default
        names["differentiable"] = torch.ops.anyop_opponents.differentiable_sum.default
        typed, differentiable = "C++ operator by hand", "autograd::Function by hand, (g, b)"
        rows.append((typed, "typed(a, b)", ""))
        rows.append((differentiable, "differentiable(g, b)", ""))
        others = {"torch.ops.anyop.add(a, b)": typed, "torch.ops.anyop.add(g, b)": differentiable}
        rows = [(what, code, others.get(what, beside)) for what, code, beside in rows]
    return interleave(rows, names)


def measure_compiled() -> list[Row]:
    """The same call inside torch.compile (Inductor): mostly guards and the wrapper."""
    click.echo("Compiling with Inductor, up to a minute ...", err=True)

    def ours(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = anyop.ops.anyop.add(x, y)
        return z

    def theirs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y)

    names: dict[str, Any] = {
        "ours": torch.compile(ours, fullgraph=True),
        "theirs": torch.compile(theirs, fullgraph=True),
        "a": torch.ones(4),
        "b": torch.full((4,), 2.0),
    }
    for name in ("ours", "theirs"):
        names[name](names["a"], names["b"])
    rows = [
        ("torch.compile(torch.add)", "theirs(a, b)", ""),
        ("torch.compile(anyop.add)", "ours(a, b)", "torch.compile(torch.add)"),
    ]
    return interleave(rows, names, calls=500)
