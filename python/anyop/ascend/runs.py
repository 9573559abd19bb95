# SPDX-License-Identifier: Apache-2.0
"""Calls of kernels, each in a process that they may end."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anyop import _anyop
from anyop.ascend.arguments import described
from anyop.ascend.build import Settings, host_library, library
from anyop.ascend.case import Case, number_of_blocks, ordered, places_of_arguments
from anyop.ascend.native import kernels_of
from anyop.ascend.source import Source


@dataclass(frozen=True)
class Finding:
    """What the checked build found. level: "error"; "strict", which the vendor's compiler repairs;
    "note". insert: what mends it, or "". there_*: the other place of a race, "" and 0 without one;
    there_block: -1. sizes, seed: of the first try that found it.
    """

    kind: str
    level: str
    text: str
    insert: str = ""
    file: str = ""
    line: int = 0
    there_file: str = ""
    there_line: int = 0
    block: int = -1
    there_block: int = -1
    count: int = 1
    kernel: str = ""
    blocks: int = 0
    sizes: str = ""
    seed: int = 0

    def key(self) -> tuple[Any, ...]:
        return (self.kind, self.file, self.line, self.there_file, self.there_line)


@dataclass(frozen=True)
class Try:
    """One call: its sizes, its number of blocks, the seed of its data and of the blocks' order."""

    sizes: dict[str, int]
    blocks: int
    seed: int

    def said(self) -> str:
        return " ".join(f"--size {name}={size}" for name, size in self.sizes.items())


@dataclass(frozen=True)
class Run:
    """A kernel of a file, and how it is called."""

    source: Source
    kernel: str
    case: Case
    settings: Settings = Settings()
    strict: bool = False
    max_steps: int = 0
    timeout_s: float = 60.0
    save: Path | None = None

    def tries(self, number: int, seed: int) -> list[Try]:
        """The largest sizes first, then what is drawn. A try of its own has the seed that is told
        of it.
        """
        sizes = self.case.largest()
        tries = [Try(sizes, number_of_blocks(self.case, sizes), seed)]
        for i in range(number):
            drawn = self.case.drawn(np.random.default_rng([seed, i]))
            tries.append(Try(drawn, number_of_blocks(self.case, drawn), seed + i + 1))
        return tries

    def check(self, tries: Sequence[Try]) -> Iterator[list[Finding]]:
        """The findings of each try."""
        answers = self._answers(tries, checked=True)
        for one, answer in zip(tries, answers, strict=False):
            one = replace(one, blocks=answer.get("blocks", one.blocks))
            yield [self._finding(row, one) for row in answer["findings"]]

    def timed(self) -> Any:
        """Results and time of the fast build, for the largest sizes."""
        one = self.tries(0, 0)[0]
        answer = next(self._answers([one], checked=False))
        for found in answer.get("findings", ()):
            if found["level"] == "error":
                text = found["text"].removesuffix(".")
                raise _anyop.InvalidArgument(
                    f"{self.kernel}: {text}. Try `anyop ascend check`, which says where."
                )
        return answer

    def _finding(self, row: dict[str, Any], one: Try) -> Finding:
        return Finding(
            **row, kernel=self.kernel, blocks=one.blocks, sizes=one.said(), seed=one.seed
        )

    def _answers(self, tries: Sequence[Try], checked: bool) -> Iterator[dict[str, Any]]:
        task = self._task(tries, checked)
        left = list(tries)
        # A kernel may end its process: the next one goes on behind the try that did.
        while left:
            task["tries"] = [asdict(one) for one in left]
            made = 0
            for answer in _work(task, self.timeout_s):
                if "error" in answer:
                    raise _anyop.InvalidArgument(f"{self.kernel}: {answer['error']}")
                made += 1
                yield answer
                if "died" in answer:
                    break
            left = left[made:]
            if not made:
                return

    def _task(self, tries: Sequence[Try], checked: bool) -> dict[str, Any]:
        file = library(self.source, [self.kernel], checked, self.settings)
        try:
            (kernel,) = kernels_of(file).values()
        except OSError:  # somebody has damaged it
            file.unlink()
            file = library(self.source, [self.kernel], checked, self.settings)
            (kernel,) = kernels_of(file).values()
        names = self.source.names(self.kernel)
        if names is not None and len(names) != len(kernel.parameters):
            names = None
        parameters = [described(letter, size) for letter, size in kernel.parameters]
        return {
            "library": str(file),
            "kernel": kernel.name,
            "checked": checked,
            "strict": self.strict,
            "soc": self.case.soc,
            "soc_place": self.case.places.get("soc", ""),
            "tiling_key": self.case.tiling_key,
            "tiling": self._tiling(),
            "max_steps": self.max_steps,
            "arguments": ordered(self.case, names, parameters),
            "places": places_of_arguments(self.case, names, len(parameters)),
            "names": [(names[i] if names else "") or f"arg{i}" for i in range(len(parameters))],
            "save": str(self.save.resolve()) if self.save else "",
        }

    def _tiling(self) -> dict[str, Any] | None:
        tiling = self.case.tiling
        if tiling is None:
            return None
        if self.case.blocks != "1" or self.case.tiling_key:
            raise _anyop.InvalidArgument(
                f"{self.kernel}: blocks and tiling_key are given, but the tiling function says "
                "them. Try without them."
            )
        made = host_library(tiling.file, self.settings)
        return {
            "library": str(made),
            "op": tiling.op,
            "attributes": dict(tiling.attributes),
            "place": self.case.places.get("tiling", ""),
        }


def _work(task: dict[str, Any], timeout_s: float) -> Iterator[dict[str, Any]]:
    """Answers of a worker. One that dies or takes too long gives a finding of that, as its last."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "anyop.ascend.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin and worker.stdout
    # By a thread and a queue, as there is no time limit for reading a pipe.
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(worker.stdout, lines), daemon=True).start()
    try:
        try:
            worker.stdin.write(json.dumps(task))
            worker.stdin.close()
        except BrokenPipeError:
            pass  # it has died; its status says why
        for _ in task["tries"]:
            try:
                line = lines.get(timeout=timeout_s)
            except queue.Empty:
                yield _died("timeout", f"The kernel has run for {timeout_s:g} s without an end.")
                return
            if not line:
                yield _died("crash", _why(worker.wait()))
                return
            yield json.loads(line)
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(5)  # it may have something to print
    finally:
        worker.kill()
        worker.wait()


def _read(stream: Any, lines: queue.SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _died(kind: str, text: str) -> dict[str, Any]:
    return {"findings": [{"kind": kind, "level": "error", "text": text}], "died": True}


def _why(status: int) -> str:
    if status >= 0:
        return f"The process of the kernel ended with status {status}."
    return f"The process of the kernel was ended by {signal.Signals(-status).name}."


def merged(found: dict[tuple[Any, ...], Finding], findings: Sequence[Finding]) -> None:
    """Keeps one of each pair of places, of the first try that found it, with their number."""
    for finding in findings:
        had = found.get(finding.key())
        count = finding.count + (had.count if had else 0)
        found[finding.key()] = replace(had or finding, count=count)
