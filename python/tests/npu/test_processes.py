# SPDX-License-Identifier: Apache-2.0
"""What a process says that the virtual NPU ends or refuses, or whose program waits too little."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS = ("ANYOP_", "ASCEND_", "LD_LIBRARY_PATH")


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "ANYOP_NPU": "1", **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_host_that_reads_device_memory_is_named() -> None:
    ran = run(
        "import ctypes, torch\nx = torch.ones(4, device='npu')\nctypes.string_at(x.data_ptr(), 4)"
    )
    assert ran.returncode < 0
    assert "npu:0: the host touched device memory at offset 0x" in ran.stderr


FORGETS = """
import torch
torch.npu.set_device(0)
right = wrong = 0
for i in range(20):
    there, here = torch.full((4,), float(i + 1), device="npu"), torch.zeros(4).pin_memory()
    torch.npu.synchronize()
    for _ in range(20):
        there = there + 0
    here.copy_(there, non_blocking=True)
    {wait}
    wrong += here[0].item() != i + 1
    torch.npu.synchronize()
    right += here[0].item() == i + 1
print(right, wrong > 0)
"""


@pytest.mark.parametrize(
    ("wait", "finds"), [("", True), ("torch.npu.current_stream().synchronize()", False)]
)
def test_result_that_is_read_too_early(wait: str, finds: bool) -> None:
    ran = run(FORGETS.format(wait=wait), ANYOP_NPU="delay")
    assert ran.stdout == f"20 {finds}\n", ran.stderr


def test_stream_that_waits_for_no_other() -> None:
    code = """
import torch
other, wrong = torch.npu.Stream(), {True: 0, False: 0}
for waits in (True, False):
    for i in range(20):
        x = torch.zeros(4, device="npu")
        torch.npu.synchronize()
        for _ in range(20):
            x += 1
        if waits:
            other.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(other):
            y = x * 1
        torch.npu.synchronize()
        wrong[waits] += y[0].item() != 20
print(wrong[True], wrong[False] > 0)
"""
    ran = run(code, ANYOP_NPU="delay")
    assert ran.stdout == "0 True\n", ran.stderr


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"ANYOP_NPU": "late"},
            "anyop.npu: virtual NPU: ANYOP_NPU is 'late', but must be 1, aclnn, empty or delay.",
        ),
        (
            {"ANYOP_ASCEND_SOC": "ascend9"},
            "anyop.npu: virtual NPU: ANYOP_ASCEND_SOC is 'ascend9', but must be ascend910b | "
            "ascend910_93 | ascend310p.",
        ),
        (
            {"ASCEND_HOME_PATH": "/opt/cann"},
            "anyop.npu: ANYOP_NPU asks for the virtual NPU, but a CANN is here: ASCEND_HOME_PATH "
            "is /opt/cann. Try without one of them.",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, str], told: str) -> None:
    ran = run("import torch_npu", **settings)
    assert ran.returncode == 1
    assert told in ran.stderr


def test_other_cann_on_the_path_of_libraries(tmp_path: Path) -> None:
    (tmp_path / "libascendcl.so").write_text("")
    ran = run("import torch_npu", LD_LIBRARY_PATH=str(tmp_path))
    assert f"LD_LIBRARY_PATH leads to {tmp_path}/libascendcl.so" in ran.stderr


@pytest.mark.parametrize(
    ("soc", "name"), [("ascend910_93", "Ascend910_9391"), ("ascend310p", "Ascend310P3")]
)
def test_chips(soc: str, name: str) -> None:
    code = "import torch; print(torch.npu.get_device_name(), torch.npu.device_count())"
    ran = run(code, ANYOP_ASCEND_SOC=soc, ANYOP_ASCEND_DEVICES="3")
    assert ran.stdout == f"{name} 3\n", ran.stderr


def test_nothing_is_loaded_without_the_variable() -> None:
    code = "import torch; print('anyop' in open('/proc/self/maps').read(), torch.ones(1).item())"
    ran = run(code, ANYOP_NPU="", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "False 1.0\n", ran.stderr


def test_torch_npu_may_come_last() -> None:
    code = (
        "import torch, anyop\n"
        "import torch_npu\n"
        "x = torch.ones(2, 4, device='npu')\n"
        "print(anyop.rms_norm(x, x[0]).device)"
    )
    ran = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert ran.stdout == "npu:0\n", ran.stderr
