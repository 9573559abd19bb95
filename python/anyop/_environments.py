# SPDX-License-Identifier: Apache-2.0
"""Makes virtual environments with a framework and anyop, from packages alone."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import anyop

LOG = "install.log"
LONGEST_INTERPRETER = 120  # bytes, in the first line of a script: Linux takes 127
PYTORCH = "https://download.pytorch.org/whl/cpu"
# Words of pip where it reaches no index.
NO_ANSWER = (
    "Failed to establish a new connection", "Temporary failure in name resolution",
    "Connection refused", "Network is unreachable", "ConnectTimeoutError",
)  # fmt: skip
# Words of pip where no index has such a torch; the second where a file of constraints names it.
NO_TORCH = ("No matching distribution found for torch==", "Cannot install torch==")
# With a guard: each process that a framework starts imports the program that started it, and would
# run the command again.
PROGRAM = """\
import sys

from anyop.cli import main

if __name__ == "__main__":
    sys.exit(main())
"""


class Step(NamedTuple):
    """A command of an installation, in the environment's Python."""

    title: str
    arguments: Sequence[str]
    env: dict[str, str]


class Environment:
    """A folder that is a virtual environment for one version of something, and this anyop."""

    who = ""  # begins messages: "anyop.vllm"
    mark = ""  # the file that says what the environment has

    def __init__(self, folder: Path, version: str) -> None:
        self.folder, self.version = folder.absolute(), version
        self.python = self.folder / "bin" / "python"
        self._held: tuple[int, ...] = ()  # the lock of an installation, which its commands hold too
        if self.folder == Path(sys.prefix).absolute():
            raise anyop.InvalidArgument(
                f"{self.who}: {folder} is the environment that this runs in, which would be "
                "replaced while it runs. Try another folder."
            )

    @property
    def is_installed(self) -> bool:
        """Whether it was made to its end, from the lists of this anyop."""
        mark = self.folder / self.mark
        return mark.exists() and mark.read_text() == json.dumps(self._contents())

    def install(self, index: str, progress: Callable[[str, str], None]) -> None:
        """index: a further package index, "" for none. progress: gets a step and what it prints.

        What a killed installation left is removed, and all of it made anew.
        """
        self._refuse_other_folders()
        with self._only_one():
            self._clear()
            self._make(index, progress)

    def _make(self, index: str, progress: Callable[[str, str], None]) -> None:
        progress("virtual environment", "")
        self._run([sys.executable, "-m", "venv", str(self.folder)], {}, lambda _: None, "venv")
        extra = ["--extra-index-url", index] if index else []
        for step in self._steps(extra):
            progress(step.title, "")
            self._run(
                [str(self.python), *step.arguments],
                step.env,
                lambda line, title=step.title: progress(title, line),  # type: ignore[misc]
                step.title,
            )
        self._clean()
        progress("anyop", "")
        self.refresh()
        # Last, as it says that the environment was made to its end.
        (self.folder / self.mark).write_text(json.dumps(self._contents()))

    @contextlib.contextmanager
    def _only_one(self) -> Iterator[None]:
        """The log is there from the first moment to the last, which tells a half-made environment
        from other folders. Who holds its lock, a pip that outlives a killed installation included,
        writes into the folder.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            log_file = (self.folder / LOG).open("a")
        except OSError as error:
            raise anyop.NotAvailable(
                f"{self.who}: nothing can be written into {self.folder}: {error.strerror}. "
                "Try another folder."
            ) from None
        with log_file as log:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise anyop.NotAvailable(
                    f"{self.who}: another installation writes into {self.folder}, or a pip that a "
                    "killed one began. Try again when it has ended, or another folder."
                ) from None
            self._held = (log.fileno(),)
            try:
                yield
            finally:
                self._held = ()

    def _clear(self) -> None:
        for path in self.folder.iterdir():
            if path.name == LOG:  # stays, as it holds the lock of this installation
                os.truncate(path, 0)
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def refresh(self) -> None:
        """Puts the anyop of this process into an environment that is there already."""
        copy_anyop(self._site_packages(), self.who)

    def _steps(self, extra: Sequence[str]) -> Iterator[Step]:
        """The commands that install. extra: pip's options for packages that another index has."""
        raise NotImplementedError

    def _contents(self) -> dict[str, str]:
        """What the environment is made of. One whose mark says something else is made anew."""
        raise NotImplementedError

    def _clean(self) -> None:
        """Removes what only the installation needed."""

    def _reason(self, lines: Sequence[str]) -> str:
        """Why a step failed, by what it has printed."""
        errors = [line.strip() for line in lines if line.startswith("ERROR")] or lines[-1:]
        return " ".join(errors[:2]).strip()

    def _advice(self, lines: Sequence[str]) -> str:
        """What to try, by what a failed step has printed; begins with a blank."""
        text = "".join(lines)
        if any(sign in text for sign in NO_ANSWER):
            return " The index of packages does not answer. Try again with a network, or --index."
        if any(sign in text for sign in NO_TORCH):
            return f" Try --index {PYTORCH}."
        if "No module named pip" in text or "ensurepip" in text:
            return " Try: sudo apt-get install python3-venv"
        if "No space left on device" in text:
            return " It takes 2 GB with a torch for the CPU, and 1 GB more while it is made."
        return ""

    def _try(self, code: str, title: str, env: dict[str, str] | None = None) -> None:
        self._run([str(self.python), "-c", code], env or {}, lambda _: None, title)

    def _refuse_other_folders(self) -> None:
        if not self.folder.exists() or (self.folder / self.mark).exists():
            return
        if not self.folder.is_dir():
            raise anyop.InvalidArgument(
                f"{self.who}: {self.folder} is a file, but the environment is a folder. "
                "Try another name."
            )
        begun = (self.folder / LOG).exists()
        if any(self.folder.iterdir()) and not begun:
            raise anyop.InvalidArgument(
                f"{self.who}: {self.folder} has files in it, but the environment is made anew and "
                "would replace them. Try another folder."
            )

    def _site_packages(self) -> Path:
        return next((self.folder / "lib").glob("python3.*/site-packages"))

    def _run(
        self,
        command: Sequence[str],
        env: dict[str, str],
        progress: Callable[[str], None],
        title: str,
    ) -> None:
        lines: list[str] = []
        start = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env={**without_paths(), **env}, pass_fds=self._held,
        )  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            progress(line.strip())
        code = process.wait()
        log = self.folder / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            took = f"{time.monotonic() - start:.0f} s"
            file.write(f"$ {' '.join(command)}\n{''.join(lines)}{title}: {took}\n\n")
        if code:
            raise anyop.NotAvailable(
                f"{self.who}: {title} cannot be installed in {self.folder}: {self._reason(lines)} "
                f"The whole output is in {log}.{self._advice(lines)}"
            )


def copy_anyop(site_packages: Path, who: str) -> None:
    """This very installation into another environment of the same Python."""
    try:
        files = importlib.metadata.files("anyop") or []
        found = importlib.metadata.distribution("anyop")
    except importlib.metadata.PackageNotFoundError:
        files = []
    wanted = [f for f in files if not f.is_absolute() and ".." not in f.parts]
    if not any(file.name == "entry_points.txt" for file in wanted):
        raise anyop.NotAvailable(
            f"{who}: this anyop was not installed by pip, so that there are no lists of its files "
            "and entry points. Try installing anyop (docs/install.md), then again."
        )
    sources = [(Path(str(found.locate_file(file))), site_packages / file) for file in wanted]
    copies = [(a, b) for a, b in sources if a.suffix != ".pyc" and a.exists()]
    _remove_anyop(site_packages)
    for source, target in copies:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    program = site_packages.parents[2] / "bin" / "anyop"
    program.write_text(f"{_first_lines(str(program.with_name('python')))}\n{PROGRAM}")
    program.chmod(0o755)


def _first_lines(python: str) -> str:
    """The first lines of a script for this Python. Linux takes no path with a blank and no long one
    in a script's first line, so a shell starts the Python then; to Python, the line that the shell
    runs is a string.
    """
    if not any(c.isspace() for c in python) and len(os.fsencode(python)) < LONGEST_INTERPRETER:
        return f"#!{python}"
    quoted = "".join(f"\\{c}" if c in '\\"$`' else c for c in python)
    return f"#!/bin/sh\n'''exec' \"{quoted}\" \"$0\" \"$@\"\n' '''"


def _remove_anyop(site_packages: Path) -> None:
    (site_packages / "anyop_vllm.py").unlink(missing_ok=True)
    for folder in [site_packages / "anyop", *site_packages.glob("anyop-*.dist-info")]:
        shutil.rmtree(folder, ignore_errors=True)


def without_paths() -> dict[str, str]:
    """This process' environment without the variables by which another Python would import this
    one's packages.
    """
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in hidden}
