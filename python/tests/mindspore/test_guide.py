# SPDX-License-Identifier: Apache-2.0
"""What docs/mindspore.md says, where it needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_example_runs() -> None:
    example = Path(__file__).resolve().parents[3] / "examples" / "mindspore_decoder.py"
    run = [sys.executable, str(example)]
    done = subprocess.run(run, capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.splitlines() == [*(f"token {i}: True" for i in range(3)), "(16,)"]


TRACED = """
import anyop, mindspore, numpy
def program(x):
    return anyop.gelu(x) + 1
try:
    mindspore.jit(program, capture_mode="trace")(mindspore.Tensor(numpy.ones(3, "f4")))
except anyop.InvalidArgument as error:
    print(error)
"""


def test_a_trace_that_would_keep_the_first_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "traced.py").write_text(TRACED)
    run = [sys.executable, str(tmp_path / "traced.py")]
    done = subprocess.run(run, capture_output=True, text=True, env=os.environ, check=False)
    assert done.stdout.strip() == (
        "gelu: x is traced by mindspore.jit, which records MindSpore's own operators alone. Try "
        'capture_mode="ast".'
    )
