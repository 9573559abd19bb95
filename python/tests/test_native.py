# SPDX-License-Identifier: Apache-2.0
"""Which kernels a build for this machine compiles (ANYOP_NATIVE, cmake/isa.cmake)."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest
from checkout import ROOT

PROJECT = f"""
cmake_minimum_required(VERSION 3.25)
project(some_ops LANGUAGES CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
include({ROOT}/cmake/anyop.cmake)
anyop_add_library(some_ops NAME some_ops FOLDER ${{CMAKE_CURRENT_SOURCE_DIR}}/ops)
"""
DECLARED = "extern const Kernel both_avx2 [[gnu::weak]];\n"
# Both instruction sets, the lesser alone, and what has neither.
FILES = {
    "both/both.cc": DECLARED,
    "both/portable.cc": "",
    "both/cpu_avx2.cc": "",
    "both/cpu_avx512.cc": "",
    "one/one.cc": "",
    "one/cpu_avx2.cc": "",
}


def features() -> set[str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return set(next(line for line in lines if line.startswith("flags")).split())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="one instruction set on this machine")
@pytest.mark.parametrize("native", ["OFF", "ON", "BEST"])
def test_a_native_build_compiles_what_this_machine_runs(tmp_path: Path, native: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    for name, text in FILES.items():
        file = tmp_path / "ops" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DANYOP_NATIVE={native}"]
    subprocess.run(command, check=True, capture_output=True)
    commands = json.loads((tmp_path / "build" / "compile_commands.json").read_text())
    files = {c["file"].partition("/ops/")[2]: c["command"] for c in commands}
    found = set(files) & set(FILES)

    has_avx2 = native == "OFF" or {"avx2", "fma", "f16c"} <= features()
    has_avx512 = native == "OFF" or {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features()
    wanted = {"both/both.cc", "both/portable.cc", "one/one.cc"}
    if has_avx512:
        wanted.add("both/cpu_avx512.cc")
    if has_avx2:
        wanted.add("one/cpu_avx2.cc")
        if native != "BEST" or not has_avx512:
            wanted.add("both/cpu_avx2.cc")
    assert found == wanted
    quickly = {name for name in found if files[name].rfind(" -O1") > files[name].rfind(" -O3")}
    best = native == "BEST" and has_avx2
    assert quickly == ({"both/both.cc", "both/portable.cc"} if best else set())


def test_a_warning_is_no_error_for_a_user(tmp_path: Path) -> None:
    """Compilers that are newer than ours warn of more."""
    options = ["-DANYOP_BUILD_PYTHON=OFF", "-DCMAKE_BUILD_TYPE=Release"]
    command = ["cmake", "-S", ROOT, "-B", tmp_path, *options]
    subprocess.run(command, check=True, capture_output=True)
    users = (tmp_path / "compile_commands.json").read_text()
    assert "-Wall" in users and "-Werror" not in users
    template = [ROOT / "cmake" / "anyop.cmake", *(ROOT / "python/anyop/template").rglob("*")]
    assert not [file for file in template if file.is_file() and "-Werror" in file.read_text()]
    checked = (ROOT / "build" / "release" / "CMakeCache.txt").read_text()
    if "ANYOP_BUILD_TESTS:UNINITIALIZED=ON" in checked or "ANYOP_BUILD_TESTS:BOOL=ON" in checked:
        ours = json.loads((ROOT / "build" / "release" / "compile_commands.json").read_text())
        assert all("-Werror" in c["command"] for c in ours)
