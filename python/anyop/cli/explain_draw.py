# SPDX-License-Identifier: Apache-2.0
"""A dispatch as a picture: the kernels of an operator in order, down to the first one that fits."""

from __future__ import annotations

import anyop
from anyop.cli.narrow import CHARACTER, LINE, Column

MARK = 10  # where the line of the kernels is
TEXT = 28


def svg(explanation: anyop.Explanation) -> str:
    op = explanation.op.removeprefix("anyop.")
    column = Column(f"Which kernel a call of {op} takes", [explanation.call])
    if explanation.error:
        column.wrapped(0, explanation.error, "lost")
    taken = next((i for i, k in enumerate(explanation.kernels) if k.taken), None)
    last = 0.0
    for i, kernel in enumerate(explanation.kernels):
        middle = column.y + LINE - 4
        if last and (taken is None or i <= taken):  # those behind it are not looked at
            column.path("flow", f"M{MARK} {last:.1f}V{middle - 6:.1f}")
        last = middle + 6
        _kernel(column, kernel, middle)
    column.y += 4
    for note in explanation.notes:
        column.wrapped(0, note)
    if not explanation.error:
        column.wrapped(0, _work(explanation), "dim")
    return column.svg(f"Which kernel a call of {op} takes: {explanation.kernel or 'none'}")


def _kernel(column: Column, kernel: anyop.KernelChoice, middle: float) -> None:
    """Its mark, its name, and behind or below it why it is not taken."""
    look = "taken" if kernel.taken else "free"
    column.parts.append(f'<circle class="{look}" cx="{MARK}" cy="{middle:.1f}" r="6"/>')
    column.y += LINE
    column.text(TEXT, kernel.kernel, "name" if kernel.taken else "dim")
    if kernel.taken:
        sign = f"M{MARK - 3} {middle:.1f}l2 2.5l4 -5"
        column.parts.append(f'<path d="{sign}" fill="none" stroke="#fff" stroke-width="1.6"/>')
        time = f", {kernel.probe_ns:.0f} ns measured" if kernel.probe_ns >= 0 else ""
        column.text(TEXT + (len(kernel.kernel) + 2) * CHARACTER, f"taken{time}", "name")
    else:
        column.wrapped(TEXT, kernel.reason.removeprefix("declined: "), "dim")
    column.y += 6


def _work(explanation: anyop.Explanation) -> str:
    several = f"up to {explanation.threads} threads" if explanation.threads > 1 else "one thread"
    return (
        f"workspace {explanation.workspace_bytes:,} bytes; about {explanation.estimated_ns:,.0f} "
        f"ns of work by .flops and .bytes, on {several}"
    )
