# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from anyop import testing
from anyop.cli.build import build_and_describe
from anyop.cli.project import find_project

_TEST = re.compile(r"\[\s+(?P<what>RUN|OK|FAILED)\s+\] (?P<name>[\w.]+)(?: \((?P<ms>\d+) ms\))?$")


@click.command("test")
@click.argument("words", nargs=-1)
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=".",
              help="The package (default: the one that the current folder is in).")  # fmt: skip
@click.option("--kernel", default=None, help="Only kernels of this name, or that begin so.")
@click.option("--call", default=None, metavar="N", help="One call alone; a failure prints its N.")
@click.option("--seed", default=None, metavar="N", help="Other calls.")
@click.option("--exhaustive", is_flag=True, help="Many more calls, and large ones.")
def command(
    words: tuple[str, ...],
    folder: Path,
    kernel: str | None,
    call: str | None,
    seed: str | None,
    exhaustive: bool,
) -> None:
    """Test every kernel of a package against its reference.

    Builds first what has changed. The calls are made from the signatures: sizes, dtypes, strides,
    guard zones, wrong calls, threads, gradients by central differences. WORDS choose operators and
    tests by parts of their names.
    """
    project = find_project(folder)
    if not build_and_describe(project, debug=False):
        sys.exit(1)
    given = {"kernel": kernel, "call": call, "seed": seed}
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    flags += ["--exhaustive"] if exhaustive else []
    if words:
        flags.append(f"--gtest_filter={':'.join(f'*{word}*' for word in words)}")
    sys.exit(show(testing.target_of(project.library), flags))


def show(target: testing.Target, flags: list[str]) -> int:
    """A line for each test, and what is wrong where one fails. Returns the exit status."""
    said: list[str] = []
    counts = {"OK": 0, "FAILED": 0}
    *lines, status = testing.run_all(target, *flags)
    summary = False
    for line in lines:
        found = _TEST.match(line)
        summary = summary or line.startswith("[==========] ") and "ran." in line
        if found and not summary:
            if found["what"] == "RUN":
                said = []
                continue
            is_ok = found["what"] == "OK"
            counts[found["what"]] += 1
            click.secho(
                f"{'ok    ' if is_ok else 'FAILED'} {found['name']}", fg=None if is_ok else "red"
            )
            if not is_ok:
                click.echo(testing.failure("\n".join(said)))
        elif summary and not line.startswith("[") and line.strip():
            if not re.match(r"\s*\d+ FAILED TEST", line):
                click.echo(line)
        elif not line.startswith("["):
            said.append(line)
    if not sum(counts.values()):
        click.echo("\n".join(said))
        click.secho("No test ran.", fg="red", err=True)
        return 1
    click.echo(f"{counts['OK']} passed, {counts['FAILED']} failed")
    return int(status)
