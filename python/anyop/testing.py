# SPDX-License-Identifier: Apache-2.0
"""Generated tests of a package's operators: `anyop test`, and for pytest:

    from anyop import testing

    @pytest.mark.parametrize("case", testing.cases("my_ops"), ids=str)
    def test_operators(case):
        case.run()

The first test builds the program that runs them, anyop-optest, because only authors need it.

They are made from signatures: sizes, dtypes, strides, guard zones around memory, absent arguments,
wrong calls, numbers of threads, gradients by central differences. Every kernel that this machine
can run is compared with the operator's reference in double. What the defaults do not cover stands
in the package's pyproject.toml:

    [tool.anyop.test.scale]
    tolerance = "relative(6, 2, d)"    # docs/testing.md has the others
    sizes = ["rows = 16, d = 576"]     # calls beside the generated ones
    range = ["x, -1, 1"]               # values of a parameter
    row_invariant = true
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
from anyop import _anyop, _cache, _sanitizer
from anyop._compiler import CannotBuildError
from anyop._packages import device_library, library_file
from anyop._toml import toml_module
from anyop.hosting import build

_TIMEOUT_S = 900
_EVENT = "anyop-optest: "


@dataclass(frozen=True)
class Target:
    """A library, its references, and what pyproject.toml says of the tests. is_sanitized: it is
    built for the thread sanitizer, which then looks for races and leaves the other tests out.
    """

    library: Path
    references: Path | None
    facts: str
    is_sanitized: bool = False


@dataclass(frozen=True)
class Case:
    """One test of one operator."""

    target: Target
    operator: str
    check: str

    def __str__(self) -> str:
        return f"{self.operator}.{self.check}"

    def run(self, *flags: str) -> None:
        """AssertionError holds what failed, with the call that brings it back."""
        done = _run(self.target, f"--test={self}", *flags)
        if done.returncode:
            said = [text for kind, text in events(done.stdout.splitlines()) if kind == "said"]
            said += [done.stderr] if done.returncode < 0 or not said else []
            said += [_died(done.returncode)] if done.returncode < 0 and not _tells(said) else []
            raise AssertionError("\n".join(said).strip() or f"{self} failed")


def build_if_missing(name: str, root: Path) -> None:
    """Builds the package in `root` if it has no library yet, neither built nor installed."""
    try:
        library_file(name, [str(root / "src" / name)])
    except anyop.NotAvailable:
        subprocess.run([sys.executable, "-m", "anyop", "build", str(root)], check=True)


def program(is_sanitized: bool = False) -> Path:
    """The executable anyop-optest for this installation, built now if it is not there; on demand
    the one that has the thread sanitizer. Raises NotAvailable.
    """
    try:
        more = _sanitizer.program_flags() if is_sanitized else []
        sources = build.carried("optest")
        product = build.Product(
            name="anyop-optest",
            version=anyop.__version__,
            what=f"anyop-optest, which {'finds races' if is_sanitized else 'tests operators'}",
            sources=[f for f in sorted(sources.glob("*.cc")) if not f.stem.endswith("_test")],
            includes=[build.carried("include"), build.carried("src")],
            flags=["-O1", "-D_GLIBCXX_ASSERTIONS", f"-I{sources.parent}", *more],
            lasts="about a quarter of a minute",
            is_program=True,
        )
        return build.build(product, _cache.cache_folder())
    except CannotBuildError as error:
        raise anyop.NotAvailable(
            f"anyop-optest: this program, which tests operators, cannot be built: {error}."
        ) from None


def cases(library: str) -> list[Case]:
    """The tests of a loaded library or an installed package, by name."""
    files = {name: Path(file) for name, _, file in _anyop.libraries()}
    if library not in files:
        anyop.load_installed()
        files = {name: Path(file) for name, _, file in _anyop.libraries()}
    if library not in files:
        raise anyop.NotAvailable(
            f"testing: no library '{library}' is loaded."
            f"{_anyop.did_you_mean(library, list(files))} Try importing its package."
        )
    return cases_of(target_of(files[library]))


def target_of(library: Path) -> Target:
    """A library with the references beside it and the facts of the source tree that it is in."""
    references = library.with_name(f"{library.stem}_reference.so")
    roots = [root for root in library.parents if (root / "pyproject.toml").exists()]
    facts = facts_of(roots[0] / "pyproject.toml") if roots else ""
    return Target(library, references if references.exists() else None, facts)


def facts_of(pyproject: Path) -> str:
    """[tool.anyop.test] as the program reads it (optest/package_tests.h)."""
    tables = _read_toml(pyproject).get("tool", {}).get("anyop", {}).get("test", {})
    lines = []
    for operator, facts in tables.items():
        lines.append(f"op={operator}")
        for name, value in facts.items():
            for one in value if isinstance(value, list) else [value]:
                lines.append(f"{name}={int(one) if isinstance(one, bool) else one}")
    return "\n".join(lines)


def _read_toml(path: Path) -> dict[str, Any]:
    tables: dict[str, Any] = toml_module().loads(path.read_text("utf-8"))
    return tables


def cases_of(target: Target) -> list[Case]:
    """The tests of a target, as the program lists them."""
    done = _run(target, "--list")
    if done.returncode:
        raise anyop.InvalidArgument(f"testing: {done.stderr.strip() or done.stdout.strip()}")
    names = [name for kind, name in events(done.stdout.splitlines()) if kind == "has"]
    return [Case(target, *name.split(".")) for name in names]


def events(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What lines of the program say (optest/package_main.cc): what happens ("run", "ok", "FAILED",
    "has") and the test, "lacks" and an operator without a reference, ("end", "") before the
    summary, and ("said", line) for any other line.
    """
    for line in lines:
        if line.startswith(_EVENT):
            kind, _, name = line.removeprefix(_EVENT).partition(" ")
            yield kind, name
        elif line.strip():
            yield "said", line


def run_all(target: Target, *flags: str) -> Iterator[tuple[str, str]]:
    """The `events` of a run of all tests, while it runs; the last one is the exit status. A test
    that ends the process is "lost"; those of the operators behind its own follow.
    """
    after: list[str] = []
    while True:
        running, said = "", list[str]()
        for kind, text in _run_once(target, *flags, *after):
            if kind == "status" and running:
                if not _tells(said):
                    yield "said", _died(int(text))
                yield "lost", running
                after = [f"--after={running.partition('.')[0]}"]
                break
            if kind in ("run", "ok", "FAILED"):
                running, said = text if kind == "run" else "", []
            said += [text] if kind == "said" else []
            # Once a test was lost the run has failed, whatever the last process ends with.
            yield kind, "1" if kind == "status" and after else text
        else:
            return


def _tells(said: list[str]) -> bool:
    """Whether a test that ended the process has said why itself (optest/running.cc)."""
    return any(text.startswith("it ends the process: ") for text in said)


def _died(status: int) -> str:
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return f"it ends the process: {name}"


def _run_once(target: Target, *flags: str) -> Iterator[tuple[str, str]]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as facts:
        command = _command(target, facts, flags)
        with _surroundings(target) as env:  # which count at the start of a process alone
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
            )
        assert process.stdout
        yield from events(line.rstrip("\n") for line in process.stdout)
        yield "status", str(process.wait())


def _run(target: Target, *flags: str) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as facts:
        command = _command(target, facts, flags)
        with _surroundings(target) as env:
            return subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=env
            )


@contextlib.contextmanager
def _surroundings(target: Target) -> Iterator[dict[str, str] | None]:
    """Prepares the start of the program, and yields its environment: None for that of this
    process.
    """
    if not target.is_sanitized:
        device = device_library() if target.library.with_suffix(".ascend.so").exists() else None
        loaded = os.environ.get("ANYOP_LOAD", "")
        if device is None or str(device) in loaded.split(":"):
            yield None
        else:  # brings the kernels in AscendC, which lie beside the library
            yield {**os.environ, "ANYOP_LOAD": f"{device}:{loaded}".rstrip(":")}
        return
    with _sanitizer.fixed_addresses():
        yield _sanitizer.environment()


def _command(target: Target, facts: Any, flags: tuple[str, ...]) -> list[str]:
    facts.write(target.facts)
    facts.flush()
    files = [target.library, target.references or "", facts.name if target.facts else ""]
    return [str(program(target.is_sanitized)), *map(str, files), *flags]
