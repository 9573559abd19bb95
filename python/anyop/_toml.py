# SPDX-License-Identifier: Apache-2.0
"""The module that reads TOML."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from anyop import _anyop


def toml_module() -> Any:
    """tomllib, which Python has since 3.11, or tomli, which pytest brings. Raises NotAvailable."""
    for name in ("tomllib", "tomli"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise _anyop.NotAvailable("reading TOML needs tomli. Try: pip install tomli")
