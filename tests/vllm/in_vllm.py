# SPDX-License-Identifier: Apache-2.0
"""Runs a program where vLLM is, beside the anyop of this process, and reads what it found.

VLLM_PYTHON names the interpreter of an environment with vLLM (docs/vllm.md makes one); tests are
left out, and say so, where there is none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyop
import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = Path(anyop.__file__).parent.parent
ENTRY_POINTS = """[vllm.platform_plugins]
anyop = anyop_vllm:platform
[vllm.general_plugins]
anyop = anyop_vllm:general
"""
MARK = "RESULT "


def interpreter() -> str:
    named = os.environ.get("VLLM_PYTHON", "")
    if named:
        return named
    if find_spec("vllm"):
        return sys.executable
    pytest.skip("no vLLM here: VLLM_PYTHON names no interpreter of an environment that has it")


@cache
def version() -> str:
    """The number of the interpreter's vLLM: "0.27.1"."""
    asked = "import importlib.metadata as m; print(m.version('vllm').partition('+')[0])"
    found = subprocess.run([interpreter(), "-c", asked], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def distribution(folder: Path, name: str, entry_points: str) -> Path:
    """A folder for PYTHONPATH in which a package of this name is installed."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    return folder


@cache
def _folder() -> Path:
    return distribution(Path(tempfile.mkdtemp()), "anyop", ENTRY_POINTS)


def command(
    *words: str, paths: tuple[Path, ...] = (), seconds: int = 300, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Runs the interpreter of vLLM with anyop and what lies in `paths`."""
    path = os.pathsep.join(map(str, (PACKAGE, _folder(), HERE, *paths)))
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        **settings,
    }
    return subprocess.run(
        [interpreter(), *words], env=env, capture_output=True, text=True, timeout=seconds,
        check=False,
    )  # fmt: skip


def run(program: str, *words: str, **more: Any) -> Any:
    """What a program of this folder printed as its result."""
    done = command(str(HERE / program), *words, **more)
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(MARK):
            return json.loads(line.removeprefix(MARK))
    raise AssertionError(f"{program} {words}: {done.returncode}\n{done.stdout[-3000:]}\n"
                         f"{done.stderr[-6000:]}")  # fmt: skip


@cache
def model() -> Path:
    """A tiny llama, made by the first who asks."""
    return Path(tempfile.mkdtemp()) / "model"


def engines(asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    """By name: the tokens of an engine of the tiny model, and what `explain` says of it."""
    found = run("engine_program.py", str(model()), json.dumps(list(asked.values())), **more)
    return dict(zip(asked, found, strict=True))
