# SPDX-License-Identifier: Apache-2.0
"""Hosts that start when their framework is imported, whichever of the two comes first."""

from __future__ import annotations

import functools
import importlib
import sys
import warnings

from anyop.hosting import when_imported
from anyop.hosting.sentences import clause

# Imported when a host starts, as the module of a host imports its framework.
_HOSTS = {
    "torch": lambda: importlib.import_module("anyop.torch"),
    "jax": lambda: importlib.import_module("anyop.jax"),
    "mindspore": lambda: importlib.import_module("anyop.mindspore"),
}


def operators_changed() -> None:
    """Tells the hosts that are running of operators that were loaded a moment ago."""
    register_new = getattr(sys.modules.get("anyop.torch"), "register_new", None)
    if register_new is not None:  # JAX and MindSpore look for them when they compile
        register_new()


def start_torch() -> None:
    """Starts torch's host before torch is imported whole. torch_npu is loaded while torch is still
    importing, and operators of its virtual device call anyop's in torch.
    """
    _HOSTS["torch"]()


def _start(host: str) -> None:
    try:
        _HOSTS[host]()
    except Exception as error:  # importing the framework must not fail because of us
        warnings.warn(
            f"anyop's {host} host does not start: {type(error).__name__}: {clause(error)}. "
            "Try `python -m anyop doctor`.",
            RuntimeWarning,
            stacklevel=2,
        )


def start() -> None:
    """Starts the hosts of the frameworks that are imported; the others start when theirs is."""
    for host in _HOSTS:
        when_imported(host, functools.partial(_start, host))
