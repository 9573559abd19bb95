# SPDX-License-Identifier: Apache-2.0
"""Exceptions in anyop's own code that must not stop a program: they are logged, once each."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from anyop.hosting.sentences import clause
from anyop.torch._route.route import environment

_logged: set[str] = set()  # places


def log_defect(name: str, error: Exception) -> None:
    """Once for each place in anyop's code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
    if place in _logged:
        return
    _logged.add(place)
    logging.getLogger("anyop").warning(
        "%s runs through torch because of a defect of anyop: %s: %s (%s). Please report it; "
        "anyop.strict() raises it.", name, type(error).__name__, clause(error), place,
        exc_info=error if environment("ANYOP_LOG") == "graph" else None,
    )  # fmt: skip
