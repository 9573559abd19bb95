# SPDX-License-Identifier: Apache-2.0
"""What `anyop bench model examples/smollm2` times is the same model in every way."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "smollm2"
HAS_TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.slow
@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("weights", "ours", "against", "rows"),
    [
        ("f32", "captured", "numpy", ["decode f32, captured", "prefill f32, captured"]),
        (
            "bf16,q4_1",
            "captured",
            "torch" if HAS_TORCH else "none",
            ["decode bf16, captured", "decode q4_1, captured, rows of the file"],
        ),
    ],
)
def test_all_ways_find_the_same_tokens(
    weights: str, ours: str, against: str, rows: list[str]
) -> None:
    short = ("--steps", "8", "--rounds", "1", "--prefill", "16", "--threads", "2", "--json")
    command = [sys.executable, "-m", "anyop", "bench", "model", str(HERE), *short]
    chosen = ("--weights", weights, "--ours", ours, "--against", against)
    done = subprocess.run([*command, *chosen], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = {row["sizes"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) <= set(found)
    for row in found.values():
        theirs = {against} - {"none"} if "q4_1" not in row["sizes"] else set()
        assert set(row["timings"]) == {"anyop", *theirs}
        assert all(t["matches"] and t["best_us"] > 0 for t in row["timings"].values())
