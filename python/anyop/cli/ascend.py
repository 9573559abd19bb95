# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from anyop.ascend import Case, File, Finding, Run, Settings, Source, lint, merged, read, toolkit
from anyop.ascend.build import find_kernels
from anyop.ascend.case import (
    MOST_KEY,
    attributes_of,
    changed,
    check_kernels,
    check_sizes,
    sizes_of,
)
from anyop.ascend.refused import RefusedError
from anyop.ascend.tiling import Tiling

WIDEST = 84  # columns of sentences
_COLORS = {"error": "red", "strict": "yellow", "note": "cyan"}


@click.group("ascend")
def command() -> None:
    """Compile, check and run AscendC kernels on this machine, which needs no NPU."""


def kernel_options(function: Callable[..., None]) -> Callable[..., None]:
    """What says which kernel is called, and how."""
    file = click.Path(path_type=Path, exists=True, dir_okay=False)
    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    for option in reversed(
        (
            click.argument("path", metavar="FILE", type=file),
            click.option("--kernel", "kernels", multiple=True, help="Its name; else all of FILE."),
            click.option("--blocks", default="", help="A number, or an expression of sizes."),
            click.option(
                "--arg",
                "arguments",
                multiple=True,
                metavar="[NAME=]VALUE",
                help="'x=f16[n, 64]', 'y=out f32[n]', 'n=n * 64', 'tiling=struct u32 8, f32 1'.",
            ),
            click.option(
                "--size", "sizes", multiple=True, metavar="NAME=N", help="A number, or 1..300."
            ),
            click.option(
                "--case", "case_file", type=file, help="TOML; else FILE.toml if it is there."
            ),
            click.option("--soc", default="", help="Its name; ascend910b without one."),
            click.option(
                "--tiling-key",
                default=0,
                type=click.IntRange(0, MOST_KEY),
                metavar="N",
                help="Of TILING_KEY_IS.",
            ),
            click.option(
                "--tiling",
                type=file,
                help="An op_host file, whose tiling function says blocks, key, data and workspace.",
            ),
            click.option("--tiling-op", default="", help="Its operator; the kernel's name else."),
            click.option("--attr", "attributes", multiple=True, metavar="NAME=VALUE"),
            click.option("--include", "includes", multiple=True, type=file, help="Included first."),
            click.option("-I", "--include-folder", "folders", multiple=True, type=folder),
            click.option("-D", "--define", "defines", multiple=True, metavar="NAME[=VALUE]"),
            click.option(
                "--save",
                type=click.Path(path_type=Path, file_okay=False),
                help="Folder for .npy files.",
            ),
            click.option("--json", "as_json", is_flag=True),
        )
    ):
        function = option(function)
    return function


def runs_of(path: Path, given: dict[str, Any]) -> list[Run]:
    """A run for each kernel, of what the file beside it and the command line say."""
    source = Source(path)
    beside = given["case_file"] or path.with_suffix(".toml")
    file = File()
    if beside.exists():
        file = read(beside)
    settings = Settings(
        file.settings.includes + given["includes"],
        file.settings.folders + given["folders"],
        file.settings.defines + given["defines"],
    )
    find_kernels(source, settings, {*file.cases, *given["kernels"]})
    check_kernels(beside, file, source)
    arguments = tuple(
        (name.strip(), value) if separator else ("", name)
        for name, separator, value in (text.partition("=") for text in given["arguments"])
    )
    sizes = sizes_of(dict(named(text) for text in given["sizes"]))
    kernels = source.kernels(given["kernels"])
    runs = []
    for kernel in kernels:
        before = file.cases.get(kernel, Case())
        case = changed(
            before,
            blocks=given["blocks"],
            sizes=sizes,
            arguments=arguments,
            soc=given["soc"],
            tiling_key=given["tiling_key"],
        )
        case = tiled(case, kernel, given)
        check_sizes(case, sizes.keys() - before.sizes.keys())
        save = given["save"]
        if save and len(kernels) > 1:
            save = save / kernel
        runs.append(Run(source, kernel, case, settings, save=save))
    return runs


def tiled(case: Case, kernel: str, given: dict[str, Any]) -> Case:
    """With what the command line says of the tiling function."""
    attributes = attributes_of(dict(named(a, "--attr eps=1e-6") for a in given["attributes"]))
    if given["tiling"]:
        return replace(
            case, tiling=Tiling(given["tiling"], given["tiling_op"] or kernel, attributes)
        )
    if not attributes and not given["tiling_op"]:
        return case
    if case.tiling is None:
        raise click.UsageError(
            "--attr and --tiling-op are of a tiling function. Try --tiling FILE."
        )
    told = {**case.tiling.attributes, **attributes}
    return replace(
        case, tiling=Tiling(case.tiling.file, given["tiling_op"] or case.tiling.op, told)
    )


def named(text: str, example: str = "--size n=64") -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise click.BadParameter(
            f"'{text}' has no name. Try {example}.", param_hint=example.partition(" ")[0]
        )
    return name.strip(), value


@command.command("check")
@kernel_options
@click.option("--strict", is_flag=True, help="Also what the vendor's compiler repairs by itself.")
@click.option(
    "--fuzz",
    default=0,
    type=click.IntRange(0),
    metavar="N",
    help="N more calls: other sizes, data, orders.",
)
@click.option("--seed", default=0, type=click.IntRange(0), help="Of data and of the blocks' order.")
@click.option(
    "--max-steps",
    default=0,
    type=click.IntRange(0),
    help="Instructions of a block, after which it is ended.",
)
@click.option(
    "--timeout",
    "timeout_s",
    default=60.0,
    type=click.FloatRange(0.01),
    show_default=True,
    help="Seconds of a call.",
)
def check_command(
    path: Path,
    strict: bool,
    fuzz: int,
    seed: int,
    max_steps: int,
    timeout_s: float,
    as_json: bool,
    **given: Any,
) -> None:
    """Run the kernels of FILE with checks, and say what is wrong in them.

    Races between pipes and between blocks, accesses out of bounds, data that was never written,
    queues and flags that do not fit, deadlocks. Exit status 1 if there is an error.
    """
    if not timeout_s < 1e6:  # nan, too
        raise click.BadParameter(f"{timeout_s} is no number of seconds.", param_hint="--timeout")
    findings: list[Finding] = []
    for run in runs_of(path, given):
        run = Run(**{**vars(run), "strict": strict, "max_steps": max_steps, "timeout_s": timeout_s})
        tries = run.tries(fuzz, seed)
        found: dict[tuple[Any, ...], Finding] = {}
        try:
            for some in watched(run, run.check(tries), len(tries)):
                merged(found, some)
        except RefusedError as refused:
            if as_json:  # programs read this, too
                click.echo(json.dumps([asdict(f) for f in of_compiler(run, refused)], indent=1))
            raise
        kept = [f for f in found.values() if strict or f.level != "strict"]
        findings += kept
        if not as_json:
            show(run, kept, len(tries))
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
    sys.exit(any(finding.level != "note" for finding in findings))


def of_compiler(run: Run, refused: RefusedError) -> list[Finding]:
    file = str(run.source.path)
    return [Finding("compile", "error", e.text, file=file, line=e.line) for e in refused.errors]


def watched(run: Run, tries: Iterator[list[Finding]], number: int) -> Iterator[list[Finding]]:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(run.kernel, total=number)
        for findings in tries:
            yield findings
            progress.advance(task)


def show(run: Run, findings: list[Finding], tries: int) -> None:
    """Errors first, each with its line of the source."""
    for finding in sorted(findings, key=lambda f: (list(_COLORS).index(f.level), f.line)):
        show_one(run, finding, tries)
    errors = sum(f.level != "note" for f in findings)
    said = [several(tries, "call"), several(errors, "error")]
    if len(findings) > errors:
        said.append(several(len(findings) - errors, "note"))
    click.secho(f"{run.kernel}: {', '.join(said)}", fg="red" if errors else "green")


def show_one(run: Run, finding: Finding, tries: int) -> None:
    head = f"{finding.level}: {finding.kind}"
    where = place(finding.file, finding.line)
    text = finding.text if finding.text.startswith(where[:-2]) else where + finding.text
    body = wrapped(f"{head}: {text}")
    click.echo(click.style(head, fg=_COLORS[finding.level], bold=True) + body[len(head) :])
    quote(run, finding.file, finding.line)
    if (finding.there_file, finding.there_line) not in (("", 0), (finding.file, finding.line)):
        quote(run, finding.there_file, finding.there_line)
    if finding.insert:
        click.echo(wrapped(f"insert {finding.insert}", indent="  "))
    if tries > 1 and finding.seed:
        click.echo(f"  found with {finding.sizes or 'these sizes'} --seed {finding.seed}")


def wrapped(text: str, indent: str = "") -> str:
    """Words stay whole: SetFlag<...>(id) is to be copied."""
    width = min(shutil.get_terminal_size((WIDEST, 0)).columns, WIDEST)
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent="  ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def several(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def place(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}: " if line else ""


def quote(run: Run, file: str, line: int) -> None:
    lines = run.source.text.splitlines()
    if Path(file).name == run.source.path.name and 0 < line <= len(lines):
        click.echo(f"  {line:5} | {lines[line - 1].rstrip()}")


@command.command("run")
@kernel_options
def run_command(path: Path, as_json: bool, **given: Any) -> None:
    """Run the kernels of FILE without checks: results, and the time of a launch."""
    rows = []
    for run in runs_of(path, given):
        answer = run.timed()
        rows.append({"kernel": run.kernel, **answer})
        if as_json:
            continue
        click.echo(f"{run.kernel}: {answer['us']:.1f} us a launch")
        for result in answer["results"]:
            first = ", ".join(f"{x:.6g}" for x in result["first"])
            click.echo(f"  {result['name']}: {result['type']} = {first}, ...")
    if as_json:
        click.echo(json.dumps(rows, indent=1))


@command.command("home")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--checked", is_flag=True, help="Kernels check themselves; errors are exceptions.")
def home_command(folder: Path, checked: bool) -> None:
    """Make FOLDER, which stands in for the vendor's toolkit when packages are built.

    It has compilers, headers, the CMake functions and the environment that packages look for;
    kernels are compiled for this machine. After `source FOLDER/set_env.sh`, a package is built by
    its own command.
    """
    click.echo(f"source {toolkit.make(folder, checked)}")


@command.command("lint")
@click.argument("packages", metavar="PACKAGE_OR_FILES...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True)
def lint_command(packages: tuple[str, ...], as_json: bool) -> None:
    """Compare the schemas of torch operators with their converters and Meta functions.

    Arguments that are dropped, renamed or in another order, defaults that differ, arguments that
    are written but not marked, numbers of results, overloads without converter, converters without
    schema. Files are read, none is run. Exit status 1 if there is an error; a file that cannot be
    read is one, and the others are compared all the same.
    """
    package = lint.read(packages)
    found = lint.findings(package)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=1))
    else:
        for finding in found:
            show_mismatch(finding)
        counts = [several(n, word) for n, word in lint.counted(package)]
        said = ", ".join([*counts, several(len(found), "error")])
        click.secho(f"{', '.join(packages)}: {said}", fg="red" if found else "green")
    sys.exit(bool(found))


def show_mismatch(finding: lint.Finding) -> None:
    """With both lines: that of the function, and that of the schema."""
    head = f"error: {finding.kind}"
    body = wrapped(f"{head}: {place(finding.file, finding.line)}{finding.text}")
    click.echo(click.style(head, fg="red", bold=True) + body[len(head) :])
    for file, line in ((finding.file, finding.line), (finding.there_file, finding.there_line)):
        if line:
            lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
            if line > len(lines):  # a text that ends too early
                continue
            name = "" if file == finding.file else f" {Path(file).name}"
            shown = f"  {line:5}{name} | {lines[line - 1].strip()}"
            click.echo(shown if len(shown) <= WIDEST else shown[: WIDEST - 3] + "...")
