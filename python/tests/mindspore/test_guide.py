# SPDX-License-Identifier: Apache-2.0
"""What docs/mindspore.md says, where it needs a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
OPERATOR = EXAMPLES / "mindspore_operator"


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


@needs_compiler
@pytest.mark.slow
def test_an_operator_of_ones_own(tmp_path: Path) -> None:
    printed(sys.executable, "-m", "anyop", "new", "my_ops", folder=tmp_path)
    package = tmp_path / "my_ops"
    for name, place in {
        "my_custom_op.cc": "ops/my_custom_op/my_custom_op.cc",
        "my_custom_op_reference.cc": "ops/my_custom_op/reference.cc",
        "advance_step.cc": "ops/advance_step/advance_step.cc",
        "check_my_ops.py": "tests/test_my_ops.py",
    }.items():
        (package / place).parent.mkdir(exist_ok=True)
        shutil.copy(OPERATOR / name, package / place)
    printed(sys.executable, "-m", "anyop", "build", folder=package)
    path = os.pathsep.join([str(package / "src"), os.environ.get("PYTHONPATH", "")])
    shown = printed(sys.executable, OPERATOR / "use.py", folder=package, PYTHONPATH=path)
    results = ["[3. 5. 7.]"] * 2 + ["[2. 2. 2.]"] * 2 + ["[3. 5. 7.]"]
    assert shown == [*results, *["[28] [9] [4] [5]"] * 2]
    run = [sys.executable, "-m", "pytest", "-q", "tests/test_my_ops.py"]
    assert "2 passed" in printed(*run, folder=package, PYTHONPATH=path)[-1]


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
