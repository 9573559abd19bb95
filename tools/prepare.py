# SPDX-License-Identifier: Apache-2.0
"""Makes a bare machine ready: system packages, a virtual environment, the build.

Used by ./demo and ./check. Only Python's standard library, since nothing is installed yet. Every
step that takes longer than two seconds shows what it is doing; its output is kept in build/logs.
"""

from __future__ import annotations

import atexit
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
BUILD = ROOT / "build" / "release"
LOGS = ROOT / "build" / "logs"
NINJA_STEP = re.compile(r"^\[(\d+)/(\d+)\]")

# What is needed to build: how to see that it is there, and Debian's package.
BUILD_TOOLS = [
    ("g++", "g++"),
    ("cmake", "cmake"),
    ("ninja", "ninja-build"),
    ("/usr/include/nlohmann/json.hpp", "nlohmann-json3-dev"),
]
ARM_TOOLS = [
    ("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu"),
    ("qemu-aarch64", "qemu-user"),
    ("/usr/src/googletest/CMakeLists.txt", "googletest"),
]
TEST_TOOLS = [
    ("/usr/include/gtest/gtest.h", "libgtest-dev"),
    ("/usr/include/benchmark/benchmark.h", "libbenchmark-dev"),
    ("clang-format", "clang-format"),
    ("ccache", "ccache"),
]


@dataclass
class Spent:
    """Seconds that a step took. computed: of all its processes and their threads together."""

    seconds: float
    computed: float


# What the steps of this process took, by their titles.
STEPS: dict[str, Spent] = {}


class StepFailed(Exception):
    """A step failed; the message says what to do."""


def is_there(probe: str) -> bool:
    return Path(probe).exists() if probe.startswith("/") else shutil.which(probe) is not None


def computed_by_children() -> float:
    """Seconds of processors, of the processes of this one that have ended and been waited for."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class Progress:
    """One line that is rewritten on a terminal, and repeated now and then elsewhere."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.start, self.computed = time.monotonic(), computed_by_children()
        self.shown = self.start
        self.tty = sys.stdout.isatty()
        if self.tty:
            print(f"  {title} ...", end="", flush=True)

    def update(self, text: str) -> None:
        now = time.monotonic()
        if now - self.shown < (0.2 if self.tty else 20):
            return
        self.shown = now
        width = shutil.get_terminal_size().columns - 1
        line = f"  {self.title} ... {now - self.start:3.0f} s  {text}"[:width]
        print(f"\r\033[K{line}" if self.tty else line, end="" if self.tty else "\n", flush=True)

    def close(self, result: str) -> None:
        seconds = time.monotonic() - self.start
        STEPS[self.title] = Spent(seconds, computed_by_children() - self.computed)
        line = f"  {self.title:<46} {result:<24} {seconds:6.1f} s"
        print(f"\r\033[K{line}" if self.tty else line, flush=True)


def log_of(title: str) -> Path:
    """The file with the output of a step. Its folder is there."""
    LOGS.mkdir(parents=True, exist_ok=True)
    return LOGS / (re.sub(r"\W+", "-", title).strip("-") + ".log")


def failed(title: str, lines: Sequence[str], code: int) -> StepFailed:
    """lines: its output, of which the end is told."""
    told = f"{title}: exit status {code}. The whole output is in {log_of(title)}."
    return StepFailed("".join([*lines[-60:], "\n", told]))


def run(
    title: str,
    command: Sequence[str | Path],
    *,
    env: dict[str, str] | None = None,
    summary: Callable[[str], str] | None = None,
    cwd: Path = ROOT,
) -> str:
    """Runs a command with progress; returns its output, raises StepFailed with its end."""
    progress = Progress(title)
    lines: list[str] = []
    with log_of(title).open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [str(c) for c in command],
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout
        for line in process.stdout:
            file.write(line)
            lines.append(line)
            step = NINJA_STEP.match(line.strip())
            progress.update(f"{step[1]} of {step[2]}" if step else line.strip()[:70])
        code = process.wait()
    output = "".join(lines)
    if code != 0:
        progress.close("FAILED")
        raise failed(title, lines, code)
    progress.close(summary(output) if summary else "ok")
    return output


def ensure_system_packages(tools: Sequence[tuple[str, str]]) -> None:
    missing = [package for probe, package in tools if not is_there(probe)]
    if missing:
        install = f"apt-get install -y {' '.join(missing)}"
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise StepFailed(f"Missing on this machine: {', '.join(missing)}. Try: sudo {install}")
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get update", ["apt-get", "update"], env=env)
        run(f"install {' '.join(missing)}", install.split(), env=env)


def ensure_venv() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036
        raise StepFailed(f"Python 3.10 or newer is needed, this is {sys.version.split()[0]}.")
    if (
        PYTHON.exists()
        and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
    ):
        return
    try:
        run("create .venv", [sys.executable, "-m", "venv", "--clear", VENV])
    except StepFailed:
        ensure_system_packages([("/nonexistent", "python3-venv"), ("/nonexistent", "python3-dev")])
        run("create .venv", [sys.executable, "-m", "venv", "--clear", VENV])


def pip_install(title: str, *arguments: str | Path) -> None:
    run(
        title,
        [
            PYTHON,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "-c",
            ROOT / "constraints.txt",
            *arguments,
        ],
    )


def ensure_requirements(name: str) -> None:
    """Installs requirements/NAME.txt unless this very file is installed already."""
    file = ROOT / "requirements" / f"{name}.txt"
    stamp = VENV / f".{name}.txt"
    if stamp.exists() and stamp.read_text() == file.read_text():
        return
    pip_install(f"pip install: {name}", "-r", file)
    stamp.write_text(file.read_text())


def ensure_frameworks() -> None:
    """The frameworks that anyop has a host for. One that cannot be installed is left out."""
    for name in ("torch", "jax"):
        try:
            ensure_requirements(name)
        except StepFailed as failure:
            print(f"  {name} cannot be installed: {str(failure).splitlines()[-1]}")


def ensure_environment(name: str) -> Path:
    """The Python of an environment of its own, .venv-NAME, with requirements/NAME.txt."""
    folder, file = ROOT / f".venv-{name}", ROOT / "requirements" / f"{name}.txt"
    python, stamp = folder / "bin" / "python", folder / f".{name}.txt"
    if not stamp.exists() or stamp.read_text() != file.read_text():
        run(f"create .venv-{name}", [sys.executable, "-m", "venv", "--clear", folder])
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check"]
        run(f"pip install: {name}", [*pip, "-r", file])
        stamp.write_text(file.read_text())
    return python


def ensure_vllm(version: str) -> Path:
    """The Python of .venv-vllm-VERSION: vLLM, this anyop, and what tests of both need."""
    folder = ROOT / f".venv-vllm-{version}"
    python = folder / "bin" / "python"
    command = [PYTHON, "-m", "anyop", "vllm", "install", "--version", version, folder]
    run(f"anyop vllm install {version}", command)
    file, stamp = ROOT / "requirements" / "vllm-test.txt", folder / ".vllm-test.txt"
    if not stamp.exists() or stamp.read_text() != file.read_text():
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        run(f"pip install: {file.stem}", [*pip, "-r", file])
        stamp.write_text(file.read_text())
    return python


def ensure_npu() -> Path:
    """The Python of .venv-npu: torch_npu, this anyop, and what tests of both need."""
    folder = ROOT / ".venv-npu"
    python = folder / "bin" / "python"
    run("anyop npu install", [PYTHON, "-m", "anyop", "npu", "install", folder])
    file, stamp = ROOT / "requirements" / "npu-test.txt", folder / ".npu-test.txt"
    if not stamp.exists() or stamp.read_text() != file.read_text():
        pip = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        run(f"pip install: {file.stem}", [*pip, "-r", file])
        stamp.write_text(file.read_text())
    return python


class Beside:
    """A step that runs beside others, as it waits for packages or uses one core of two."""

    def __init__(self, title: str, command: Sequence[str | Path]) -> None:
        self.title, self.log = title, log_of(title)
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [str(c) for c in command],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        atexit.register(self._end)

    def _end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)  # its pip, too

    def wait(self, otherwise: str) -> bool:
        """Whether it went well. otherwise: what its line says if not."""
        progress = Progress(self.title)
        while self.process.poll() is None:
            time.sleep(0.2)
            progress.update((self.log.read_text().splitlines() or [""])[-1].strip())
        progress.close("ok" if self.process.returncode == 0 else otherwise)
        return self.process.returncode == 0

    def finish(self) -> None:
        """Waits; raises StepFailed with the end of its output."""
        if not self.wait("FAILED"):
            lines = self.log.read_text(errors="replace").splitlines(keepends=True)
            raise failed(self.title, lines, self.process.returncode)


def environments_ahead(vllm: str) -> Beside:
    """Environments of other frameworks. Who needs one waits first, and then makes what is missing,
    with its own messages.
    """
    command = ["nice", "-n", "5", sys.executable, __file__, vllm]
    return Beside("environments, begun beside the tests", command)


def install_anyop(tests: bool) -> None:
    """Builds in build/release and installs into the virtual environment."""
    arguments: list[str | Path] = ["-v", "--no-build-isolation", "--no-deps"]
    # A check builds every kernel, also those that this machine can only skip.
    checked = ["ANYOP_BUILD_TESTS=ON", "ANYOP_NATIVE=OFF", "ANYOP_WERROR=ON"]
    settings = checked if tests else ["ANYOP_NATIVE=BEST", "ANYOP_WERROR=OFF"]
    arguments += [f"--config-settings=cmake.define.{setting}" for setting in settings]
    pip_install("build and install anyop", *arguments, ROOT)


def main_guard(main: Callable[[], int]) -> None:
    try:
        sys.exit(main())
    except StepFailed as failure:
        print(f"\n{failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def make_environments() -> int:
    """Those of environments_ahead; each is tried."""
    failed = 0
    for make in (lambda: ensure_environment("mindspore"), lambda: ensure_vllm(sys.argv[1])):
        try:
            make()
        except StepFailed as failure:
            print(failure)
            failed = 1
    return failed


if __name__ == "__main__":
    main_guard(make_environments)
