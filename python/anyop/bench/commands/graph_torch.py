# SPDX-License-Identifier: Apache-2.0
"""What a call of a torch program of 50 small operators costs, by who compiled it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

import anyop
import anyop.torch
from anyop.bench.commands.interleave import interleave

OPERATORS = 50
PART = f"torch, a call of {OPERATORS} small operators"


def rows(quick: bool) -> list[dict[str, Any]]:
    """part, what, value (microseconds, the least of many turns), unit, note (beside eager)."""
    names, statements = _calls()
    measured = interleave(statements, names, 20 if quick else 200)
    return [
        {
            "part": PART,
            "what": row.what,
            "value": round(row.ns / 1e3, 2),
            "unit": "us",
            "note": f"{row.ratio} of eager" if row.ratio is not None else "",
        }
        for row in measured
    ]


def _calls() -> tuple[dict[str, Any], list[Any]]:
    """Each program in each way, called already."""
    x, w = torch.randn(4, 64), torch.rand(64)
    names: dict[str, Any] = {"x": x, "w": w}
    statements = []
    for kind, program in (("anyop's", _ours), ("torch's", _torchs)):
        eager = f"{kind}: eager"
        for how, made in _ways(program, x, w).items():
            name = f"f{len(names)}"
            names[name] = made
            for _ in range(3):
                torch.testing.assert_close(made(x, w), program(x, w))
            beside = "" if how == "eager" else eager
            statements.append((f"{kind}: {how}", f"{name}(x, w)", beside))
    return names, statements


def _ours(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(OPERATORS // 2):
        x = anyop.add(anyop.add(x, w), x)
    return x


def _torchs(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(OPERATORS // 2):
        x = torch.sigmoid(x) * w
    return x


def _ways(program: Callable[..., Any], x: torch.Tensor, w: torch.Tensor) -> dict[str, Any]:
    ways: dict[str, Any] = {"eager": program}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for backend in ("inductor", "anyop"):
            compiled = torch.compile(_again(program), backend=backend, fullgraph=True)
            try:
                compiled(x, w)
            except Exception:  # Inductor needs a C++ compiler
                continue
            ways[f"torch.compile, {backend}"] = compiled
        ways["anyop.torch.capture"] = anyop.torch.capture(program, x, w)
    return ways


def _again(program: Callable[..., Any]) -> Callable[..., Any]:
    """Another code object: compiled code is kept by code."""
    code = program.__code__.replace(co_name=program.__name__ + "_again")
    return FunctionType(code, program.__globals__, program.__name__)
