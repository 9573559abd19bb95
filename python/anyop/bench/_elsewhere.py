# SPDX-License-Identifier: Apache-2.0
"""Contenders in another interpreter: their rounds interleave with ours, results are compared."""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import anyop
from anyop.bench._settle import settle
from anyop.bench.interpreters import opponent

PAUSE_S = 5e-3  # between rounds of two processes, so that neither wakes up in the other's
STORED = {np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3"}
RAW = {2: np.uint16, 1: np.uint8}


class Elsewhere:
    """A process of an opponent's interpreter that answers requests, one at a time."""

    _running: dict[str, Elsewhere] = {}

    def __init__(
        self, name: str, program: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        """env: all of its environment; without, that of this process."""
        self.name = name
        # A file, as a pipe that nobody reads would stop the process once it is full.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True, env=env,
        )  # fmt: skip
        self.about: dict[str, str] = self._answer()
        atexit.register(self.stop)

    @classmethod
    def of(cls, name: str) -> Elsewhere:
        """The process of an opponent, started where there is none."""
        running = cls._running.get(name)
        if running is None or running._process.poll() is not None:
            cls._running[name] = running = cls(name, opponent(name).program)
        return running

    def ask(self, do: str, **request: Any) -> Any:
        """The answer. Throws NotAvailable where the other side fails, with its error."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(json.dumps({"do": do, **request}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def call(self, file: Path, function: str, **args: Any) -> Any:
        """A function of a file, over there; arguments and answer are JSON."""
        return self.ask("call", file=str(file), function=function, args=args)

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise anyop.NotAvailable(
                f"bench: {self.name} ended with status {code}: {said[-1] if said else 'no word'}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise anyop.NotAvailable(f"bench: {self.name}: {answer['error']}")
        return answer["answer"]


class RemoteContender:
    """What Contender is, of a function in bench_NAME.py beside the operator's bench.py."""

    def __init__(
        self, name: str, file: Path, function: str, arrays: Mapping[str, Any], copies: int,
        round_s: float, process: Elsewhere | None = None,
    ) -> None:  # fmt: skip
        """process: the opponent's own, if it is none of `anyop bench opponents`."""
        self.label = name
        self.seconds: list[float] = []
        self._process = process or Elsewhere.of(name)
        self._process.ask("threads", count=anyop.get_num_threads())
        with tempfile.TemporaryDirectory() as folder:
            stored, result = Path(folder) / "arrays.npz", Path(folder) / "result.npy"
            kept: dict[str, np.ndarray] = {}
            layout = {key: _laid_out(value, kept) for key, value in arrays.items()}
            np.savez(stored, **kept)  # type: ignore[arg-type]
            self._process.ask(
                "prepare", file=str(file), function=function, arrays=str(stored), layout=layout,
                copies=copies, round_s=round_s, result=str(result),
            )  # fmt: skip
            self._result = np.load(result)

    def result(self) -> np.ndarray:
        given: np.ndarray = self._result
        return given

    def warm_up(self, is_cold: bool) -> None:
        self._process.ask("warm_up", is_cold=is_cold)

    def round(self, is_cold: bool) -> None:
        time.sleep(PAUSE_S)
        self.seconds.append(self._process.ask("round", is_cold=is_cold))
        time.sleep(PAUSE_S)
        settle()


def _laid_out(value: Any, kept: dict[str, np.ndarray]) -> Any:
    """The value with its arrays named; they go into `kept` as numbers that every NumPy reads."""
    if isinstance(value, (list, tuple)):
        return [_laid_out(v, kept) for v in value]
    if not isinstance(value, np.ndarray):
        return value
    dtype = STORED.get(value.dtype, "")
    name = f"a{len(kept)}"
    kept[name] = value.view(RAW[value.itemsize]) if dtype else value
    return {"array": name, "dtype": dtype}
