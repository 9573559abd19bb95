# SPDX-License-Identifier: Apache-2.0
"""How torch calls reach the kernels: the compiled adapter, or Python."""

from __future__ import annotations
from typing import Any


def adapter() -> Any:
    return None


def status() -> dict[str, Any]:
    return {"route": "python route", "why": "no adapter yet"}
