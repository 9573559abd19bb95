# SPDX-License-Identifier: Apache-2.0
"""What docs/mindspore.md says, where it needs a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
OPERATOR = EXAMPLES / "mindspore_operator"
PAGE = EXAMPLES.parent / "docs" / "mindspore.md"


def test_the_example_runs() -> None:
    run = [sys.executable, str(EXAMPLES / "mindspore_decoder.py")]
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


needs_compiler = pytest.mark.skipif(
    not all(map(shutil.which, ("cmake", "ninja", "g++"))), reason="needs cmake, ninja and g++"
)


def printed(*command: object, folder: Path, **variables: str) -> list[str]:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=folder,
        env={**os.environ, **variables}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


# What is typed, or a file and where it belongs.
BLOCK = re.compile(
    r"^```bash\n(.*?)^```$|`(\S+)`:\n\n<!-- from: \S+ -->\n```\w+\n(.*?)^```$", re.M | re.S
)


@needs_compiler
@pytest.mark.slow
def test_an_operator_of_ones_own(tmp_path: Path) -> None:
    """Every block of that part of the page, in an empty folder."""
    own = PAGE.read_text().split("## An operator of one's own")[1].split("For comparison")[0]
    blocks = BLOCK.findall(own)
    assert [place for _, place, _ in blocks if place] == re.findall(r"`(\S+)`:$", own, re.M)
    folder, script = tmp_path / "bin", ["set -e"]
    folder.mkdir()
    for name, module in (("anyop", "-m anyop"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (folder / name).chmod(0o755)
    for typed, place, text in blocks:
        script.append(typed if typed else f"cat > {place} <<'END'\n{text}END")
    (tmp_path / "walk").mkdir()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    shown = printed("bash", "-c", "\n".join(script), folder=tmp_path / "walk", PATH=path)
    results = ["[3. 5. 7.]"] * 2 + ["[2. 2. 2.]"] * 2 + ["[3. 5. 7.]"]
    at = shown.index(results[0])
    assert shown[at : at + 7] == [*results, *["[28] [9] [4] [5]"] * 2]
    assert "2 passed" in shown[-1]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_the_old_way_beside_it(tmp_path: Path) -> None:
    library = tmp_path / "old_way.so"
    printed("g++", "-shared", "-fPIC", OPERATOR / "old_way.cc", "-o", library, folder=tmp_path)
    shown = printed(sys.executable, OPERATOR / "old_way.py", library, folder=tmp_path)
    assert shown == ["[3. 5. 7.]"] * 2 + ["[2. 2. 2.]"]


RUN = """
import sys
import mindspore as ms
import numpy as np
name, source = "old_way_runner", sys.argv[1]
built = ms.ops.CustomOpBuilder(name, [source], backend="CPU", build_dir=".").load()
x = ms.Tensor(np.array([1, 2, 3], np.float32))
print(built.my_custom_op(2.0, 1.0, x))
print(ms.grad(lambda x: built.my_custom_op(2.0, 1.0, x))(x))
"""


@pytest.mark.exhaustive  # it compiles MindSpore's headers: a minute
@pytest.mark.skipif(not shutil.which("g++") or not shutil.which("ninja"), reason="needs g++, ninja")
def test_the_runner_of_the_old_way(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(RUN)
    source = OPERATOR / "old_way_runner.cc"
    shown = printed(sys.executable, "run.py", source, folder=tmp_path)
    assert shown[-2:] == ["[3. 5. 7.]", "[0. 0. 0.]"]
