# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

import anyop
from anyop.cli import load_libraries


@click.command("graph")
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@click.option(
    "--at", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size, for the memory report."
)
@click.option(
    "--svg", type=click.Path(path_type=Path), help="Draw the memory of a replay into this file."
)
def command(
    function: str, types: tuple[str, ...], sizes: tuple[str, ...], svg: Path | None
) -> None:
    """Show the graph of MODULE:FUNCTION, called with a TYPE for each argument.

    A TYPE is 'bf16[n, 576]', 'int', 'float' or 'bool': anyop graph my.model:step 'f32[n, 64]' float
    """
    load_libraries()
    graph = anyop.graph(_find(function), *types)
    click.echo(graph.text, nl=False)
    at = dict(_size(s) for s in sizes)
    if svg is None and not at and graph.symbols:
        return
    memory = graph.memory(**at)
    click.echo(
        f"memory of a replay: {_bytes(memory.peak_bytes)}, lower bound "
        f"{_bytes(memory.bound_bytes)}, without sharing {_bytes(memory.unshared_bytes)}; state "
        f"{_bytes(graph.stats().state_bytes)}"
    )
    if svg is not None:
        draw(graph, at, svg)


def _find(path: str) -> Any:
    """What 'module:name.name' stands for; modules of the current folder are found too."""
    module, colon, names = path.partition(":")
    if not colon or not names:
        raise click.BadParameter(f"'{path}' is not MODULE:FUNCTION.")
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"{path}: {error}.") from error
    finally:
        sys.path.remove("")
    return found


def _size(text: str) -> tuple[str, int]:
    name, equals, number = (part.strip() for part in text.partition("="))
    if not equals or not number.isdecimal():
        raise click.BadParameter(f"'{text}' is not NAME=NUMBER.", param_hint="--at")
    return name, int(number)


def _bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


def draw(graph: anyop.Graph, sizes: dict[str, int], path: Path) -> None:
    """Offset by time: a box for each value and workspace, from the node that writes it on."""
    try:
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise anyop.NotAvailable(
            f"anyop graph --svg: {error}. Try: pip install matplotlib."
        ) from error
    memory = graph.memory(**sizes)
    figure = Figure(figsize=(12, 5), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    for k, (offset, size, first, last) in enumerate(graph.buffers(**sizes)):
        axes.broken_barh(
            [(first, last - first + 1)], (offset / 1024, size / 1024),
            facecolor=f"C{k % 10}", edgecolor="black", linewidth=0.3, alpha=0.8,
        )  # fmt: skip
    bound = memory.bound_bytes / 1024
    axes.axhline(bound, color="black", linestyle="--", linewidth=0.8, label="lower bound")
    at = ", ".join(f"{name} = {number}" for name, number in sizes.items())
    axes.set(
        xlabel="node", ylabel="KiB", ylim=(0, max(memory.peak_bytes / 1024 * 1.05, 1)),
        title=f"{graph.name}{' at ' + at if at else ''}: {_bytes(memory.peak_bytes)}",
    )  # fmt: skip
    axes.legend(loc="upper right")
    figure.savefig(path, format="svg")
