# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from anyop._packages import data_root
from anyop.cli import new_operator

PACKAGE = Path(__file__).resolve().parent.parent
TEMPLATE_NAME = "my_ops"  # the template is a package of this name
WHAT_BUILDING_NEEDS = (
    "include/anyop/**/*.h",
    "cmake/anyop.cmake",
    "cmake/isa.cmake",
    "tools/ascend_compiler.py",
    "tools/check_ops.py",
    "tools/kernel_files.py",
    "tools/list_ops.py",
)
HIDDEN = {"gitignore": ".gitignore", "ci.yml": ".github/workflows/ci.yml"}


@click.command("new")
@click.argument("name", required=False)
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=None,
    help="Where to make the package (default: ./NAME), or the package of --op (default: this one).",
)
@click.option("--op", "operator", default=None, help="Make an operator of this name in a package.")
@click.option(
    "--template",
    type=click.Choice(new_operator.TEMPLATES),
    default="elementwise",
    show_default=True,
    help="What the operator of --op begins with.",
)
@click.option(
    "--isa",
    default="",
    help="Further files for instruction sets that cpu.cc is not compiled for: avx512_bf16.",
)
@click.option("--gradient", is_flag=True, help="The operator's gradient too.")
def command(
    name: str | None,
    folder: Path | None,
    operator: str | None,
    template: str,
    isa: str,
    gradient: bool,
) -> None:
    """Make a package of operators called NAME, or, with --op, an operator in a package."""
    if operator is not None:
        if name is not None:
            raise click.UsageError("NAME is for a package, --op for an operator in one. Give one.")
        isas = [word.strip() for word in isa.split(",") if word.strip()]
        new_operator.make(operator, template, isas, gradient, folder or Path())
        return
    if name is None:
        raise click.UsageError("NAME of the package is missing, or --op NAME for an operator.")
    if isa or gradient:
        raise click.UsageError("--isa and --gradient are for an operator. Give --op NAME too.")
    check_name(name)
    target = folder or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise click.ClickException(f"{target} exists and is not empty. Try another --dir.")
    for source, place in files(name):
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    click.echo(f"Made {target}. Now:\n  cd {target}\n  anyop test\n  anyop develop")


def check_name(name: str) -> None:
    """The name is a namespace, a Python module and a CMake target."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise click.BadParameter(
            f"'{name}' is no name for a library. Try small letters, digits and _: 'my_ops'."
        )
    if name in {"anyop", "cmake", "include", "ops", "src", "test", "tests", "tools"} or (
        name in sys.stdlib_module_names
    ):
        raise click.BadParameter(f"'{name}' is taken by another module. Try '{name}_ops'.")
    if importlib.util.find_spec(name) is not None and not is_ours(name):
        raise click.BadParameter(
            f"'{name}' is the name of an installed package, which this one would hide. "
            f"Try '{name}_ops'."
        )


def is_ours(name: str) -> bool:
    """Whether an installed package is one of operators: an author makes it anew."""
    from importlib.metadata import entry_points

    return name in [entry.name for entry in entry_points(group="anyop.libraries")]


def files(name: str) -> Iterator[tuple[str, Path]]:
    """(text, place in the package) of every file."""
    template = PACKAGE / "template"
    for path in sorted(template.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        place = path.relative_to(template).as_posix().replace(TEMPLATE_NAME, name)
        place = HIDDEN.get(place, place)
        yield path.read_text(encoding="utf-8").replace(TEMPLATE_NAME, name), Path(place)
    yield from carried_files()


def carried_files() -> Iterator[tuple[str, Path]]:
    """What a package has of anyop, so that it builds where none is installed."""
    root = data_root()
    for pattern in WHAT_BUILDING_NEEDS:
        for path in sorted(root.glob(pattern)):
            yield path.read_text(encoding="utf-8"), path.relative_to(root)
