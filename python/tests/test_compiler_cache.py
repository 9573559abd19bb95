# SPDX-License-Identifier: Apache-2.0
"""What the build's compiler cache returns is made of the files that are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from checkout import ROOT


@pytest.mark.slow
def test_copies_of_a_tree_do_not_get_each_others_headers(tmp_path: Path) -> None:
    if not shutil.which("ccache"):
        pytest.skip("ccache is not installed")
    header, made = tmp_path / "h.h", tmp_path / "h.h.gch"
    (tmp_path / "h.cxx").write_text("")
    (tmp_path / "main.cc").write_text("int main() { return number; }")
    env = {**os.environ, "CCACHE_DIR": str(tmp_path / "cache")}
    options = ["g++", "-fpch-preprocess", "-include", str(header)]

    def built(number: int) -> int:
        header.write_text(f"#pragma once\nconstexpr int number = {number};\n")
        time.sleep(1.5)  # ccache does not trust files that are younger
        compiler = [str(ROOT / "cmake" / "ccached.sh"), *options]
        parts = ["-x", "c++-header", "-o", "h.h.gch", "-c", "h.cxx"]
        subprocess.run([*compiler, *parts], cwd=tmp_path, env=env, check=True)
        subprocess.run([*options, "main.cc", "-o", "main"], cwd=tmp_path, check=True)
        return subprocess.run([tmp_path / "main"], check=False).returncode

    assert built(3) == 3
    copied = made.read_bytes()
    assert built(4) == 4
    made.write_bytes(copied)  # of a copy of the first tree
    assert built(5) == 5
