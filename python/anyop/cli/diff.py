# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from anyop.cli.builds import Build, Difference

WHAT = {
    "major": "breaks callers",
    "minor": "adds, or changes results",
    "patch": "changes nothing for callers",
}


@click.command("diff")
@click.argument("old", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--calls", type=click.Path(path_type=Path, exists=True), metavar="DIR",
              help="Compare these calls (of anyop run --record), not generated ones.")  # fmt: skip
@click.option("--speed/--no-speed", "times", default=True, help="Time the calls in both.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(old: Path, new: Path, calls: Path | None, times: bool, as_json: bool) -> None:
    """Compare two builds of a package, and say what its next version is.

    OLD and NEW are wheels (anyop wheel) or libraries (.so). Signatures and kernels are compared,
    then calls are made in both: those that NEW refuses, those whose results differ, those that take
    longer. Generated calls are small; give recorded ones to learn about speed. Status 1 if NEW's
    version is too low for what has changed.
    """
    from anyop.cli import builds

    with tempfile.TemporaryDirectory(prefix="anyop-diff-") as name:
        folder = Path(name)
        before = builds.open_build(old, folder / "old")
        after = builds.open_build(new, folder / "new")
        differences, rows = compared(before, after, folder, calls, times)
    needs = builds.needed(differences)
    least = builds.next_version(before.version, needs) if differences else before.version
    is_enough = builds.is_enough(after.version, least)
    answer = {
        "old": before.version, "new": after.version, "needs": needs if differences else "",
        "least_version": least, "is_enough": is_enough,
        "differences": [vars(d) for d in differences], "speed": rows,
    }  # fmt: skip
    click.echo(json.dumps(answer, indent=1)) if as_json else show(answer)
    sys.exit(0 if is_enough else 1)


def compared(
    old: Build, new: Build, folder: Path, calls: Path | None, times: bool
) -> tuple[list[Difference], list[dict[str, Any]]]:
    """All differences, and times of calls."""
    from rich.console import Console

    from anyop.cli import builds, capsules

    (folder / "calls").mkdir()
    with Console(stderr=True).status("Comparing signatures ...") as status:
        differences = builds.contracts(old.ask("describe", folder), new.ask("describe", folder))
        status.update("Making calls ...")
        if calls:
            for path in capsules.find([calls]):
                if path.is_file():  # a graph's calls are recorded beside it
                    shutil.copy(path, folder / "calls")
        else:
            limits = {"ANYOP_RECORD_CALLS": "100000", "ANYOP_RECORD_MIB": "4096"}
            old.ask("generate", folder, ANYOP_RECORD=str(folder / "calls"), **limits)
        if not any((folder / "calls").iterdir()):
            return differences, []
        rounds: list[list[Any]] = [[], []]
        for k in range(builds.SPEED_ROUNDS if times else 1):
            status.update(f"Comparing calls, round {k + 1} of {builds.SPEED_ROUNDS} ...")
            rounds[0].append(old.ask("replay", folder))
            rounds[1].append(new.ask("replay", folder))
    differences += builds.results(rounds[0][0], rounds[1][0])
    return differences, builds.speed(*rounds) if times else []


def show(answer: dict[str, Any]) -> None:
    from anyop.cli import builds
    from anyop.cli.graph_draw import shown_ns

    for needs, what in WHAT.items():
        rows = [d for d in answer["differences"] if d["needs"] == needs]
        if rows:
            click.secho(f"{needs}: {what}", bold=True)
        for row in rows:
            click.echo(f"  {row['op']}: {row['text']}")
    slower = [r for r in answer["speed"] if r["is_clear"] and r["ratio"] > builds.SLOWER]
    faster = [r for r in answer["speed"] if r["is_clear"] and r["ratio"] < 1 / builds.SLOWER]
    for title, rows in (("slower in every round", slower), ("faster in every round", faster)):
        if rows:
            click.secho(f"{title}: {len(rows)} of {len(answer['speed'])} calls", bold=True)
        for row in rows[:10]:
            old_ns, new_ns = shown_ns(row["old_ns"]), shown_ns(row["new_ns"])
            click.echo(f"  {row['ratio']:.2f} x, {old_ns} -> {new_ns}: {row['call']}")
    if not answer["differences"]:
        click.echo(f"No difference but speed: {answer['old']} may stay the version.")
        return
    enough = "is enough" if answer["is_enough"] else "is too low"
    click.secho(
        f"{answer['old']} -> {answer['least_version']} at least ({answer['needs']}); "
        f"{answer['new']} {enough}.",
        fg="green" if answer["is_enough"] else "red",
    )
