# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

PACKAGE = Path(__file__).resolve().parent.parent
TEMPLATE_NAME = "my_ops"  # the template is a package of this name
WHAT_BUILDING_NEEDS = (
    "include/anyop/**/*.h",
    "cmake/anyop.cmake",
    "cmake/isa.cmake",
    "tools/list_ops.py",
)


@click.command("new")
@click.argument("name")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=None,
    help="Where to make the package (default: ./NAME).",
)
def command(name: str, folder: Path | None) -> None:
    """Make a package of operators called NAME: one operator, its test, ready for pip install."""
    check_name(name)
    target = folder or Path(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise click.ClickException(f"{target} exists and is not empty. Try another --dir.")
    for source, place in files(name):
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    click.echo(f"Made {target}. Now:\n  cd {target}\n  pip install .\n  pytest")


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


def files(name: str) -> Iterator[tuple[str, Path]]:
    """(text, place in the package) of every file."""
    template = PACKAGE / "template"
    for path in sorted(template.rglob("*")):
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        place = path.relative_to(template).as_posix().replace(TEMPLATE_NAME, name)
        place = ".gitignore" if place == "gitignore" else place
        yield path.read_text(encoding="utf-8").replace(TEMPLATE_NAME, name), Path(place)
    root = data_root()
    for pattern in WHAT_BUILDING_NEEDS:
        for path in sorted(root.glob(pattern)):
            yield path.read_text(encoding="utf-8"), path.relative_to(root)


def data_root() -> Path:
    """The folder that has include/, cmake/ and tools/: the installed package, or a checkout."""
    for root in (PACKAGE, PACKAGE.parents[1]):
        if (root / "include" / "anyop" / "op.h").exists():
            return root
    raise click.ClickException(
        f"{PACKAGE}/include/anyop/op.h is missing: this installation of anyop is incomplete. "
        "Try reinstalling it."
    )
