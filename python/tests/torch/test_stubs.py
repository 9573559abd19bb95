# SPDX-License-Identifier: Apache-2.0
"""What a type checker says of calls: one host per call, whose tensors come back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyop
import pytest

pytest.importorskip("torch")
pytest.importorskip("mypy")

CODE = """
import numpy as np
import torch
import anyop

x, w, a = torch.ones(2, 8), torch.ones(8), np.ones(3, np.float32)
y: torch.Tensor = anyop.rms_norm(x, w)
s: torch.Tensor = anyop.add_rms_norm(x, x, w).sum
n: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]" = anyop.add(a, a)
t = anyop.rotary_cache(4, 8, like=torch)
starts = torch.tensor([0, 2])
c: torch.Tensor = anyop.causal_conv1d(x, x, None, x, starts)
c = anyop.causal_conv1d(x, x, conv_state=x, query_start_loc=starts, bias=w)
c = anyop.causal_conv1d(x=x, weight=x, conv_state=x, query_start_loc=starts)
"""
MIXED = "anyop.add(x, a)"  # of two hosts


@pytest.mark.slow
def test_calls_are_typed_by_their_host(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(CODE + MIXED + "\n")
    package = str(Path(anyop.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", sys.executable, "calls.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": "" if "site-packages" in package else package},
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stdout.splitlines() if "error:" in line] == [
        f"calls.py:{CODE.count(chr(10)) + 1}: error: Value of type variable \"_Array\" of \"add\" "
        'cannot be "object"  [type-var]'
    ], done.stdout
