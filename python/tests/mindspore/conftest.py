# SPDX-License-Identifier: Apache-2.0
"""Tests of the MindSpore host: in an environment of their own, as MindSpore needs NumPy 1.

python -m pytest python/tests/mindspore, with the Python of an environment that has MindSpore and
anyop; in any other one nothing is collected.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path

import pytest

collect_ignore_glob = ["*.py"]
found = importlib.util.find_spec("mindspore")
if found and found.origin:  # this folder is called so too
    collect_ignore_glob = []
    os.environ.setdefault("GLOG_v", "4")  # what fails here is looked at by its exception
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hosting"))
    import anyop.mindspore

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anyop.mindspore.use_plugin()  # before any operator runs, here where test files are read


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore leaves files in the working directory where a graph is refused."""
    monkeypatch.chdir(tmp_path)
