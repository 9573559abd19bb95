# SPDX-License-Identifier: Apache-2.0
"""`anyop bench ops | compare | plot`: operators beside what else computes the same."""

from __future__ import annotations

import fnmatch
import gc
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import anyop
from anyop import _anyop
from anyop.bench import Case, interpreters, measure, pictures, runs
from anyop.bench.measure import IN_TORCH, OPPONENTS, Row

WIDTH = 160  # a row is one line, also where the terminal wraps it
BUILT_IN = Path(__file__).parents[2] / "bench_cases"


@click.command("ops")
@click.argument("names", nargs=-1)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Of operators with a bench.py each; the built-in library's if not given.",
)
@click.option(
    "--against",
    multiple=True,
    default=lambda: [*OPPONENTS, *interpreters.installed()],
    show_default="all that are installed",
    help="Opponents: numpy, torch, inductor, and those of `anyop bench opponents`; one, or "
    "several with commas.",
)
@click.option(
    "--cache",
    type=click.Choice(["warm", "cold", "both"]),
    default="warm",
    show_default=True,
    help="Whether inputs are in the caches.",
)
@click.option("--threads", type=click.IntRange(1), help="All cores if not given.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Keep the run.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write pictures into this folder.",
)
def ops(
    names: tuple[str, ...], folder: Path | None, against: Sequence[str], cache: str,
    threads: int | None, as_json: bool, save: Path | None, plot: Path | None,
) -> None:  # fmt: skip
    """Time operators at real sizes beside NumPy, torch, Inductor and others, interleaved.

    NAMES may have wildcards: anyop bench ops '*norm*' linear. Exits with 1 if a result differs.
    """
    if plot:
        pictures.require()
    opponents = opponents_of(",".join(against))
    files = list(case_files(folder, names))
    _set_threads(threads or anyop.get_num_threads(), "torch" in opponents)
    # A terminal gets the table, a program the JSON; progress is for whoever waits.
    ceilings = _anyop.ceilings()
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        # One case at a time: those of a model's experts are gigabytes.
        task = progress.add_task("", total=len(files))
        for name, path in files:
            for case in load_cases(name, path):
                progress.update(task, description=f"{name} {case.sizes}")
                for is_cold in {"warm": [False], "cold": [True], "both": [False, True]}[cache]:
                    row = measure.measure(name, case, ceilings, opponents, is_cold)
                    rows += [row] if row else []
                _reset(opponents)
            progress.advance(task)
    run = runs.Run(runs.machine(), rows, dict(ceilings))
    if save:
        run.save(save)
    if as_json:
        click.echo(json.dumps(run.to_json(), indent=1))
    else:
        show(rows, opponents)
        click.echo(f"Tuned kernels: {run.machine['tuned']}")
    if plot:
        write_pictures(run, plot)
    if any(not t.matches for row in rows for t in row.timings.values()):
        sys.exit(1)


@click.command("compare")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--fail",
    type=click.FloatRange(0),
    metavar="PERCENT",
    help="Exit with 1 if an operator is this much slower.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def compare(old: Path, new: Path, fail: float | None, as_json: bool) -> None:  # fmt: skip
    """What changed between two saved runs, slowest first.

    A change counts where our own time and the ratio to an opponent that both have got worse, by
    more than the rounds of a run differ: a busy or another machine looks like no change.
    """
    changes, others = runs.compare(runs.load(old), runs.load(new))
    slower = [c for c in changes if fail is not None and c.factor > 1 + fail / 100]
    if as_json:
        rows = [{**vars(c), "factor": c.factor} for c in changes]
        found = {"changes": rows, "only_in_one": others}
        click.echo(json.dumps(found, indent=1))
    else:
        table = Table("operator", "old us", "new us", "new / old", "beside", "rounds", "counts as")
        for c in changes:
            beside = f"{c.ratio:.2f} {c.beside}" if c.beside else ""
            table.add_row(
                c.key, f"{c.old_us:.2f}", f"{c.new_us:.2f}", f"{c.own:.2f}", beside,
                f"±{c.spread:.0%}", "same" if f"{c.factor:.2f}" == "1.00" else f"{c.factor:.2f}",
            )  # fmt: skip
        console = Console(highlight=False)
        if not console.is_terminal:  # rich would cut at 80 columns
            console = Console(highlight=False, width=120)
        console.print(table)
        for key in others:
            click.echo(f"only in one run: {key}")
    if slower:
        click.secho(f"{len(slower)} operators are more than {fail:g} % slower.", fg="red", err=True)
        sys.exit(1)


@click.command("plot")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--format",
    "kind",
    type=click.Choice(["png", "svg"]),
    default="png",
    show_default=True,
    help="An SVG is light or dark as the page that shows it.",
)
@click.option("--each", is_flag=True, help="Also of each operator alone: of-OPERATOR.")
def plot_command(run: Path, folder: Path, kind: str, each: bool) -> None:
    """Pictures of a saved run: bars beside the opponents, shares of the ceilings, the roofline; of
    a model its tokens per second."""
    write_pictures(runs.load(run), folder, kind, each)


def write_pictures(run: runs.Run, folder: Path, kind: str = "png", each: bool = False) -> None:
    for path in pictures.plot(run, folder, kind, each):
        click.echo(f"wrote {path}", err=True)


def opponents_of(against: str) -> list[str]:
    """Refuses names that are none, and environments that are not there."""
    wanted = [name for name in against.replace(" ", "").split(",") if name]
    known = [*OPPONENTS, *interpreters.OPPONENTS]
    for name in wanted:
        if name not in known:
            hint = _anyop.did_you_mean(name, known)
            raise click.BadParameter(
                f"no opponent is called '{name}'.{hint}", param_hint="--against"
            )
        if name in interpreters.OPPONENTS:
            interpreters.opponent(name)
    if importlib.util.find_spec("torch"):
        return wanted
    if missing := [name for name in wanted if name in IN_TORCH]:
        click.echo(f"torch is not installed: no rows of {' and '.join(missing)}.", err=True)
    return [name for name in wanted if name not in IN_TORCH]


def _set_threads(n: int, has_torch: bool) -> None:
    anyop.set_num_threads(n)
    if importlib.util.find_spec("threadpoolctl"):
        import threadpoolctl  # type: ignore[import-untyped]

        threadpoolctl.threadpool_limits(n)
    elif n != os.cpu_count():
        click.echo("NumPy uses all cores: threadpoolctl is not installed.", err=True)
    if has_torch:
        from anyop.bench import torch_side

        torch_side.set_threads(n)


def _reset(opponents: Sequence[str]) -> None:
    if "inductor" in opponents:
        from anyop.bench import torch_side

        torch_side.reset()
        # What Dynamo has compiled and the arrays that it reads know each other. A case of a
        # model's experts has gigabytes of them.
        gc.collect()


def case_files(folder: Path | None, names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """(operator, file) of those that a name or wildcard selects. Refuses names that none has."""
    found = {p.parent.name: p for p in sorted((folder or BUILT_IN).glob("*/bench.py"))}
    for name in names:
        if not fnmatch.filter(found, name):
            hint = _anyop.did_you_mean(name, list(found))
            raise anyop.InvalidArgument(
                f"bench: no operator here has a bench called '{name}'.{hint} "
                f"There are {', '.join(found) or 'none'}."
            )
    for name, path in found.items():
        if not names or any(fnmatch.fnmatch(name, n) for n in names):
            yield name, path


def load_cases(name: str, path: Path) -> Iterator[Case]:
    spec = importlib.util.spec_from_file_location(f"anyop_bench_{name}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for case in module.cases():
        case.folder = path.parent
        yield case


def show(rows: Sequence[Row], opponents: Sequence[str]) -> None:
    """The table: best times, ratios to the opponents, share of the ceiling."""
    n = anyop.get_num_threads()
    title = f"Operators, {n} thread{'s' * (n > 1)}, us; best of interleaved rounds"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    caches = len({row.cache for row in rows}) > 1
    opponents = [name for name in opponents if any(name in row.timings for row in rows)]
    for column in ("operator", *(("cache",) if caches else ()), "kernel"):
        table.add_column(column, no_wrap=True)
    for column in ("best", "median", "C++", *(f"x {o}" for o in opponents), "of the ceiling"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("match")
    for row in rows:
        ours = row.ours
        table.add_row(
            f"{row.operator} {row.sizes}", *((row.cache,) if caches else ()), row.kernel,
            _us(ours.best_us), _us(ours.median_us), _us(ours.from_cpp_us),
            *(show_ratio(row, name) for name in opponents),
            f"{row.bound_us / ours.best_us:.0%} {row.bound_by}",
            "yes" if all(t.matches for t in row.timings.values()) else "NO",
        )  # fmt: skip
    Console(highlight=False, width=max(Console().width, WIDTH)).print(table)
    for note in sorted({f"{row.operator}: {row.note}" for row in rows if row.note}):
        click.echo(note)


def _us(us: float | None) -> str:
    if us is None:
        return "-"
    return f"{us:.2f}" if us < 100 else f"{us:.0f}"


def show_ratio(row: Row, opponent: str) -> str:
    if opponent not in row.timings:
        return "-"
    ratio = row.ratio(opponent)
    if ratio is None:
        return "void"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"
