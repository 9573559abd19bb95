# SPDX-License-Identifier: Apache-2.0
"""docs/vllm_own.md is true: from `anyop new` to the counter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import anyop
import in_vllm
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/vllm_operator"
PAGE = (ROOT / "docs/vllm_own.md").read_text(encoding="utf-8")
# Of `pip install .`, what vLLM sees: the package on its path, and its entry points.
ENTRY_POINTS = re.search(r"```toml\n(.*?)```", PAGE, re.S)


def new_package(folder: Path) -> Path:
    """The package of the page, built."""
    bin_folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}

    def command(*words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "anyop", *words], cwd=folder, env=env, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    command("new", "my_ops", "--dir", ".")
    operator = folder / "ops/my_silu"
    operator.mkdir()
    for name in ("my_silu.cc", "reference.cc"):
        (operator / name).write_text((EXAMPLE / name).read_text())
    (folder / "src/my_ops/in_vllm.py").write_text((EXAMPLE / "in_vllm.py").read_text())
    command("check")
    command("build")
    return folder


@pytest.mark.exhaustive
def test_the_walk_of_the_page(tmp_path: Path) -> None:
    in_vllm.interpreter()
    (tmp_path / "my_ops").mkdir()
    source = new_package(tmp_path / "my_ops") / "src"
    assert ENTRY_POINTS
    points = ENTRY_POINTS[1].replace('[project.entry-points."anyop.vllm"]', "[anyop.vllm]")
    in_vllm.distribution(source, "my_ops", points.replace('"', ""))
    model = in_vllm.model()
    if not model.exists():
        in_vllm.engines({})
    done = in_vllm.command(
        str(EXAMPLE / "use.py"), str(model), paths=(source,), VLLM_ENABLE_V1_MULTIPROCESSING="1"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (counted,) = re.findall(r"^worker 0: (\d+) calls of my_ops\.my_silu$", done.stdout, re.M)
    assert int(counted) >= 16  # eight tokens, two layers
    explained = in_vllm.command(
        "-m", "anyop", "vllm", "explain", str(model), "--enforce-eager", "--max-model-len=256",
        "--kv-cache-memory-bytes", str(1 << 25), paths=(source,),
    )  # fmt: skip
    assert explained.returncode == 0, explained.stderr[-3000:]
    (line,) = [one for one in explained.stdout.splitlines() if one.startswith("SiluAndMul")]
    assert line.split()[1:3] == ["my_ops.my_silu", "2"]
    assert line.endswith("by my_ops.my_silu")


def test_the_operator_of_the_page(tmp_path: Path) -> None:
    """Its kernels, where vLLM is not needed."""
    library = anyop.inline((EXAMPLE / "my_silu.cc").read_text())
    x = np.random.default_rng(0).normal(size=(3, 2, 74)).astype(np.float32)
    gate, up = np.split(x.astype(np.float64), 2, axis=-1)
    wanted = gate / (1 + np.exp(-gate)) * up
    np.testing.assert_allclose(library.my_silu(x), wanted, rtol=1e-5, atol=1e-6)
