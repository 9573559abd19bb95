# SPDX-License-Identifier: Apache-2.0
"""Does what a newcomer does: every command of README.md and of docs/first_operator.md, and what
they advise in turn, cut out of the documents and run in exactly what a user has.

    python3 tools/newcomer.py --python VENV/bin/python    in an environment that has anyop
    python3 tools/newcomer.py --demo                      in what ./demo leaves in a fresh checkout

Code that a document cuts from a file is left out, as tests run the file, and so is a block that
imports a framework where the environment has none, as the page says that it needs it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import ROOT, StepFailed, main_guard, run

DOCUMENTS = ("README.md", "docs/first_operator.md")
BLOCK = re.compile(r"(<!-- from: .*-->\n)?^```(bash|python)\n(.*?)^```$", re.M | re.S)
# "Try: anyop list", "Now:" with a command a line below, "Go on:  . .venv/bin/activate; anyop -h".
ADVICE = re.compile(r"(?:\b(?:Try|Go on|After a change): +(.+)|\bNow:\n((?:  .+\n?)+))")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b")  # "Try: anyop explain OP"
FRAMEWORKS = ("torch", "jax", "mindspore")


def pieces(document: str, has: tuple[str, ...] = FRAMEWORKS) -> Iterator[tuple[str, str]]:
    """(language, text) of the blocks of a document; neighbouring blocks of Python are one. has: the
    frameworks that are there.
    """
    code: list[str] = []
    for is_cut, language, text in BLOCK.findall((ROOT / document).read_text(encoding="utf-8")):
        if is_cut:
            continue
        if language == "python":
            needs = re.findall(r"^import (\w+)", text, re.M)
            if not any(name in FRAMEWORKS and name not in has for name in needs):
                code.append(text)
            continue
        if code:
            yield "python", "\n".join(code)
            code = []
        yield language, text
    if code:
        yield "python", "\n".join(code)


def advice(output: str) -> list[str]:
    """The commands that an output advises."""
    found = []
    for line, lines in ADVICE.findall(output):
        command = " && ".join(word.strip() for word in (line or lines).strip().splitlines())
        if re.match(r"(anyop|python3?|pip|cd|\.) ", command) and not PLACEHOLDER.search(command):
            found.append(command.strip())
    return found


class Shell:
    """A shell that keeps its folder and its variables from one piece to the next."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.state = folder / ".state"
        self.env = env
        self.state.write_text(f"cd '{folder}'\n")
        self.run_already: set[str] = set()

    def run(self, title: str, text: str, keep: bool = True) -> str:
        saved = f"{{ declare -px; echo \"cd '$PWD'\"; }} > '{self.state}'" if keep else ""
        script = f"source '{self.state}'\nset -e\n{text}\n{saved}"
        return run(title, ["bash", "-c", script], env=self.env)

    def follow(self, title: str, text: str) -> None:
        """A piece, and then what its output advises, in the folder in which the piece began."""
        before = self.state.read_text()
        output = self.run(title, text)
        if re.search(r"\b[1-9]\d* failed", output):
            raise StepFailed(f"{output}\n{title}: a test failed.")
        after = self.state.read_text()
        for command in advice(output):
            if command in self.run_already or command in text:
                continue
            self.run_already.add(command)
            self.state.write_text(before)
            self.run(f"as advised: {command}"[:44], command, keep=False)
            self.state.write_text(after)


def walk(python: Path, folder: Path, documents: tuple[str, ...] = DOCUMENTS) -> None:
    """The pieces of the documents, each document in an empty folder."""
    probe = "import importlib.util as u; print(*filter(u.find_spec, {names!r}))"
    has = subprocess.run(
        [python, "-c", probe.format(names=FRAMEWORKS)], capture_output=True, text=True, check=True
    ).stdout.split()
    own = str(Path(sys.prefix) / "bin")
    others = [p for p in os.environ["PATH"].split(os.pathsep) if p != own and ".venv" not in p]
    env = {
        "PATH": os.pathsep.join([str(python.parent), *others]),
        "PYTHONPATH": "",
        "ANYOP_CACHE": str(folder / "cache"),  # as empty as a newcomer's
    }
    for document in documents:
        place = folder / Path(document).stem
        place.mkdir()
        shell = Shell(place, env)
        for language, text in pieces(document, tuple(has)):
            title = text.strip().splitlines()[0][:40]
            if language == "python":
                text = f"python - <<'END_OF_PYTHON'\n{text}\nEND_OF_PYTHON"
            shell.follow(f"{Path(document).stem}: {title}"[:44], text)


def after_demo(folder: Path) -> None:
    """A fresh checkout, ./demo in it, what its last line advises, and the documents."""
    tree = folder / "anyop"
    files = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=True,
    ).stdout.split(b"\0")  # fmt: skip
    there = b"\0".join(name for name in files if name and (ROOT / os.fsdecode(name)).exists())
    tree.mkdir()
    pack = f"tar -C '{ROOT}' --null -T - -c | tar -C '{tree}' -x"
    subprocess.run(["bash", "-c", pack], input=there, check=True)
    shell = Shell(folder, {"PYTHONPATH": "", "ANYOP_CACHE": str(folder / "cache")})
    shell.run("go to a fresh checkout", f"cd '{tree}'")
    shell.follow("./demo", './demo "Why is the sky blue?"')
    if not shell.run_already:
        raise StepFailed("./demo advises nothing to go on with.")
    walk(tree / ".venv" / "bin" / "python", folder)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--python", type=Path, help="of an environment that has anyop")
    parser.add_argument("--demo", action="store_true", help="make one with ./demo")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if args.demo:
            after_demo(Path(name))
        if args.python:
            walk(args.python.absolute(), Path(name))
    total = sum(spent.seconds for spent in prepare.STEPS.values())
    print(f"  {len(prepare.STEPS)} pieces ran in {total:.0f} s")
    return 0


if __name__ == "__main__":
    main_guard(main)
