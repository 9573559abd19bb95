# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import anyop
from anyop import _anyop
from anyop.cli import load_libraries, profiles
from anyop.cli.graph_rows import Picture, make_picture
from anyop.cli.profiles import NOT_MEASURED, Profile


@click.command("graph")
@click.argument("target", metavar="MODULE:FUNCTION")
@click.argument("types", nargs=-1, metavar="[TYPE]...")
@click.option("--at", "sizes", multiple=True, metavar="NAME=NUMBER", help="A size, or a number.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw it into this file.")
@click.option("--html", type=click.Path(path_type=Path), help="The same as a page.")
@click.option("--narrow", type=click.Path(path_type=Path), help="Draw it as a phone shows it.")
@click.option("--arena", type=click.Path(path_type=Path), help="Draw its memory alone, for --at.")
@click.option("--chart", type=click.Path(path_type=Path), help="Draw the times of a profile.")
@click.option("--passes", is_flag=True, help="What each pass of the compilation changes.")
@click.option("--profile", is_flag=True, help="The time of each node, also in pictures.")
@click.option(
    "--times", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What --profile --json printed, instead of measuring.",
)  # fmt: skip
@click.option("--repeats", default=20, show_default=True, help="Replays of a profile.")
@click.option(
    "--input", "files", multiple=True, metavar="NAME=FILE.npy",
    help="An array for the profile; random numbers and zeros where none is given.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(
    target: str, types: tuple[str, ...], sizes: tuple[str, ...], svg: Path | None,
    html: Path | None, narrow: Path | None, arena: Path | None, chart: Path | None,
    passes: bool, profile: bool, times: Path | None, repeats: int, files: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """Show the graph of MODULE:FUNCTION, called with a TYPE for each argument.

    A TYPE is 'bf16[n, 576]', 'int', 'float' or 'bool': anyop graph my.model:step 'f32[n, 64]' float

    MODULE:NAME may be a graph too, or a captured torch program; and FOLDER, or FOLDER:NAME, graphs
    that were saved.
    """
    load_libraries()
    changes: list[tuple[str, str]] = []
    graph = make(target, types, changes)
    numbers = dict(_number(s) for s in sizes)
    at = {n: int(x) for n, x in numbers.items() if graph.inputs.get(n) not in ("float", "bool")}
    pictures = {"svg": svg, "html": html, "narrow": narrow, "arena": arena, "chart": chart}
    measured = NOT_MEASURED
    if times:
        measured = profiles.read(times, graph, at)
    elif profile:
        given = inputs(graph, at, numbers, dict(_file(f) for f in files))
        measured = profiles.measure(graph, given, repeats)
    if as_json:
        told = facts(graph, at, changes if passes else None, measured)
        click.echo(json.dumps(told, indent=1))
    elif passes:
        show_passes(changes)
    elif not (measured.nodes or any(pictures.values())):
        click.echo(graph.text, nl=False)
    if not as_json:
        show_memory(graph, at)
    if any(pictures.values()) or (measured.nodes and not as_json):
        picture = make_picture(graph, at, measured)
        draw(picture, pictures)
        if measured.nodes and not as_json:
            from anyop.cli.graph_times import show

            show(picture)


def draw(picture: Picture, files: Mapping[str, Path | None]) -> None:
    """files: of each kind of picture, where it goes."""
    from anyop.cli import graph_arena, graph_page

    names = " ".join(f"--at {name}=512" for name in picture.symbols)
    if files["arena"] and not picture.memory:
        raise click.UsageError(f"--arena draws memory, which needs sizes. Try {names}.")
    if files["chart"] and not picture.ns:
        raise click.UsageError("--chart draws times. Try --profile, or --times FILE.")
    if not picture.memory:
        click.echo(f"The picture has no memory, which needs sizes. Try {names}.", err=True)
    made = {"svg": graph_page.svg, "html": graph_page.html, "narrow": graph_page.narrow,
            "arena": graph_arena.arena, "chart": graph_arena.times}  # fmt: skip
    for kind, path in files.items():
        if path:
            path.write_text(made[kind](picture), encoding="utf-8")


def make(target: str, types: Sequence[str], changes: list[tuple[str, str]]) -> anyop.Graph:
    """changes: gets the name and diff of each pass."""
    last = _anyop.listen_to_passes(lambda name, diff: changes.append((name, diff)))
    try:
        folder, _, name = target.partition(":")
        if Path(folder).is_dir():
            return anyop.load_graph(folder, name or None)
        found = _find(target)
        if isinstance(found, _anyop.Captured) and isinstance(found.graph, anyop.Graph):
            return found.graph
        return found if isinstance(found, anyop.Graph) else anyop.graph(found, *types)
    finally:
        _anyop.listen_to_passes(last)


def _find(path: str) -> Any:
    """What 'module:name.name' stands for; modules of the current folder are found too."""
    module, colon, names = path.partition(":")
    if not colon or not names:
        raise click.BadParameter(
            f"'{path}' is not MODULE:FUNCTION, and no folder of saved graphs. Try my_model:step "
            "for the function step of my_model.py in this folder."
        )
    sys.path.insert(0, "")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no output of ours
            found: Any = importlib.import_module(module)
    except (ImportError, AttributeError, TypeError) as error:
        why = str(error).rstrip(".?!")
        raise click.BadParameter(
            f"{path}: {why}. Try the name of a module of this folder ({Path.cwd()}), without .py, "
            "or of an installed package."
        ) from error
    finally:
        sys.path.remove("")
    for name in names.split("."):
        if not hasattr(found, name):
            known = [n for n in dir(found) if callable(getattr(found, n, None)) and n[0] != "_"]
            hint = _anyop.did_you_mean(name, known) or " Try the name of a function or graph of it."
            raise click.BadParameter(f"{path}: {module} has no '{name}'.{hint}")
        found = getattr(found, name)
    return found


def _number(text: str) -> tuple[str, float]:
    name, equals, number = (part.strip() for part in text.partition("="))
    try:
        if not equals or not name:
            raise ValueError
        return name, int(number) if number.isdecimal() else float(number)
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is not NAME=NUMBER.", param_hint="--at") from error


def _file(text: str) -> tuple[str, Any]:
    import numpy as np

    name, equals, path = text.partition("=")
    try:
        if not equals:
            raise ValueError(f"'{text}' is not NAME=FILE.npy")
        return name, np.load(path)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{error}.", param_hint="--input") from error


def inputs(
    graph: anyop.Graph, sizes: dict[str, int], numbers: dict[str, float], arrays: dict[str, Any]
) -> list[Any]:
    """Something for each input: normal numbers, zeros where they are whole, 1.0 for a float."""
    import numpy as np

    for name in arrays:
        if name not in graph.inputs:
            raise click.BadParameter(
                f"{graph.name} has no input '{name}'."
                f"{_anyop.did_you_mean(name, list(graph.inputs))}",
                param_hint="--input",
            )
    graph.memory(**sizes)  # names the sizes that are missing
    random = np.random.default_rng(0)
    found: list[Any] = []
    for value in json.loads(graph.describe(**sizes))["values"]:
        name, kind = value["name"], value["kind"]
        if kind == "number":
            number = numbers.get(name, 1.0)
            found.append(number if value["type"] == "float" else int(number))
        elif kind == "input" and name in arrays:
            found.append(arrays[name])
        elif kind == "input":
            dtype, _, shape = value["at"].rstrip("]").partition("[")
            size = [int(n) for n in shape.split(",") if n.strip()]
            is_float = dtype[0] in "fb" and dtype != "bool"
            array = random.standard_normal(size, np.float32) if is_float else np.zeros(size)
            found.append(array.astype(_anyop.numpy_dtype(dtype)))
    return found


def facts(
    graph: anyop.Graph, sizes: dict[str, int], changes: Any, measured: Profile
) -> dict[str, Any]:
    """What --json prints."""
    told: dict[str, Any] = {"name": graph.name, "text": graph.text, "sizes": sizes}
    told.update(json.loads(graph.describe(**sizes)))
    told["state_bytes"] = graph.stats().state_bytes
    if changes is not None:
        told["passes"] = [{"pass": name, "diff": diff} for name, diff in changes]
    if measured.nodes:
        told.update(machine=measured.machine, call_ns=measured.call_ns)
    for node, time in zip(told["nodes"], measured.nodes, strict=False):
        node.update(time)
    return told


def show_passes(changes: Sequence[tuple[str, str]]) -> None:
    for name, diff in changes:
        click.secho(f"{name}: {'' if diff else 'nothing changed'}", bold=True)
        for line in diff.splitlines():
            colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[0])
            click.secho(line, fg=colour)


def show_memory(graph: anyop.Graph, sizes: dict[str, int]) -> None:
    if not sizes and graph.symbols:
        return
    from anyop.cli.graph_draw import shown_bytes

    memory = graph.memory(**sizes)
    click.echo(
        f"memory of a replay: {shown_bytes(memory.peak_bytes)}, lower bound "
        f"{shown_bytes(memory.bound_bytes)}, without sharing {shown_bytes(memory.unshared_bytes)}; "
        f"state {shown_bytes(graph.stats().state_bytes)}"
    )
