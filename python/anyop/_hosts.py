# SPDX-License-Identifier: Apache-2.0
"""Hosts that start when their framework is imported, whichever of the two comes first."""

from __future__ import annotations

import importlib
import sys
import warnings

from anyop.hosting import when_imported


def operators_changed() -> None:
    """Tells the hosts that are running of operators that were loaded a moment ago."""
    host = sys.modules.get("anyop.torch")
    register_new = getattr(host, "register_new", None)
    if register_new is not None:
        register_new()


def _start_torch() -> None:
    try:
        importlib.import_module("anyop.torch")
    except Exception as error:  # importing torch must not fail because of us
        warnings.warn(
            f"anyop's torch host does not start: {type(error).__name__}: {error}. "
            "Try `python -m anyop doctor`.",
            RuntimeWarning,
            stacklevel=2,
        )


def start() -> None:
    """Waits for the frameworks; starts the hosts of those that are here."""
    when_imported("torch", _start_torch)
