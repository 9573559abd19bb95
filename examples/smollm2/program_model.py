# SPDX-License-Identifier: Apache-2.0
"""The saved model in anyop-run: the host is C++, and the program has no Python."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import anyop
from anyop.cli.run import program

from .save import save
from .weights import ModelFile


class ProgramModel:
    """Saved to a folder that does not exist yet."""

    def __init__(self, file: ModelFile, dtype: str, folder: Path) -> None:
        save(file, folder, dtype)
        self._folder = folder

    def decode(self, prompt: list[int], ids: list[int]) -> tuple[list[float], list[int]]:
        """Decodes ids after the prompt: seconds of each step, the likeliest token after it. The
        program goes on with what it finds likeliest; where that is not what comes, -1 follows.
        """
        found, at = self._run(prompt, len(ids) + 1)
        pairs = enumerate(zip(found, ids, strict=False))
        right = next((k for k, (a, b) in pairs if a != b), len(ids))
        likeliest = [*found[1 : right + 1], *[-1] * len(ids)][: len(ids)]
        seconds = [b - a for a, b in zip(at, at[1:], strict=False)]
        return seconds, likeliest

    def prefill(self, prompt: list[int]) -> float:
        """Seconds until the first token, loading included."""
        start = time.perf_counter()
        return self._run(prompt, 1)[1][0] - start

    def _run(self, prompt: list[int], tokens: int) -> tuple[list[int], list[float]]:
        """The tokens and when each came."""
        command = [
            str(program()), str(self._folder), "--ids", ",".join(map(str, prompt)),
            "--tokens", str(tokens), "--threads", str(anyop.get_num_threads()),
        ]  # fmt: skip
        found, at = [], []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                at.append(time.perf_counter())
                found.append(int(line))
        return found, at
