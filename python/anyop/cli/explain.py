# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ast
import re
from typing import Any

import click
import numpy as np

import anyop
from anyop import _anyop
from anyop.cli import load_libraries

SHAPE = re.compile(r"(\w+)\s*=\s*(None|\w+\s*\[[\d,\s]*\](?:\s*\+\s*\w+\s*\[[\d,\s]*\])*)")


@click.command("explain")
@click.argument("op")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help="Tensors: 'x=bf16[2,4096] weight=bf16[4096]'; a list: 'caches=f32[4,8]+f32[4,8]'.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Other arguments.")
@click.option("--policy", default=None, help="As in ANYOP_POLICY: 'rms_norm=cpu_avx2'.")
@click.option("--strict", is_flag=True, help="Refuse copies and other silent slow paths.")
def command(
    op: str, shapes: tuple[str, ...], settings: tuple[str, ...], policy: str | None, strict: bool
) -> None:
    """Show which kernel a call of OP takes, and why each other one is declined."""
    load_libraries()
    if not shapes and not settings:
        click.echo(_anyop.info_text(op))
        return
    arguments = {**tensors(" ".join(shapes)), **dict(setting(s) for s in settings)}
    with anyop.Scope(policy=policy, strict=strict or None):
        explanation = anyop.explain(op, **arguments)
    show(explanation)
    if explanation.error:
        raise SystemExit(1)


def tensors(text: str) -> dict[str, Any]:
    """Arrays by name. Their memory is not touched, so that large ones cost nothing."""
    found, end = {}, 0
    for match in SHAPE.finditer(text):
        if text[end : match.start()].strip(" ,;"):
            break
        found[match[1]] = tensor_or_list(match[2])
        end = match.end()
    rest = text[end:].strip(" ,;")
    if rest:
        raise click.BadParameter(
            f"'{rest}' is not NAME=DTYPE[SIZES], as in x=bf16[2,4096].", param_hint="--shape"
        )
    return found


def tensor_or_list(text: str) -> Any:
    if text == "None":
        return None
    parts = [tensor(part) for part in text.split("+")]
    return parts[0] if len(parts) == 1 else parts


def tensor(text: str) -> np.ndarray[Any, Any]:
    dtype, _, sizes = text.strip().rstrip("]").partition("[")
    shape = tuple(int(s) for s in sizes.split(",") if s.strip())
    return np.empty(shape, _anyop.numpy_dtype(dtype.strip()))


def setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"'{text}' is not NAME=VALUE.", param_hint="--set")
    try:
        return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()  # a word or a dtype


def show(explanation: anyop.Explanation) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(explanation.call, highlight=False, markup=False)
    if explanation.error:
        console.print(explanation.error, style="red", highlight=False, markup=False)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("kernel", "", "why"):
        table.add_column(column)
    for kernel in explanation.kernels:
        taken = "[green]taken[/]" if kernel.taken else "declined"
        table.add_row(kernel.kernel, taken, reason(kernel))
    console.print(table)
    for note in explanation.notes:
        console.print(note, highlight=False, markup=False)
    several = f"up to {explanation.threads} threads" if explanation.threads > 1 else "one thread"
    console.print(
        f"workspace {explanation.workspace_bytes} bytes; about {explanation.estimated_ns:.0f} ns "
        f"of work by .flops and .bytes, on {several}",
        highlight=False,
        markup=False,
    )


def reason(kernel: anyop.KernelChoice) -> str:
    from rich.markup import escape

    text = escape(kernel.reason.removeprefix("declined: "))
    return f"{text} ({kernel.probe_ns:.0f} ns measured)" if kernel.probe_ns >= 0 else text
