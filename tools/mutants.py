# SPDX-License-Identifier: Apache-2.0
"""Plants one defect at a time and sees whether the tests notice: ./check --mutants [words]

The defects are data, in tools/mutants/*.txt:

    mutant: an index may equal its bound
    file: src/runtime/run/index_check.cc
    test: call_test                          a C++ test program, or Python test files; of a file
                                             ascend.cpp it runs the kernel ascend_checked alone
    --- old
    text that stands exactly once in the file
    --- new
    what takes its place; nothing: the text is left out
    --- end

Each is planted in a copy of the tree (build/mutants), where the test is built and run before, when
it must pass, and after, when it must fail. Prints the survivors, and fails if there is one or if an
old text is not found exactly once.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).with_suffix("")
TREE = ROOT / "build" / "mutants"
BUILD = TREE / "build" / "release"  # as in the tree itself, so that a compiler cache may serve
BLOCK = re.compile(
    r"^mutant: (?P<name>.+)\nfile: (?P<file>\S+)\ntest: (?P<test>.+)\n"
    r"--- old\n(?P<old>(?:.*\n)+?)--- new\n(?P<new>(?:.*\n)*?)--- end$",
    re.M,
)
BUILD_SECONDS, TEST_SECONDS = 3600, 900
JOBS = 2  # of a build


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    test: str
    old: str
    new: str

    @property
    def is_python(self) -> bool:
        return ".py" in self.test


def read_mutants(folder: Path = DATA) -> list[Mutant]:
    found = []
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text()
        blocks = [Mutant(**m.groupdict()) for m in BLOCK.finditer(text)]
        if len(blocks) != len(re.findall(r"^mutant:", text, re.M)):
            raise SystemExit(f"{path}: a block is not of the form that tools/mutants.py documents.")
        found += blocks
    return found


def defect(mutant: Mutant, root: Path = ROOT) -> str:
    """What is wrong with the mutant itself; "" if nothing is."""
    path = root / mutant.file
    if not path.exists():
        return f"there is no {mutant.file}"
    times = path.read_text().count(mutant.old)
    if times != 1:
        return f"its old text stands {times} times in {mutant.file}, but must stand there once"
    if mutant.is_python:
        missing = [t for t in mutant.test.split() if ".py" in t and not (root / t).exists()]
        return f"there is no {missing[0]}" if missing else ""
    return "" if test_source(mutant.test, root) else f"no file makes the test {mutant.test}"


def test_source(test: str, root: Path = ROOT) -> Path | None:
    """The source of a C++ test program, by the names that cmake/*.cmake give."""
    if (path := root / "ascend" / "tests" / f"{test.removeprefix('ascend_')}.cc").exists():
        return path
    for path in root.glob("ops/*/*test.cc"):
        if f"{path.parent.name}_{path.stem}" == test:
            return path
    folders = ("src/**", "[to]*", "devices/**")
    found = [path for folder in folders for path in root.glob(f"{folder}/{test}.cc")]
    return found[0] if found else None


def copy_tree() -> None:
    """Copies what has changed, so that the next build begins where the last one ended."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*command, "--exclude-standard"], capture_output=True, check=True)
    names = {name for name in listed.stdout.decode().split("\0") if (ROOT / name).is_file()}
    for name in names:
        source, target = ROOT / name, TREE / name
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    for target in [p for p in TREE.rglob("*") if p.is_file()]:
        path = target.relative_to(TREE)
        if str(path) not in names and path.parts[0] != "build" and "__pycache__" not in path.parts:
            target.unlink()


def quiet(command: Sequence[str | Path], seconds: int) -> subprocess.CompletedProcess[str]:
    # A package of the scratch build, not the one that is installed.
    env = {**os.environ, "PYTHONPATH": f"{BUILD / 'package'}:{TREE}", "OPTEST_LARGE": "none"}
    try:
        return subprocess.run(
            command, cwd=TREE, env=env, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not done after {seconds} s")


def configure() -> None:
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DANYOP_BUILD_TESTS=ON"]
    options += ["-DANYOP_TESTS_JOINED=1"]  # each mutant needs one of them
    pythons = [f"-D{name}_EXECUTABLE={sys.executable}" for name in ("Python", "Python3")]
    done = quiet(["cmake", "-S", TREE, "-B", BUILD, *options, *pythons], BUILD_SECONDS)
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


def build(mutant: Mutant) -> subprocess.CompletedProcess[str]:
    target = "package" if mutant.is_python else mutant.test
    return quiet(["cmake", "--build", BUILD, "--target", target, f"-j{JOBS}"], BUILD_SECONDS)


def test(mutant: Mutant) -> subprocess.CompletedProcess[str]:
    if mutant.is_python:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        return quiet([*command, *mutant.test.split()], TEST_SECONDS)
    program: list[str | Path] = [BUILD / "tests" / mutant.test]
    if mutant.file.endswith("/ascend.cpp"):  # the checks of the dialect notice, on its device
        device = BUILD / "lib/anyop_ascend_device.so"
        program = ["env", f"ANYOP_LOAD={device}", *program, "--kernel=ascend_checked"]
        program += ["--gtest_filter=*.MatchesItsReference"]
    return quiet(program, TEST_SECONDS)


def verdict(mutant: Mutant, passes: dict[str, str]) -> str:
    """What became of it: "killed", or why it was not."""
    if why := defect(mutant):
        return f"broken: {why}"
    if mutant.test not in passes:
        built = build(mutant)
        before = test(mutant) if built.returncode == 0 else built
        passes[mutant.test] = "" if before.returncode == 0 else before.stdout[-1500:]
    if passes[mutant.test]:
        return f"broken: the test fails without it\n{passes[mutant.test]}"
    path = TREE / mutant.file
    right = path.read_text()
    try:
        path.write_text(right.replace(mutant.old, mutant.new))
        built = build(mutant)
        if built.returncode:
            errors = [s for s in built.stdout.splitlines() if " error: " in s]
            return "broken: it does not compile\n" + "\n".join(errors[:3] or [built.stdout[-500:]])
        return "killed" if test(mutant).returncode else "survived"
    finally:
        path.write_text(right)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=raw)
    parser.add_argument("words", nargs="*", help="only mutants whose name, file or test holds one")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    args = parser.parse_args()

    def is_asked(m: Mutant) -> bool:
        return not args.words or any(w in f"{m.name} {m.file} {m.test}" for w in args.words)

    mutants = sorted(filter(is_asked, read_mutants()), key=lambda m: (m.test, m.file))
    if args.list:
        for m in mutants:
            print(f"{m.test:<36} {m.file}: {m.name}")
        return 0
    TREE.mkdir(parents=True, exist_ok=True)
    lock = (TREE.parent / "mutants.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"{TREE} is in use by another run.") from None
    copy_tree()
    configure()
    passes: dict[str, str] = {}
    left = []
    for number, m in enumerate(mutants, 1):
        start = time.monotonic()
        why = verdict(m, passes)
        print(
            f"{number}/{len(mutants)} {why.split(':')[0]:<8} {time.monotonic() - start:5.0f} s  "
            f"{m.test}: {m.name}",
            flush=True,
        )
        if why != "killed":
            left.append(f"\n{m.file}: {m.name}\n  {why}")
    for text in left:
        print(text)
    print(f"{len(mutants)} planted, {len(left)} not killed")
    return 1 if left or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
