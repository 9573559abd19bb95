# SPDX-License-Identifier: Apache-2.0
"""How ./check runs tests and counts them: ctest, pytest, checks without tests of their own."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import PYTHON, StepFailed, run

FAST, DEFAULT, ALL = 0, 1, 2  # the tiers
MOST_AGAIN = 3  # failed tests that are run once more
HANGS = 900  # seconds, after which a test is ended with the stacks of its threads


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)  # tests of pytest, with their last line
    unsteady: list[str] = field(default_factory=list)  # failed beside others, passed alone

    def step(self, name: str, action: Callable[[], None]) -> None:
        """A check without tests of its own counts as one."""
        try:
            action()
            self.passed += 1
        except StepFailed as failure:
            self.fail(name, failure)

    def fail(self, name: str, failure: StepFailed) -> None:
        print(failure, file=sys.stderr)
        self.failed += 1
        self.broken.append(name)

    def junit(self, path: Path) -> None:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            tests = int(suite.get("tests", 0))
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
            self.passed += tests - bad - skipped
            self.skipped += skipped


@dataclass
class Failure:
    """A failed test of pytest. printed: the end of what pytest printed of it."""

    test: str
    message: str
    printed: str

    def __str__(self) -> str:
        return f"{self.test}: {self.message.partition(chr(10))[0][:200]}"


def failures_of(report: Path) -> list[Failure]:
    return [
        Failure(
            f"{case.get('classname')}::{case.get('name')}",
            (why.get("message") or "no message").strip(),
            "\n".join((why.text or "").splitlines()[-60:]),
        )
        for case in ElementTree.parse(report).getroot().iter("testcase")
        for why in (*case.findall("failure"), *case.findall("error"))
    ]


def count_gtest(output: str) -> tuple[int, int, int]:
    passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) tests?", output))
    skipped = sum(int(n) for n in re.findall(r"\[  SKIPPED \] (\d+) tests?,", output))
    failed = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) tests?,", output))
    return passed, failed, skipped


def ctest(
    tally: Tally, title: str, build: Path, *arguments: str, env: dict[str, str] | None = None
) -> None:
    # The whole log holds what each program printed; ctest itself counts programs only.
    command: Sequence[str | Path] = [
        "ctest", "--test-dir", build, "-j2", "-V", "--timeout", str(HANGS), *arguments
    ]  # fmt: skip
    try:
        output = run(title, command, env=env, summary=lambda o: f"{count_gtest(o)[0]} passed")
        passed, failed, skipped = count_gtest(output)
    except StepFailed as failure:
        output = prepare.log_of(title).read_text(errors="replace")
        passed, failed, skipped = count_gtest(output)
        failures = print_failures(output)
        crashed = any(reason != "Failed" for _, reason in failures_of_ctest(output).values())
        few = not crashed and few_enough(failures)
        if few and pass_alone(title, [*command, "-j1", "--rerun-failed"], env):
            tally.unsteady += failures
            passed, failed = passed + len(failures), 0
        else:
            tally.failures += failures
            tally.fail(title, failure)
    tally.passed += passed
    tally.skipped += skipped
    tally.failed += max(0, failed - 1)
    if passed == 0:
        tally.fail(title, StepFailed(f"{title}: no test ran."))


def few_enough(failures: Sequence[object]) -> bool:
    return 1 <= len(failures) <= MOST_AGAIN


def failures_of_ctest(output: str) -> dict[str, tuple[str, str]]:
    """Programs that ctest lists as failed, by their number: name, and "Failed", "SEGFAULT", ..."""
    listed = re.findall(r"^\s+(\d+) - (\S+) \((.*)\)", output, re.M)
    return {number: (name, reason) for number, name, reason in listed}


def print_failures(output: str) -> list[str]:
    """The failed tests of failed programs, after what each has printed: of a long log often only
    the end is kept.
    """
    lines, failures = output.splitlines(), []
    for number, (program, reason) in failures_of_ctest(output).items():
        printed = [line for line in lines if line.startswith(f"{number}: ")]
        starts = [i for i, line in enumerate(printed) if "[ RUN      ]" in line]
        for i, line in enumerate(printed):
            if test := re.search(r"\[  FAILED  \] ([^ ,]+).* \(\d+ ms\)$", line):
                begin = max((start for start in starts if start <= i), default=i)
                story = printed[max(begin, i - 60) : i + 1]
                print("\n".join(story), file=sys.stderr)
                why = re.search(r": Failure\n((?:.*\n){1,4})", "\n".join(story))
                said = re.sub(rf"^{number}: *", "", why[1], flags=re.M) if why else ""
                failures.append(f"{test[1]}: {' '.join(said.split())[:300]}")
        print("\n".join(printed[-10:]), file=sys.stderr)
        if reason != "Failed":
            failures.append(f"{program}: {reason}")
    return failures


def pass_alone(title: str, command: Sequence[str | Path], env: dict[str, str] | None) -> bool:
    """Whether tests pass that have failed beside others: what waits for a core or measures time may
    fail where the machine is busy. Not to be asked of many, and not of a crash.
    """
    try:
        run(f"{title}, again", command, env=env)
    except StepFailed:
        return False
    return True


def pytest(
    tally: Tally,
    title: str,
    *arguments: str | Path,
    start: Sequence[str] = ("-m", "pytest"),
    env: dict[str, str] | None = None,
    python: Path = PYTHON,
) -> None:
    report = prepare.LOGS / (re.sub(r"\W+", "-", title) + ".xml")
    report.unlink(missing_ok=True)
    # By a thread that ends the process: what hangs in C++ never comes back to an interpreter.
    limit = [f"--timeout={HANGS}", "--timeout-method=thread"]
    options = ["-q", "-rs", "--durations=20", f"--junit-xml={report}"]
    command = [python, *start, *options, *limit, *arguments]

    def last_line(output: str) -> str:
        lines = output.strip().splitlines()
        counts = [line for line in lines if re.search(r" in \d+\.\d+s", line)]
        return (counts or lines)[-1].strip("= ")[:24]  # other lines may come later, by workers

    try:
        output = run(title, command, env=env, summary=last_line)
        for line in sorted(set(re.findall(r"^SKIPPED .*$", output, re.M))):
            print(f"    {line}")
    except StepFailed as failure:
        failures = failures_of(report) if report.exists() else []
        for one in failures:  # of a long log often only the end is kept: what matters stands there
            print(f"{one}\n{one.printed}", file=sys.stderr)
        crashed = any("crashed" in f.message or "Timeout" in f.message for f in failures)
        again = [c for c in command if not str(c).startswith("--junit-xml")]
        again += ["-n", "0", "--last-failed", "--last-failed-no-failures=none"]
        if not crashed and few_enough(failures) and pass_alone(title, again, env):
            tally.unsteady += map(str, failures)
            tally.passed += len(failures)
        else:
            tally.failures += map(str, failures)
            tally.fail(title, failure)
    if report.exists():
        tally.junit(report)
