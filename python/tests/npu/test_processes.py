# SPDX-License-Identifier: Apache-2.0
"""What a process says that the virtual NPU ends or refuses, or whose program waits too little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

OURS = ("ANYOP_", "ASCEND_", "LD_LIBRARY_PATH")
# Seconds. The stall that was seen lasted four minutes; a start takes one on a busy machine.
STALL = 200


def run(code: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
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
            "anyop.npu: virtual NPU: ANYOP_NPU is 'late', but must be empty, or of the words "
            "1, protect, aclnn, delay and trace.",
        ),
        (
            {"ANYOP_ASCEND_SOC": "ascend9"},
            "anyop.npu: virtual NPU: ANYOP_ASCEND_SOC is 'ascend9', but must be ascend910b | "
            "ascend910_93 | ascend310p | ascend950.",
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


# ---- The end of a process, children, errors.


def last_line(ran: subprocess.CompletedProcess[str]) -> str:
    return [line for line in ran.stderr.splitlines() if line.strip()][-1]


BUSY = """
import torch
x = torch.full((384, 384), 1e-3, device="npu")
for _ in range(50):
    x = x @ x
"""


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(3)", "import os; os._exit(3)"])
def test_process_that_ends_with_work_under_way(end: str) -> None:
    started = time.monotonic()
    ran = run(BUSY + end, ANYOP_NPU="delay")
    assert ran.returncode == (3 if end else 0), ran.stderr
    assert time.monotonic() - started < STALL


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_child_of_a_process_with_work_under_way(end: str) -> None:
    ran = run(
        BUSY
        + f"""
import os, sys
child = os.fork()
if child == 0:
    try:
        torch.ones(2, device="npu")
    except RuntimeError as error:
        print("forked after it had used the device" in str(error), flush=True)
    {end}
os.waitpid(child, 0)
torch.npu.synchronize()
print(x.cpu().isfinite().all().item())
"""
    )
    assert ran.stdout == "True\nTrue\n", ran.stderr
    assert "forked" not in ran.stderr, "it was told already"


def test_memory_that_ends_says_what_there_is() -> None:
    ran = run(
        """
import torch
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 20, device="npu"))
except torch.OutOfMemoryError as error:
    print(error)
print(len(kept), (kept[0].fill_(2) + 0).sum().item() if kept.pop() is not None else 0)
""",
        ANYOP_ASCEND_MEMORY_BYTES=str(1 << 27),
    )
    told, numbers = ran.stdout.rsplit("\n", 2)[:2]
    assert "NPU out of memory. Tried to allocate" in told, ran.stderr
    count, total = numbers.split()
    assert 20 < int(count) < 32 and float(total) == 2 << 20


def test_device_that_there_is_not() -> None:
    ran = run("import torch; torch.ones(1, device='npu:1')", ANYOP_ASCEND_DEVICES="1")
    assert last_line(ran) == (
        "virtual NPU: aclrtSetDevice: there is no device 1, but 1 of them, from 0."
    )


@pytest.mark.parametrize("queue", ["0", "1"])
def test_kernel_that_fails_behind_its_call(queue: str) -> None:
    started = time.monotonic()
    ran = run(
        """
import torch
import torch.nn.functional as F
table, index = torch.zeros(4, 2, device="npu"), torch.tensor([9], device="npu")
F.embedding(index, table)
try:
    torch.npu.synchronize()
except RuntimeError as error:
    print("virtual NPU: aten::embedding: index out of range in self" in str(error))
print((torch.ones(2, device="npu") + 1).tolist())
""",
        TASK_QUEUE_ENABLE=queue,
    )
    assert ran.stdout == "True\n[2.0, 2.0]\n", ran.stderr
    assert time.monotonic() - started < STALL


TOLD = """
import json, sys, torch, torch_npu
told = []
def look(call):
    try:
        return call()
    except RuntimeError as error:
        told.append(str(error).partition("virtual NPU: ")[2] or str(error))
for wrong in json.loads(sys.argv[1]):
    for device in (0, 1):
        torch.npu.set_device(device)
        x, y = torch.randn(2, 3).npu(), torch.full((4,), 2.0).npu()
        told.clear()
        look(lambda: eval(wrong))
        look(lambda: torch.npu.Stream().wait_stream(torch.npu.current_stream()))
        look(torch.npu.synchronize)
        look(torch.npu.synchronize)
        later = [y + 1, torch_npu.npu_fast_gelu(y) > 1.9, y,
                 torch_npu.npu_rms_norm(y, torch.ones(4).npu())[0] > 0.99]
        print(json.dumps([wrong, told, [t.cpu().tolist()[0] for t in later]]))
"""
# With what each is told. What is behind it on the stream is not the same in all queues.
WRONG = {
    "torch_npu.npu_rms_norm(x, torch.ones(5).npu())[0].cpu()": "aclnnRmsNorm: shape '[-1, 5]' is "
    "invalid for input of size 6, with x Float[2, 3], gamma Float[5].",
    "torch_npu.npu_rms_norm(x.int(), x[0])": "aclnnRmsNorm: x is of int32, but must be of "
    "float32, float16 or bfloat16.",
    'torch_npu.npu_ffn(x, x.t().contiguous(), x, "gelu")': "aclnnFFNV2 is not supported.",
    "x[torch.tensor([0, 9]).npu()]": "aten::index: index 9 is out of bounds for dimension 0 with "
    "size 2",
    "torch.nn.functional.embedding(torch.tensor([9]).npu(), x)": "aten::embedding: index out of "
    "range in self",
}
BEHIND = "What was put on the stream behind it has not run."


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_error_is_told_once_and_later_work_runs(queue: str) -> None:
    """On each device, where another stream waits for what has failed, too."""
    ran = run(TOLD, json.dumps(list(WRONG)), TASK_QUEUE_ENABLE=queue)
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    assert len(rows) == 2 * len(WRONG), ran.stderr
    for wrong, told, later in rows:
        text = WRONG[wrong]
        assert told in ([text], [f"{text.removesuffix('.')}. {BEHIND}"])
        assert later == [3.0, True, 2.0, True]


@pytest.mark.parametrize("first", ["x.cpu()", "other.synchronize()"])
def test_late_error_that_another_stream_waits_for_is_told_once(first: str) -> None:
    code = f"""
import torch, torch_npu
x, other = torch.randn(3, 2, device="npu"), torch.npu.Stream()
torch.npu.synchronize()
for i in range(10):
    with torch.npu.stream(other):
        x[torch.tensor([0, 9], device="npu")]
    torch.npu.current_stream().wait_stream(other)
    told = 0
    for call in ({first!r}, "torch.npu.synchronize()", "x.cpu()", "other.synchronize()"):
        try:
            eval(call)
        except RuntimeError as error:
            told += "index 9 is out of bounds" in str(error)
    print(told, (x * 0 + 1).sum().item())
"""
    ran = run(code, ANYOP_NPU="delay")
    assert ran.stdout == "1 6.0\n" * 10, ran.stderr


def test_file_of_operators_that_is_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "op_api/lib/libcust_opapi.so"
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    started = time.monotonic()
    ran = run("import torch_npu", ASCEND_CUSTOM_OPP_PATH=str(tmp_path))
    assert last_line(ran) == (
        f"ImportError: anyop.npu: {file} is a pipe, but must be a library: torch_npu opens what "
        "has this name. Take it out of ASCEND_CUSTOM_OPP_PATH."
    )
    assert time.monotonic() - started < STALL


# Where torch's operators run on the CPU it is the same: Python ends such a thread in the middle of
# C++, which ends the process. It must only not wait.
def test_thread_that_goes_on_when_the_process_ends() -> None:
    started = time.monotonic()
    ran = run(
        """
import threading, time, torch
def work():
    x = torch.randn(64, 64, device="npu")
    while True:
        x = (x @ x).tanh()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
print("the end", flush=True)
"""
    )
    assert "the end" in ran.stdout, ran.stderr
    assert time.monotonic() - started < STALL


def test_threads_that_call_at_once() -> None:
    """Of an operator that torch defines by others, and that does nothing here; TorchScript holds no
    lock of Python's meanwhile.
    """
    ran = run(
        """
import threading, torch
calls = torch.jit.CompilationUnit('''
def calls(x, n: int):
    for _ in range(n):
        x = x.contiguous()
    return x
''').calls
x = torch.ones(2, 2, device="npu")
calls(x, 2), calls(x, 2)
right = []
work = lambda: right.append((calls(x, 5000) @ x).sum().item() == 8)
threads = [threading.Thread(target=work) for _ in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
print(right)
"""
    )
    assert ran.stdout == f"{[True] * 4}\n", (ran.returncode, ran.stderr[-2000:])


def test_operator_that_is_missing_is_told_by_the_queue() -> None:
    started = time.monotonic()
    ran = run(
        """
import torch, torch_npu
x = torch.ones(4, 4, device="npu", dtype=torch.float16)
try:
    torch_npu.npu_ffn(x, x, x, "gelu")
    torch.npu.synchronize()
except RuntimeError as error:
    print("aclnnFFNV2 is not supported" in str(error))
""",
        TASK_QUEUE_ENABLE="1",
    )
    assert "True\n" in ran.stdout or "True[WARN]" in ran.stdout, ran.stderr
    assert time.monotonic() - started < STALL


def test_trace_lists_work_events_and_waits() -> None:
    ran = run(
        """
import torch
x = torch.ones(4, device="npu")
torch.npu.synchronize()
print("begin", file=__import__("sys").stderr, flush=True)
other = torch.npu.Stream()
other.wait_stream(torch.npu.current_stream())
with torch.npu.stream(other):
    y = x.mul(2)
other.synchronize()
""",
        ANYOP_NPU="protect,delay,trace",
    )
    told = ran.stderr.partition("begin\n")[2]
    words = [line.partition(": ")[2] for line in told.splitlines() if line.startswith("npu:0")]
    waits = next(i for i, word in enumerate(words) if word.startswith("waits for event "))
    event = words[waits].removeprefix("waits for ")
    assert f"records {event}" in words[:waits]
    assert waits < words.index("aten::mul")
    assert words[words.index("aten::mul") :][-1].startswith("the host waits for")


def test_models_of_the_newest_chip() -> None:
    code = """
import torch
layer = torch.nn.Linear(4, 4).to("npu")
layer(torch.ones(2, 4, device="npu")).sum().backward()
print(torch.npu.get_device_name(), layer.weight.grad.sum().item())
"""
    ran = run(code, ANYOP_ASCEND_SOC="ascend950")
    assert ran.stdout == "Ascend950PR_957bx 32.0\n", ran.stderr
