# SPDX-License-Identifier: Apache-2.0
"""Measuring kernels of which the machine decides the better one: `anyop.tune`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from anyop import _anyop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Operator = Callable[..., Any]


class TunedChoice(NamedTuple):
    """Two kernels of an operator, both measured on one kind of calls."""

    op: str
    version: str  # of the library that the operator came from
    contract: str  # the hash of its contract
    call: str  # "T=bf16, form 2"
    first: str  # the kernel that is taken where nothing is recorded
    second: str
    first_ns: float
    second_ns: float

    @property
    def taken(self) -> str:
        """The kernel that calls of this kind take."""
        return self.second if self.second_ns < self.first_ns else self.first

    @property
    def stale(self) -> str:
        """Why the choice is not used, as the operator has changed since; "" if it is used."""
        return _anyop.why_stale(self)


def tune(*ops: Operator | str, file: str | os.PathLike[str] | None = None) -> list[TunedChoice]:
    """Measures kernels of which the machine decides the better one, and records the choices.

    Operators may state that two kernels want to be measured. Such kernels round differently; where
    nothing is recorded the first is taken, in every process. Without `ops`, all loaded operators
    are measured, in well under a second; `file` is by default the one that `tuned_file()` names.
    What it holds of other operators stays. Processes that start later take the faster kernels; so
    does this one if no call of it has met such a pair yet.

    InvalidArgument: there is no file to write to, or something else lies there. NotAvailable: it
    cannot be written.
    """
    path = file_of(file)
    choices = [choice for name in wanting(ops) for choice in measure(name)]
    record(path, choices)
    return choices


def tuned_file() -> str:
    """Where this process looks for what `tune` recorded; "" for nowhere.

    It is `ANYOP_TUNED`, or else a file in anyop's cache folder that is named after the machine.
    """
    return _anyop.tuned_path()


def file_of(file: str | os.PathLike[str] | None) -> str:
    """The file to write to."""
    path = tuned_file() if file is None else os.fsdecode(file)
    if not path:
        raise _anyop.InvalidArgument(
            "tune: no file is given, but ANYOP_TUNED is none or there is no cache folder. "
            "Try another ANYOP_TUNED, or a file."
        )
    return path


def wanting(ops: Iterable[Operator | str] = ()) -> list[str]:
    """Those of these operators, or of all, that have two kernels to be measured on this machine."""
    names = [_name_of(op) for op in ops] or sorted(_anyop.functions())
    return [name for name in dict.fromkeys(names) if _anyop.wants_tuning(name)]


def _name_of(op: Operator | str) -> str:
    import json

    return str(json.loads(_anyop.info_json(op))["name"])


def measure(name: str) -> list[TunedChoice]:
    """Every pair of kernels of an operator, for every kind of its calls that both take."""
    return [TunedChoice(*row) for row in _anyop.measure_pairs(name)]


def record(file: str, choices: Sequence[TunedChoice]) -> None:
    """Replaces what the file holds of the operators of these choices; drops what is stale."""
    if not choices:
        return
    replaced, loaded = {choice.op for choice in choices}, _anyop.functions()
    others = [
        choice
        for choice in read(file)[0]
        if choice.op not in replaced and (choice.op not in loaded or not choice.stale)
    ]
    _anyop.write_tuned(file, [*others, *choices])


def read(file: str) -> tuple[list[TunedChoice], str]:
    """The choices that a file holds for this machine, and why there are none."""
    rows, problem = _anyop.read_tuned(file)
    return [TunedChoice(*row) for row in rows], problem


def in_use() -> dict[str, Any]:
    """The file that processes use now: its path, choices, how many are stale, and what is wrong."""
    file = tuned_file()
    choices, problem = read(file) if file else ([], "no file is looked for")
    stale = sum(bool(choice.stale) for choice in choices)
    return {"file": file, "choices": len(choices), "stale": stale, "problem": problem}


def in_use_text() -> str:
    """The same as a line."""
    found = in_use()
    if not found["problem"]:
        stale = f", of which {found['stale']} are stale" if found["stale"] else ""
        return f"{found['choices']} choices of {found['file']}{stale}"
    where = f"{found['file']}: " if found["file"] else ""
    return f"none, so that the first of two kernels is taken ({where}{found['problem']})"
