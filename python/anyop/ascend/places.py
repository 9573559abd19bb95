# SPDX-License-Identifier: Apache-2.0
"""Where something stands: what a message is about in a TOML file, and lines of faults."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyop import _anyop
from anyop.ascend.build import include_folder

_TIMEOUT_S = 20


@contextmanager
def told_of(place: str) -> Iterator[None]:
    """Puts a place, such as "silu.toml: x of [silu.arguments]", before what is refused."""
    try:
        yield
    except _anyop.InvalidArgument as error:
        if not place or str(error).startswith(place):
            raise
        raise _anyop.InvalidArgument(f"{place}: {error}") from None


def located(row: dict[str, Any]) -> dict[str, Any]:
    """A finding with the line of the instruction that faulted, where debug information has it."""
    file, _, offset = row.pop("code", "").rpartition("+")
    for path, line in _lines(file, offset) if file else ():
        if not path.startswith(str(include_folder())):  # a header of ours was inlined there
            row["file"], row["line"] = path, line
            break
    return row


def _lines(file: str, offset: str) -> Iterator[tuple[str, int]]:
    """Files and lines of a code address, those of the innermost inlined function first. There are
    none without binutils.
    """
    command = ["addr2line", "-i", "-e", file, offset]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for text in done.stdout.splitlines():
        path, _, line = text.partition(" (")[0].rpartition(":")
        if line.isdigit() and int(line):
            yield path, int(line)
