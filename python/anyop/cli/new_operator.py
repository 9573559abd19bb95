# SPDX-License-Identifier: Apache-2.0
"""The files of a new operator in a package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from anyop._packages import tool
from anyop.cli.project import Project, find_project

_FOLDER = Path(__file__).resolve().parent.parent / "template_ops"
TEMPLATES = tuple(sorted(path.name for path in _FOLDER.iterdir() if path.is_dir()))
_NAME = "my_operator"
_WITH_GRADIENT = re.compile(r"^// @gradient \{\n(.*?)^// @gradient \}\n", re.M | re.S)


def make(name: str, template: str, isas: list[str], gradient: bool, folder: Path) -> None:
    project = find_project(folder)
    check_name(name, project)
    check_isas(isas)
    if gradient and not (_FOLDER / template / "backward.cc").exists():
        raise click.ClickException(
            f"the template {template} has no gradient. Try without --gradient, and write "
            f"{name}_backward as docs/gradients.md tells."
        )
    for place, text in files(name, template, isas, gradient):
        path = project.operators / name / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        click.echo(f"made {path.relative_to(project.root)}")
    if served := [isa for isa in isas if isa in general_isas()]:
        click.echo(f"cpu.cc is compiled for {' and '.join(served)} too: no further file is needed.")
    click.echo(f"Now: anyop test {name}")


def check_name(name: str, project: Project) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise click.BadParameter(
            f"'{name}' is no name for an operator. Try small letters, digits and _: 'scaled_sum'."
        )
    if (project.operators / name).exists():
        raise click.ClickException(
            f"{project.operators / name} is there already. Try another name."
        )
    for path in project.operators.rglob("*.cc"):
        if re.search(rf"\bOp\s+{name}\s*\{{", path.read_text(encoding="utf-8", errors="replace")):
            raise click.ClickException(f"{path} defines {name} already. Try another name.")


def check_isas(isas: list[str]) -> None:
    kernel_files = tool("kernel_files")
    known = kernel_files.isas_of(kernel_files.ISA_TABLE)
    for isa in isas:
        if isa not in known:
            from anyop import _anyop

            hint = _anyop.did_you_mean(isa, known)
            raise click.BadParameter(f"--isa: '{isa}' is none of {', '.join(known)}.{hint}")


def general_isas() -> list[str]:
    """The instruction sets that cpu.cc is compiled for."""
    kernel_files = tool("kernel_files")
    general: list[str] = kernel_files.general_of(kernel_files.ISA_TABLE)
    return general


def files(name: str, template: str, isas: list[str], gradient: bool) -> Iterator[tuple[str, str]]:
    """(place in the operator's folder, text)."""
    places = {"op.cc": f"{name}.cc", "backward.cc": f"{name}_backward.cc"}
    for path in sorted((_FOLDER / template).iterdir()):
        if path.name == "backward.cc" and not gradient:
            continue
        text = path.read_text(encoding="utf-8")
        text = _WITH_GRADIENT.sub(r"\1" if gradient else "", text)
        text = re.sub(
            r"  // @gradient$" if gradient else r"^.*// @gradient\n", "", text, flags=re.M
        )
        text = text.replace(_NAME, name)
        yield places.get(path.name, path.name), text
        for isa in isas if path.name == "cpu.cc" else []:
            if isa not in general_isas():
                copy = f"// {isa} alone: begins as a copy of cpu.cc. Write what it does better."
                yield f"cpu_{isa}.cc", re.sub("^// The kernel.*", copy, text, flags=re.M)
