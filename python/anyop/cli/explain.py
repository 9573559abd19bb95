# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import re
from pathlib import Path

import click

import anyop
from anyop import _anyop
from anyop.cli import load_libraries


@click.command("explain")
@click.argument("op")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=DTYPE[SIZES]",
    help="Tensors: 'x=bf16[2,4096] weight=bf16[4096]'; a list: 'caches=[f32[4,8], f32[4,8]]'.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Other arguments.")
@click.option(
    "--device", default="cpu", show_default=True, help="Where the tensors lie: 'cuda', 'cuda:1'."
)
@click.option("--policy", default=None, help="As in ANYOP_POLICY: 'rms_norm=cpu_avx2'.")
@click.option("--strict", is_flag=True, help="Refuse copies and other silent slow paths.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw it, too.")
def command(
    op: str,
    shapes: tuple[str, ...],
    settings: tuple[str, ...],
    device: str,
    policy: str | None,
    strict: bool,
    svg: Path | None,
) -> None:
    """Show which kernel a call of OP takes, and why each other one is declined."""
    load_libraries()
    if device.partition(":")[0] == "ascend":
        from anyop import ascend

        ascend.load()
    elif device.partition(":")[0] == "npu":
        load_npu()
    if not shapes and not settings:
        if svg:
            raise click.UsageError("--svg draws a call, which --shape and --set describe.")
        click.echo(_anyop.info_text(op))
        return
    params = anyop.info(op)["params"]
    for given in shapes:
        if "=" not in given:
            name = next((p["name"] for p in params if p["kind"] == "tensor"), "NAME")
            problem = f"'{given}' has no argument's name. Try --shape '{name}={given}'."
            raise click.BadParameter(problem, param_hint="--shape")
    words = {p["name"] for p in params if p["kind"] == "word"}
    text = ", ".join([*(with_commas(s) for s in shapes), *(setting(s, words) for s in settings)])
    with anyop.Scope(policy=policy, strict=strict or None):
        explanation = anyop.Explanation._of(_anyop.explain_text(op, text, device))
    show(explanation)
    if svg:
        from anyop.cli import explain_draw

        svg.write_text(explain_draw.svg(explanation), encoding="utf-8")
    if explanation.error:
        raise SystemExit(1)


def load_npu() -> None:
    """The device is torch_npu's, which loads before the host of torch."""
    try:
        importlib.import_module("torch_npu")
        importlib.import_module("anyop.torch").register_new()
    except ImportError as error:
        raise click.ClickException(
            f"the device 'npu' is torch_npu's, which cannot be imported: {error}. Try the "
            "environment of `anyop npu install`, and ANYOP_NPU=1."
        ) from error


def with_commas(text: str) -> str:
    """Arguments may also be separated by spaces, as a shell's user writes them."""
    return re.sub(r"(?<=[\]\w])\s+(?=\w+\s*=)", ", ", text.strip().rstrip(","))


def setting(text: str, words: set[str]) -> str:
    """An argument as the library reads it: words in quotes, which the shell takes away."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise click.BadParameter(f"'{text}' is not NAME=VALUE.", param_hint="--set")
    return f"{name} = '{value.strip(chr(39))}'" if name in words else f"{name} = {value}"


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
    is_tuned = kernel.taken and kernel.probe_ns >= 0  # of the other one, the reason says it
    return f"{text} ({kernel.probe_ns:.0f} ns measured)" if is_tuned else text
