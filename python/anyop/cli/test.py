# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import click

from anyop import _anyop, testing
from anyop.cli.build import SANITIZE
from anyop.cli.project import Project, build, build_sanitized, find_project


@click.command("test")
@click.argument("words", nargs=-1)
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), default=".",
              help="The package (default: the one that the current folder is in).")  # fmt: skip
@click.option("--kernel", default=None, help="Only kernels of this name, or that begin so.")
@click.option("--call", default=None, metavar="N", help="One call alone; a failure prints its N.")
@click.option("--seed", default=None, metavar="N", help="Other calls.")
@click.option("--exhaustive", is_flag=True, help="Many more calls, and large ones.")
@SANITIZE
def command(
    words: tuple[str, ...],
    folder: Path,
    kernel: str | None,
    call: str | None,
    seed: str | None,
    exhaustive: bool,
    sanitize: str | None,
) -> None:
    """Test every kernel of a package against its reference.

    Builds first what has changed. The calls are made from the signatures: sizes, dtypes, strides,
    guard zones, wrong calls, threads, gradients by central differences. WORDS choose operators and
    tests by parts of their names.

    `--sanitize thread` runs every kernel on 4 threads instead, in a build for the compiler's
    thread sanitizer, and names the source lines of two parts that use the same memory.
    """
    target = built_target(find_project(folder), sanitize)
    if not target:
        sys.exit(1)
    given = {"kernel": kernel, "call": call, "seed": seed}
    flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
    flags += ["--exhaustive"] if exhaustive else []
    flags += [f"--match={word}" for word in words]
    sys.exit(show(target, flags, words, kernel))


def built_target(project: Project, sanitizer: str | None) -> testing.Target | None:
    """What is tested, built now; None if that did not work."""
    if not sanitizer:
        return testing.target_of(project.library) if build(project) else None
    library = build_sanitized(project, sanitizer)
    return replace(testing.target_of(library), is_sanitized=True) if library else None


def show(
    target: testing.Target, flags: list[str], words: tuple[str, ...] = (), kernel: str | None = None
) -> int:
    """A line for each test while they run, and what is wrong where one fails. Returns the exit
    status. words and kernel: what `flags` asks for; where nothing has such a name, the command
    fails and says so.
    """
    said: list[str] = []
    lacking: list[str] = []  # without a reference
    summary: list[str] = []
    counts = {"ok": 0, "FAILED": 0}
    is_over, has_lost, status = False, False, 0
    for kind, text in testing.run_all(target, *flags):
        if kind == "run":
            said = []
        elif kind == "lacks" and text not in lacking and _is_asked_for(text, words):
            lacking.append(text)
            click.secho(f"{text} has no reference: nothing is compared", fg="yellow")
        elif kind in ("ok", "FAILED", "lost"):
            result = "ok" if kind == "ok" else "FAILED"
            counts[result] += 1
            _tell(result, text, said)
            if kind == "lost":
                has_lost = True
                operator = text.partition(".")[0]
                click.echo(f"  the tests of {operator} end with it; those of others go on")
        elif kind == "said" and not is_over:
            said.append(text)
        elif kind == "said" and not has_lost:  # else it is of a part of the tests
            summary.append(text)
            click.echo(text)
        elif kind == "end":
            is_over = True
        elif kind == "status":
            status = int(text)
    if not sum(counts.values()):
        if said:
            click.echo("\n".join(said))
        click.secho(_no_test_ran(target, words, lacking), fg="red", err=True)
        return 1
    if not has_lost and (why := _no_such_kernel(summary, kernel)):
        click.secho(why, fg="red", err=True)
        return 1
    click.echo(f"{counts['ok']} passed, {counts['FAILED']} failed")
    return status if status >= 0 else 1  # a signal has ended the tests


def _tell(kind: str, test: str, said: list[str]) -> None:
    click.secho(f"{kind:<6} {test}", fg="red" if kind == "FAILED" else None)
    if kind == "FAILED":
        click.echo("\n".join(said))


def _is_asked_for(operator: str, words: tuple[str, ...]) -> bool:
    return not words or any(word.partition(".")[0] in operator for word in words)


def _no_test_ran(target: testing.Target, words: tuple[str, ...], lacking: list[str]) -> str:
    if lacking:
        return (
            f"No test ran: {' and '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} no "
            f"reference, which kernels are compared with. Try writing a reference.cc beside "
            f"{lacking[0]}.cc."
        )
    operators = list(dict.fromkeys(case.operator for case in testing.cases_of(target)))
    if not words:
        return "No test ran."
    known = f" Try one of {', '.join(operators)}." if operators else ""
    hint = _anyop.did_you_mean(words[0], operators) or known
    return f"No test ran: no test's name contains {' or '.join(words)}.{hint}"


def _no_such_kernel(summary: list[str], kernel: str | None) -> str:
    """A name that no kernel has would leave all of them out, and every test would pass."""
    lines = (re.match(r"  \S+ (\S+)(?: on \S+)?: ", line) for line in summary)
    names = sorted({match[1] for match in lines if match})
    if kernel is None or any(n == kernel or n.startswith(f"{kernel}_") for n in names):
        return ""
    return (
        f"No kernel ran: no kernel's name is {kernel} or begins with it. "
        f"Try one of {', '.join(names)}."
    )
