# SPDX-License-Identifier: Apache-2.0
"""The kernels for CUDA cards, as the build finds them in the sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from checkout import ROOT

KERNEL = """extern constinit const DeviceKernel {name}{{.op = "anyop.add", .kernel = &kKernel}};
"""


def listed(output: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    tool = [sys.executable, str(ROOT / "tools" / "list_cuda.py"), "--output", str(output)]
    return subprocess.run([*tool, *map(str, files)], capture_output=True, text=True, check=False)


def test_every_kernel_of_the_tree_is_in_the_table(tmp_path: Path) -> None:
    files = sorted((ROOT / "ops").glob("*/cuda.cu"))
    assert files
    assert listed(tmp_path / "table.cc", *files).returncode == 0
    table = (tmp_path / "table.cc").read_text()
    for file in files:
        assert f"reinterpret_cast<const anyop_device_kernel*>(&{file.parent.name}_cuda)," in table
    assert f"return {len(files)};" in table


def test_a_file_without_a_kernel_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "cuda.cu"
    source.write_text("const DeviceKernel add{};\n")
    done = listed(tmp_path / "table.cc", source)
    assert done.returncode == 1
    assert done.stderr == f"{source}: no line is 'extern constinit const DeviceKernel NAME{{'.\n"


def test_two_kernels_of_one_name_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one.cu", tmp_path / "two.cu"
    one.write_text(KERNEL.format(name="add"))
    two.write_text(KERNEL.format(name="add"))
    done = listed(tmp_path / "table.cc", one, two)
    assert done.stderr == f"{two}: add is defined twice. Rename one of them.\n"


def test_no_kernels_make_an_empty_table(tmp_path: Path) -> None:
    assert listed(tmp_path / "table.cc").returncode == 0
    assert "return 0;" in (tmp_path / "table.cc").read_text()
