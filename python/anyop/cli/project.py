# SPDX-License-Identifier: Apache-2.0
"""A package of operators as the commands for authors see it: a folder that `anyop new` made."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from anyop import _sanitizer
from anyop._compiler import CannotBuildError, find_compiler
from anyop._packages import BUILT
from anyop._source_check import check_sources

_KERNELS_BESIDE = ("ascend", "ascend_checked", "aicore")  # cmake/anyop.cmake
_COMPILING = re.compile(r"Building CXX object .*?\.dir/(.*)\.o$")


@dataclass(frozen=True)
class Project:
    root: Path
    name: str

    @property
    def operators(self) -> Path:
        return self.root / "ops"

    @property
    def built(self) -> Path:
        return self.root / BUILT

    @property
    def library(self) -> Path:
        return self.built / f"{self.name}.so"

    @property
    def references(self) -> Path:
        return self.built / f"{self.name}_reference.so"


def find_project(folder: Path) -> Project:
    """The package that a folder is in. It is an error if there is none."""
    folder = folder.resolve()
    for root in (folder, *folder.parents):
        text = read(root / "CMakeLists.txt")
        name = re.search(r"^\s*anyop_add_library\((\w+)", text, re.M)
        if name:
            return Project(root, name[1])
    raise click.ClickException(
        f"{folder} is in no package of operators: no CMakeLists.txt from there upwards calls "
        "anyop_add_library. Try: anyop new NAME"
    )


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def check(project: Project) -> bool:
    """Says what is wrong in the sources; whether nothing is."""
    findings = check_sources([project.operators])
    for finding in findings:
        click.echo(str(finding), err=True)
    if findings:
        many = "error" if len(findings) == 1 else "errors"
        click.secho(f"{len(findings)} {many}; nothing was compiled.", fg="red", err=True)
    return not findings


def build(project: Project, debug: bool = False, definitions: Sequence[str] = ()) -> bool:
    """Compiles what has changed. The library takes the place of the one before it as a whole, and
    only if it loads; its stubs are written then. definitions: for CMake, which keeps them. Whether
    it worked.
    """
    start = time.monotonic()
    folder = project.built.parent / ("debug" if debug else "release")
    if not compile_in(project, folder, debug, definitions):
        return False
    made = [folder / file.name for file in (project.library, project.references)]
    made += [folder / f"{project.name}.{word}.so" for word in _KERNELS_BESIDE]
    if error := describe(project, made[0]):
        click.secho(f"The library cannot be loaded: {error}", fg="red", err=True)
        click.secho(f"The build failed.{kept(project)}", fg="red", err=True)
        return False
    changed = [publish(m, project.built / m.name) for m in made]
    took = f"{time.monotonic() - start:.1f} s"
    what = f"Built {shown(project.library)}" if any(changed) else "Nothing has changed"
    click.echo(f"{what} ({took}).")
    return True


def build_sanitized(project: Project, sanitizer: str) -> Path | None:
    """Compiles what has changed for a sanitizer. The library, which no import finds: a process
    must have the sanitizer to load it. None if it did not work.
    """
    start = time.monotonic()
    folder = project.built.parent / sanitizer
    try:
        _sanitizer.check_compiler()
    except CannotBuildError as error:
        raise click.ClickException(f"{error}.") from None
    flags, target = _sanitizer.definitions(), ["--target", project.name]
    if not compile_in(project, folder, definitions=flags, words=target):
        return None
    library = folder / project.library.name
    click.echo(f"Built {shown(library)} ({time.monotonic() - start:.1f} s).")
    return library


def compile_in(
    project: Project,
    folder: Path,
    debug: bool = False,
    definitions: Sequence[str] = (),
    words: Sequence[str] = (),
) -> bool:
    """Checks the sources and compiles what has changed of them since the last time in a folder.
    definitions and words: more for CMake when it configures and when it builds.
    """
    if not check(project) or not configure(project, folder, debug, definitions):
        return False
    done = subprocess.Popen(
        [tool("cmake"), "--build", str(folder), *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.stdout
    for line in lines_to_show(project, done.stdout):
        click.echo(line)
    if done.wait():
        click.secho(f"The build failed.{kept(project)}", fg="red", err=True)
        return False
    return True


def kept(project: Project) -> str:
    return f" {project.library} is as it was." if project.library.exists() else ""


def describe(project: Project, library: Path) -> str:
    """Writes the stubs of a library, which a process of its own loads for that; "" or why not."""
    package = project.root / "src" / project.name
    out = package / "__init__.pyi" if package.is_dir() else project.built.parent / "stubs.pyi"
    command = [sys.executable, "-m", "anyop._stubs", str(out), project.name, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    if done.returncode < 0:
        return f"it is ended by {signal.Signals(-done.returncode).name}."
    return done.stderr.strip() or f"exit status {done.returncode}"


def configure(project: Project, folder: Path, debug: bool, definitions: Sequence[str] = ()) -> bool:
    if (folder / "CMakeCache.txt").exists() and knows(folder / "CMakeCache.txt", definitions):
        return True  # the build looks itself whether CMake's files have changed
    folder = writable(folder)
    if " " not in os.environ.get("CXX", ""):  # else it has arguments of its own
        try:
            find_compiler()
        except CannotBuildError as error:
            raise click.ClickException(f"{error}.") from None
    command = [tool("cmake"), "-S", str(project.root), "-B", str(folder)]
    command += ["-G", "Ninja"] if shutil.which("ninja") else []
    command += [f"-DCMAKE_BUILD_TYPE={'Debug' if debug else 'Release'}", "-DANYOP_NATIVE=ON"]
    command += [f"-DPython3_EXECUTABLE={sys.executable}", *definitions]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        (folder / "CMakeCache.txt").unlink(missing_ok=True)
        click.echo(done.stdout + done.stderr, err=True)
        click.secho("CMake cannot configure the package.", fg="red", err=True)
    return done.returncode == 0


def knows(cache: Path, definitions: Sequence[str]) -> bool:
    """Whether CMake has kept all of -DNAME=VALUE."""
    kept = re.findall(r"^(\w+):\w+=(.*)$", read(cache), re.M)
    return {d.removeprefix("-D") for d in definitions} <= {"=".join(row) for row in kept}


def writable(folder: Path) -> Path:
    """The folder, made if need be. It is an error if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise click.ClickException(
            f"{folder} cannot be written to: {error.strerror}. Builds lie in the package's own "
            "folder. Try a copy of the package that is yours."
        ) from None
    return folder


def tool(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise click.ClickException(f"{name} is not installed. Try: pip install {name}")
    return found


def lines_to_show(project: Project, output: Iterator[str]) -> Iterator[str]:
    """What is compiled, and what the compiler says; not what the build tool does besides."""
    for line in output:
        line = line.rstrip("\n")
        compiling = _COMPILING.search(line)
        if compiling:
            if not compiling[1].endswith("_table.cc"):
                yield f"compiling {compiling[1]}"
        elif not re.match(r"\[\s*\d+[/%]|ninja: |-- |gmake|make|Consolidate|Scanning", line):
            yield line


def publish(made: Path, file: Path) -> bool:
    """Puts a library that the build made where imports look; whether it is another one. A process
    that has loaded the old one keeps it, because the file is a new one. What is not made any more,
    as references that are deleted, is not left there either.
    """
    if not made.exists():
        was_there = file.exists()
        file.unlink(missing_ok=True)
        return was_there
    if file.exists() and file.read_bytes() == made.read_bytes():
        return False
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".tmp")
    shutil.copy2(made, fresh)
    fresh.replace(file)
    return True


def shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
