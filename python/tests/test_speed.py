# SPDX-License-Identifier: Apache-2.0
"""Costs as ratios in one run. The bounds are wide: they catch a lost fast path, not noise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from anyop.bench.commands.calls import measure


@pytest.mark.bench
def test_calls_cost_a_fraction_of_numpys() -> None:
    rows = {row.what: row for row in measure()}
    for row in rows.values():
        print(row)
    assert (rows["anyop.add(a, b, out=c)"].ratio or 9) < 0.6
    assert (rows["anyop.add(x=a, y=b, out=c)"].ratio or 9) < 0.6
    assert (rows["anyop.add(a, b)"].ratio or 9) < 0.9


@pytest.mark.bench
def test_import_takes_little_beyond_numpy() -> None:
    code = (
        "import time, numpy; t = time.perf_counter(); import anyop; "
        "print((time.perf_counter() - t) * 1e3)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    print(f"import anyop: {min(times):.1f} ms")
    assert min(times) < 100
