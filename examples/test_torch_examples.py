# SPDX-License-Identifier: Apache-2.0
"""The examples of the PyTorch host run, and say what their texts promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
def test_an_extension_in_cpp_runs_eagerly_with_autograd_and_compiled(tmp_path: Path) -> None:
    out = run("examples.torch_extension", tmp_path)
    assert "torch_extension.add_custom(x: bf16[3, 5], y: bf16[3, 5], alpha: 1.0)" in out
    assert "cpu_portable_bf16: taken" in out
    assert "add_custom: y is f32[2, 5], but must be f32[3, 5] because x is f32[3, 5]." in out
    assert out.endswith("eager, autograd and compiled calls agree\n")


@pytest.mark.slow
def test_a_sigmoid_in_python_trains_as_a_module() -> None:
    out = run("examples.sigmoid_module")
    assert out.startswith("True [0.5 0.5]\n")
    assert out.endswith("eager and compiled, as with torch.nn.Sigmoid\n")


@pytest.mark.parametrize(
    "file", ["sigmoid_module.py", "torch_extension/__main__.py", "torch_extension/ops"]
)
def test_examples_are_short(file: str) -> None:
    path = ROOT / "examples" / file
    for source in [path] if path.is_file() else path.rglob("*.*"):
        assert len(source.read_text().splitlines()) < 100
