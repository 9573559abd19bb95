# SPDX-License-Identifier: Apache-2.0
"""What the virtual NPU has not says so in a sentence, at the call, and what comes later runs.
Collective calls are there for one process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_processes import run

REFUSED = """
import sys, torch, torch_npu, torchair
x = torch.ones(4, 4, device="npu")
def captured():
    with torch.npu.graph(torch.npu.NPUGraph()):
        x + 1
for call in (captured, lambda: torchair.dynamo_export(x, model=torch.nn.ReLU()),
             lambda: torch.ops.npu.npu_mish(x)):
    try:
        print(call())
    except RuntimeError as error:
        print(str(error).partition("virtual NPU: ")[2])
    print((x + 1).sum().item())
y = torch_npu.npu_format_cast(x.half(), 29)  # FRACTAL_NZ
print(torch_npu.get_npu_format(y).name, (y @ y).sum().item())
"""


def test_what_is_not_there_is_refused_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # torchair makes a folder where it runs
    ran = run(REFUSED)
    assert ran.stdout.splitlines()[-7:] == [
        "aclmdlRICaptureBegin: the virtual NPU captures no graphs. Try torch.compile, or the "
        "program without torch.npu.graph.",
        "32.0",
        "ge::AscendString::AscendString(char const*) is not supported.",
        "32.0",
        "npu::npu_mish is made of an operator of CANN's first kind (aclop), which is not "
        "supported.",
        "32.0",
        "ND 64.0",
    ], ran.stderr[-2000:]


TOGETHER = """
import os, sys, torch, torch_npu
import torch.distributed as dist
rank, ranks, port = map(int, sys.argv[1:])
where = f"tcp://127.0.0.1:{port}"
dist.init_process_group("hccl", init_method=where, rank=rank, world_size=ranks)
x = torch.ones(4, 4, device="npu")
"""
ONE = """
y, z = x * 2, torch.zeros(4, 4, device="npu")
dist.all_reduce(y)
dist.broadcast(y, 0)
parts = [torch.zeros_like(x)]
dist.all_gather(parts, x * 3)
dist.all_to_all_single(z, x * 4)
shard = torch.zeros(4, 4, device="npu", dtype=torch.bfloat16)
dist.reduce_scatter_tensor(shard, (x * 5).bfloat16())
dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).npu())
model(x).sum().backward()
print([int(t.sum()) for t in (y, *parts, z, shard, model.module.weight.grad)])
dist.destroy_process_group()
"""
MORE = """
told = ""
try:
    dist.all_reduce(x)
except RuntimeError as error:
    told = str(error).partition("virtual NPU: ")[2]
print(told, (x + 1).sum().item(), flush=True)
os._exit(0)
"""


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def test_collective_calls_of_one_process() -> None:
    ran = run(TOGETHER + ONE, "0", "1", free_port())
    assert ran.stdout.splitlines()[-1:] == ["[32, 48, 64, 80, 64]"], ran.stderr[-2000:]


def test_processes_cannot_work_together() -> None:
    port = free_port()
    command = [sys.executable, "-c", TOGETHER + "x = dist.get_rank()\n", "1", "2", port]
    with subprocess.Popen(command, env={**os.environ, "ANYOP_NPU": "1"}) as other:
        ran = run(TOGETHER + MORE, "0", "2", port)
        other.kill()
    assert ran.stdout.splitlines()[-1:] == [
        "HcclCommInitRootInfoConfig: 2 processes are to work together, but the virtual NPU has "
        "collective calls of one process alone. Try the backend gloo, with tensors of the host. "
        "32.0"
    ], ran.stderr[-2000:]
