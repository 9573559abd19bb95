# SPDX-License-Identifier: Apache-2.0
"""Generated tests of a package's operators: `anyop test`, and for pytest:

    from anyop import testing

    @pytest.mark.parametrize("case", testing.cases("my_ops"), ids=str)
    def test_operators(case):
        case.run()

They are made from signatures: sizes, dtypes, strides, guard zones around memory, absent arguments,
wrong calls, numbers of threads, gradients by central differences. Every kernel that this machine
can run is compared with the operator's reference in double. What the defaults do not cover stands
in the package's pyproject.toml:

    [tool.anyop.test.scale]
    tolerance = "relative(6, 2, d)"    # exact | elementwise(ulps) | sum(k) | relative(a, b, k)
    sizes = ["rows = 16, d = 576"]     # calls beside the generated ones
    range = ["x, -1, 1"]               # values of a parameter
    row_invariant = true
"""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
from anyop import _anyop
from anyop._packages import library_file

_TIMEOUT_S = 900


@dataclass(frozen=True)
class Target:
    """A library, its references, and what pyproject.toml says of the tests."""

    library: Path
    references: Path | None
    facts: str


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
        done = _run(self.target, f"--gtest_filter={self}", *flags)
        if done.returncode:
            raise AssertionError(failure(done.stdout) or done.stderr or f"{self} failed")


def build_if_missing(name: str, root: Path) -> None:
    """Builds the package in `root` if it has no library yet, neither built nor installed."""
    try:
        library_file(name, [str(root / "src" / name)])
    except anyop.NotAvailable:
        subprocess.run([sys.executable, "-m", "anyop", "build", str(root)], check=True)


def program() -> Path:
    """The executable of this installation. Raises NotAvailable."""
    path = Path(anyop.__file__).parent / "bin" / "anyop-optest"
    if not path.exists():
        raise anyop.NotAvailable(
            f"anyop-optest: {path} is missing, because anyop was built without it. Try a wheel of "
            "anyop, or building it with -DANYOP_BUILD_OPTEST=ON."
        )
    return path


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
    for name in ("tomllib", "tomli"):  # Python 3.10 has none of its own, but pytest brings one
        with contextlib.suppress(ModuleNotFoundError):
            tables: dict[str, Any] = importlib.import_module(name).loads(path.read_text("utf-8"))
            return tables
    raise anyop.NotAvailable(f"testing: reading {path} needs tomli. Try: pip install tomli")


def cases_of(target: Target) -> list[Case]:
    """The tests of a target, as the program lists them."""
    done = _run(target, "--gtest_list_tests")
    if done.returncode:
        raise anyop.InvalidArgument(f"testing: {done.stderr.strip() or done.stdout.strip()}")
    found, operator = [], ""
    for line in done.stdout.splitlines():
        if line.endswith("."):
            operator = line[:-1]
        elif line.startswith("  ") and operator:
            found.append(Case(target, operator, line.strip()))
    return found


def run_all(target: Target, *flags: str) -> Iterator[str]:
    """The lines of a run of all tests, while it runs; the last one is its exit status."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as facts:
        process = subprocess.Popen(
            _command(target, facts, flags), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        assert process.stdout
        for line in process.stdout:
            yield line.rstrip("\n")
        yield str(process.wait())


def _run(target: Target, *flags: str) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as facts:
        return subprocess.run(
            _command(target, facts, flags), capture_output=True, text=True, check=False,
            timeout=_TIMEOUT_S,
        )  # fmt: skip


def _command(target: Target, facts: Any, flags: tuple[str, ...]) -> list[str]:
    facts.write(target.facts)
    facts.flush()
    files = [target.library, target.references or "", facts.name if target.facts else ""]
    return [str(program()), *map(str, files), *flags]


def failure(output: str) -> str:
    """What a failed run says of the defect, without GoogleTest's frame."""
    frame = ("[", "Note: Google Test filter", "Running main", "unknown file", "optest/")
    lines = [line for line in output.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(frame) and ".cc:" not in line]
    return "\n".join(kept)
