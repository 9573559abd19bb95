# SPDX-License-Identifier: Apache-2.0
"""What `anyop test` says of kernels that end its process."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import anyop
import pytest
from anyop import testing
from anyop._packages import BUILT
from anyop.cli import app
from click.testing import CliRunner

# What a kernel does after it has computed its result, and how the report says it.
ENDS = {
    "aborts": ("std::abort();", "calls abort(), as an assertion does that does not hold."),
    "divides": (
        "y.row<float>(0)[0] = float(7 / zero);",
        "divides an integer by zero (SIGFPE).",
    ),
    "overflows": (
        "y.row<float>(0)[0] = float(Deeper(1));",
        r"uses up its stack of \d+ KiB. Arrays that large, or recursion that deep, need memory of "
        "the workspace: see .workspace.",
    ),
    "reads_null": (
        "y.row<float>(0)[0] = *reinterpret_cast<volatile float*>(zero);",
        r"(reads|accesses) what a null pointer points to (address 0x0). An argument that may be "
        "absent is null then, and a result that is declined.",
    ),
    "throws": (
        '[]() noexcept { throw std::runtime_error("of its own"); }();',
        "throws std::runtime_error (of its own), which nothing catches.",
    ),
    "writes_far": (
        "y.base<volatile float>()[std::size_t(1) << 34] = 1;",
        r"(writes|accesses) memory that it does not have, at address 0x[0-9a-f]+: byte \d+ "
        r"(after the end|before the beginning) of (argument x|result y), which is the "
        "nearest memory of the call. Its loops must stay within the tensors.",
    ),
}
if platform.machine() == "x86_64":
    ENDS["loads_aligned"] = (
        'asm volatile("movaps 4(%0), %%xmm0" ::"r"(x.base<const float>()) : "xmm0");',
        "uses an address that is not aligned as the instruction needs it, or that no memory can "
        "have. A tensor may begin at any element: its vectors are loaded and stored unaligned.",
    )
HEAD = """
#include <cstdlib>
#include <stdexcept>

#include "anyop/op.h"

namespace anyop::ops {
namespace {
volatile long zero = 0;
[[gnu::noinline]] int Deeper(int n) {
  volatile char room[4096];
  room[0] = char(n);
  return Deeper(n + 1) + room[0];
}
"""
OPERATOR = """
namespace {
void Run_NAME(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::size_t i = 0; i < x.row<const float>(r).size(); ++i) {
      y.row<float>(r)[i] = x.row<const float>(r)[i];
    }
  }
  LINE
}
constexpr Kernel kNAME{.name = "cpu_f32", .run = Bind<&Run_NAME>()};
constexpr const Kernel* kAllNAME[] = {&kNAME};
}  // namespace
extern constinit const Op NAME{
    .signature = "NAME(x: f32[..., d]) -> (y: f32[..., d]) where d >= 1, rows(x) >= 1",
    .kernels = kAllNAME,
};
"""
REFERENCES = """
#include "anyop/op.h"

namespace anyop::ops {
namespace {
void Run(const Context&, const Tensor& x, const Tensor& y) {
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < x.row_size(); ++i) {
      y.row<double>(r)[std::size_t(i)] = Read(x, x.row_offset(r) + i);
    }
  }
}
}  // namespace
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Operators that end the process, and one behind them that does not, built."""
    folder = tmp_path_factory.mktemp("crashes") / "crash_ops"
    made = CliRunner().invoke(app, ["new", "crash_ops", "--dir", str(folder)])
    assert made.exit_code == 0, made.output
    lines = {name: line for name, (line, _) in ENDS.items()} | {"zzz": ""}
    text, references = HEAD + "}  // namespace\n", REFERENCES
    for name, line in lines.items():
        text += OPERATOR.replace("NAME", name).replace("LINE", line)
        references += (
            f'extern constinit const Reference {name}_reference{{.op = "{name}", '
            ".run = Bind<&Run>()};\n"
        )
    for file in (folder / "ops" / "scale").iterdir():
        file.unlink()
    (folder / "ops" / "scale").rename(folder / "ops" / "zzz")
    (folder / "ops" / "zzz" / "zzz.cc").write_text(text + "}  // namespace anyop::ops\n")
    (folder / "ops" / "zzz" / "reference.cc").write_text(
        references + "}  // namespace anyop::ops\n"
    )
    run(folder, "build", status=0)
    return folder


def run(folder: Path, *words: str, status: int) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "anyop", *words], cwd=folder, env={**os.environ}, text=True,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == status, done.stdout
    return done.stdout


def pattern(text: str) -> str:
    """Of a text in which parentheses are meant but those with an | in them."""
    return re.sub(r"\((?![^)]*\|)([^)]*)\)", r"\\(\1\\)", text)


@pytest.mark.slow
def test_each_crash_is_one_report_and_others_are_tested(package: Path) -> None:
    output = run(package, "test", status=1)
    for name, (_, what) in ENDS.items():
        (report,) = re.findall(rf"^FAILED {name}\..*\n(?:.*\n){{4}}", output, re.M)
        test, said, call, again, others = report.splitlines()
        assert test == f"FAILED {name}.MatchesItsReference"
        assert re.fullmatch("it ends the process: kernel cpu_f32 " + pattern(what), said), said
        assert call == f"  crash_ops.{name}(x: f32[17])"
        assert re.fullmatch(r"  run this call alone with --call=\d+", again)
        assert others == f"  the tests of {name} end with it; those of others go on"
    assert "ok     zzz.MatchesItsReference\n" in output
    assert output.endswith(f" passed, {len(ENDS)} failed\n")
    assert "kernel runs" not in output


@pytest.mark.slow
def test_pytest_shows_the_report_of_a_crash(package: Path) -> None:
    target = testing.target_of(package / BUILT / "crash_ops.so")
    case = testing.Case(target, "divides", "MatchesItsReference")
    with pytest.raises(AssertionError) as failed:
        case.run()
    said, call, again = str(failed.value).splitlines()
    assert said == f"it ends the process: kernel cpu_f32 {ENDS['divides'][1]}"
    (number,) = re.findall(r"--call=(\d+)$", again)
    with pytest.raises(AssertionError, match=re.escape(call.strip())):
        case.run(f"--call={number}")


def test_a_test_that_is_killed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system, which may be out of memory: no handler of signals runs."""
    asked: list[tuple[str, ...]] = []

    def once(target: testing.Target, *flags: str) -> list[tuple[str, str]]:
        asked.append(flags)
        if len(asked) > 1:
            return [("run", "b.Two"), ("ok", "b.Two"), ("end", ""), ("status", "0")]
        return [("run", "a.One"), ("said", "..."), ("status", "-9")]

    monkeypatch.setattr(testing, "_run_once", once)
    target = testing.Target(Path(anyop.__file__), None, "")
    assert list(testing.run_all(target, "--seed=3")) == [
        ("run", "a.One"), ("said", "..."), ("said", "it ends the process: SIGKILL"),
        ("lost", "a.One"), ("run", "b.Two"), ("ok", "b.Two"), ("end", ""), ("status", "1"),
    ]  # fmt: skip
    assert asked == [("--seed=3",), ("--seed=3", "--after=a")]
