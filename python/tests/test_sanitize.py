# SPDX-License-Identifier: Apache-2.0
"""`anyop test --sanitize thread`: races between parts of a kernel, by the tool that proves them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyop
import pytest
from anyop import _sanitizer
from anyop._compiler import CannotBuildError
from anyop.cli import app
from click.testing import CliRunner

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "my_ops" / "ops"
LOOP = "    for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(float(xr[i]) * factor);\n"
# Operators like scale with another way to their result: what the row's function does, the
# workspace, and the lines of that (from 1) which race, none for those that do not.
WAYS = {
    "through_a_row_of_all": (
        "float* row = ctx.Workspace<float>();",
        "for (std::size_t i = 0; i < xr.size(); ++i) row[i] = float(xr[i]);",
        "for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(row[i] * factor);",
    ),
    "copied_to_a_row_of_all": (
        "T* row = ctx.Workspace<T>();",
        "std::copy(xr.begin(), xr.end(), row);",
        "for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(float(row[i]) * factor);",
    ),
    "through_a_row_of_its_slot": (
        "float* row = ctx.Workspace<float>() + slot * x.row_size();",
        "std::fill_n(row, xr.size(), factor);",
        "for (std::size_t i = 0; i < xr.size(); ++i) yr[i] = T(float(xr[i]) * row[i]);",
    ),
    "counted_atomically": (
        "auto* count = ctx.Workspace<std::int64_t>();",
        "__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);",
        LOOP.strip(),
    ),
}
RACING = ("through_a_row_of_all", "copied_to_a_row_of_all")
NOTE = " Give each its own scratch, by the slot that f(begin, end, slot) of ctx.ParallelFor gets."


def add_operator(folder: Path, name: str) -> int:
    """Adds one of WAYS to a package; the number of its second line in the file."""
    right = (folder / "ops" / "scale" / "scale.cc").read_text()
    text = right.replace(LOOP, "".join(f"    {line}\n" for line in WAYS[name]))
    assert text != right
    text = text.replace('"anyop/op.h"\n', '"anyop/op.h"\n\n#include <algorithm>\n')
    text = text.replace("(std::int64_t r)", "(std::int64_t r, [[maybe_unused]] std::int64_t slot)")
    text = text.replace(".run =", '.workspace = "64 + 4 * threads * d", .run =')
    text = text.replace('"scale(', f'"{name}(').replace("Op scale", f"Op {name}")
    text = text.replace("ANYOP_KERNEL(scale", f"ANYOP_KERNEL({name}")
    (folder / "ops" / name).mkdir()
    (folder / "ops" / name / f"{name}.cc").write_text(text)
    return 1 + text[: text.index(WAYS[name][1])].count("\n")


def anyop_command(folder: Path, *words: str, status: int = 0, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "anyop", *words], cwd=folder, env={**os.environ, **env}, text=True,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == status, done.stdout
    return done.stdout


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "race_ops"
    made = CliRunner().invoke(app, ["new", "race_ops", "--dir", str(folder)])
    assert made.exit_code == 0, made.output
    return folder


@contextlib.contextmanager
def one_processor() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def skip_without_the_sanitizer() -> None:
    try:
        _sanitizer.check_compiler()
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.mark.slow
def test_parts_that_share_memory_are_named_and_others_pass(package: Path) -> None:
    skip_without_the_sanitizer()
    lines = {name: add_operator(package, name) for name in WAYS}
    output = anyop_command(package, "test", "--sanitize", "thread", status=1)
    assert re.search(r"^Built build/anyop/thread/race_ops.so \(\d+\.\d s\)\.$", output, re.M)
    for name in {*WAYS, "scale"} - {*RACING}:
        assert f"ok     {name}.HasNoRaces\n" in output
    for name in RACING:
        begin, end = f"FAILED {name}.HasNoRaces\n", f"race_ops.{name}(x: "
        (failure,) = re.findall(f"^{begin}(.*\n.*\n  {re.escape(end)}.*\n.*)", output, re.M)
        said, kernel, call, again = failure.split("\n")
        place = f"in {package / 'ops' / name / name}.cc:{lines[name]}"
        access = r"writes \d+ bytes?"
        assert re.fullmatch(
            rf"two parts of a parallel region race: one {access} {re.escape(place)}, and another "
            rf"one, which may run at the same time, {access} of the same memory "
            rf"{re.escape(place + '.' + NOTE)}",
            said,
        )
        assert kernel.startswith("  cpu_portable_f32 f32_")
        assert call.startswith(f"  race_ops.{name}(x: f32[")
        assert re.fullmatch(r"  run this call alone with --call=\d+", again)
    assert "ThreadSanitizer" not in output
    assert output.endswith("3 passed, 2 failed\n")
    assert not (package / "build" / "anyop" / "lib").exists()
    with one_processor():  # one thread after the other, and yet none takes all the parts
        output = anyop_command(package, "test", "--sanitize", "thread", *RACING, status=1)
    assert output.endswith("0 passed, 2 failed\n")


@pytest.mark.exhaustive
def test_templates_and_examples_have_no_races(package: Path) -> None:
    skip_without_the_sanitizer()
    for folder in EXAMPLES.iterdir():
        shutil.copytree(folder, package / "ops" / folder.name, dirs_exist_ok=True)
    for template in ("matmul", "attention", "reduction"):
        anyop_command(package, "new", "--op", f"my_{template}", "--template", template)
    output = anyop_command(package, "test", "--sanitize", "thread")
    assert "ok     my_matmul.HasNoRaces\n" in output
    assert "ok     add_rows.HasNoRaces\n" in output
    assert re.search(r"race_ops.my_reduction cpu_portable\S*: \d\d", output)
    assert output.endswith(" passed, 0 failed\n")


def test_a_compiler_without_the_sanitizer_names_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\necho "${1#-print-file-name=}"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    for command in ("build", "test"):
        at = ["--folder", str(package)] if command == "test" else [str(package)]
        done = CliRunner().invoke(app, [command, *at, "--sanitize", "thread"])
        assert done.exit_code == 1
        assert done.output == (
            f"Error: {compiler} has no libtsan.so, which --sanitize thread needs. Try installing "
            "the package that holds it: libgcc-N-dev on Debian and Ubuntu (N is the version of "
            "g++), libtsan on Fedora, gcc-toolset-N-libtsan-devel with a gcc-toolset.\n"
        )
    with pytest.raises(anyop.NotAvailable, match="cannot be built: .* has no libtsan.so, which"):
        anyop.testing.program(is_sanitized=True)


def test_the_sanitizer_has_a_folder_of_its_own(package: Path) -> None:
    for other in ("--watch", "--debug"):
        words = ["build", str(package), "--sanitize", "thread", other]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert "--sanitize goes with neither --watch nor --debug." in done.output
    done = CliRunner().invoke(app, ["test", "--folder", str(package), "--sanitize", "memory"])
    assert done.exit_code == 2
    assert "'memory' is not 'thread'." in done.output
