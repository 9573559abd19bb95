# SPDX-License-Identifier: Apache-2.0
"""Runs in an opponent's interpreter: python server.py SIDE_FILE. A JSON line asks, one answers.

call      {file, function, args}: the function's answer
prepare   {file, function, arrays, layout, copies, round_s, result}: makes a contender's calls and
          saves what the first one gives
warm_up, round   {is_cold}: of the contender; seconds of a call
threads   {count}
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from rounds import Rounds  # type: ignore[import-not-found]


def load(path: str) -> ModuleType:
    """The module of a file, once."""
    name = "elsewhere_" + "".join(c if c.isalnum() else "_" for c in path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


class Server:
    """Does what the other interpreter asks for: a method for each request."""

    def __init__(self, side: Any) -> None:
        self.side = side
        self.rounds: Any = None
        self.arrays: list[SimpleNamespace] = []

    def threads(self, count: int) -> None:
        self.side.set_threads(count)

    def call(self, file: str, function: str, args: dict[str, Any]) -> Any:
        return getattr(load(file), function)(**args)

    def prepare(
        self, file: str, function: str, arrays: str, layout: dict[str, Any], copies: int,
        round_s: float, result: str,
    ) -> None:  # fmt: skip
        """The function gets the side and the arrays; it returns a call and what the call fills,
        or None where the call returns it."""
        self.rounds, self.arrays = None, []  # the last contender's memory goes first
        build, stored = getattr(load(file), function), np.load(arrays)
        # Kept: a library may read an array by its address alone.
        self.arrays = [self._arrays(layout, stored) for _ in range(copies)]
        made = [build(self.side, arrays) for arrays in self.arrays]
        call, filled = made[0]
        given = call()
        np.save(result, self.side.to_numpy(given if filled is None else filled))
        self.rounds = Rounds([call for call, _ in made], round_s)

    def warm_up(self, is_cold: bool) -> None:
        assert self.rounds
        self.rounds.warm_up(is_cold)

    def round(self, is_cold: bool) -> float:
        assert self.rounds
        seconds: float = self.rounds.round(is_cold)
        return seconds

    def _arrays(self, layout: dict[str, Any], stored: Any) -> SimpleNamespace:
        def made(value: Any) -> Any:
            if isinstance(value, list):
                return [made(v) for v in value]
            if isinstance(value, dict):
                return self.side.array(stored[value["array"]], value["dtype"])
            return value

        return SimpleNamespace(**{name: made(value) for name, value in layout.items()})


def main() -> None:
    """Answers requests, a line of JSON each, until the input ends."""
    # Libraries print: what they print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    side = load(sys.argv[1]).Side()
    server = Server(side)
    print(json.dumps({"answer": side.about()}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"answer": getattr(server, request.pop("do"))(**request)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
