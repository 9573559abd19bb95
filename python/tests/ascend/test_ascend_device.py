# SPDX-License-Identifier: Apache-2.0
"""The virtual NPU from Python: anyop alone, the commands, and torch. Each test is a process of its
own, as torch has one device of this kind for as long as a process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import anyop
import pytest

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = Path(anyop.__file__).parent / "anyop_ascend_device.so"
of_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    small = {"ANYOP_ASCEND_MEMORY_BYTES": str(1 << 28), "COLUMNS": "200"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, env={**os.environ, **small, **env}, capture_output=True, text=True, timeout=300
    )


def run(program: str, **env: str) -> str:
    done = process("-c", program, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(*arguments: str, **env: str) -> str:
    done = process("-m", "anyop", *arguments, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- Without torch.


@pytest.mark.parametrize("before", ["", str(LIBRARY), LIBRARY.name])
def test_it_is_loaded_once(before: str) -> None:
    told = run(
        """
import anyop, anyop.ascend
first = anyop.ascend.load()
assert first == anyop.ascend.load() == anyop.devices()
print(*[(d.device, d.model, d.cores, d.total_bytes, d.error) for d in first])
""",
        ANYOP_LOAD=before,
    )
    assert told == (
        "('ascend:0', 'Ascend 910B (virtual)', 40, 268435456, '') "
        "('ascend:1', 'Ascend 910B (virtual)', 40, 268435456, '')\n"
    )


def test_the_environment_chooses_chip_and_number() -> None:
    told = run(
        "import anyop.ascend; print(*[(d.device, d.model) for d in anyop.ascend.load()])",
        ANYOP_ASCEND_SOC="ascend310p",
        ANYOP_ASCEND_DEVICES="1",
    )
    assert told == "('ascend:0', 'Ascend 310P (virtual)')\n"


def test_a_variable_that_it_does_not_know_is_an_error_of_load() -> None:
    told = run(
        """
import anyop.ascend
try:
    anyop.ascend.load()
except anyop.NotAvailable as error:
    print(error)
""",
        ANYOP_ASCEND="delay,late",
    )
    must = "must be empty, or of the words delay and trace"
    assert told == f"ascend: ANYOP_ASCEND is 'delay,late', but {must}.\n"


def test_every_chip_of_the_checks_is_one_of_the_device() -> None:
    socs = run("from anyop.ascend.native import Runtime; print(*Runtime().socs())").split()
    assert len(socs) > 2
    for soc in socs:
        program = "import anyop.ascend; print(anyop.ascend.load()[0].cores)"
        assert int(run(program, ANYOP_ASCEND_SOC=soc)) > 0


# ---- Commands.


def test_explain_loads_it_for_its_name() -> None:
    told = command("explain", "add", "--shape", "x=f32[2,3] y=f32[2,3]", "--device", "ascend")
    [taken] = [line for line in told.splitlines() if " taken " in line]
    assert taken.split()[0] == "ascend_host", told


def test_doctor_and_list_show_it() -> None:
    environment = {"ANYOP_LOAD": LIBRARY.name, "ANYOP_ASCEND_SOC": "ascend910_93"}
    told = command("doctor", "--quick", **environment)
    for row in ("ascend:0", "ascend:1"):
        [line] = [line for line in told.splitlines() if line.strip().startswith(row)]
        assert "Ascend 910_93 (virtual)" in line, told
    assert "ANYOP_ASCEND_SOC" in told
    specs = json.loads(command("list", "add", "--json", **environment))
    assert specs[0]["name"] == "anyop.add" and specs[0]["devices"] == ["cpu", "ascend"]


# ---- The programs of docs/ascend.md.


def test_the_program_in_cpp_runs() -> None:
    program = ROOT / "build/release/tests/virtual_npu"
    if not program.exists():
        pytest.skip("the C++ tests are not built")
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "ascend:0 1.0000\n"), done.stderr


@of_torch
@pytest.mark.slow
def test_the_program_of_torch_runs() -> None:
    done = process(str(ROOT / "examples/virtual_npu.py"))
    assert done.stdout == "ascend:0 torch.Size([]) ascend:0\n", done.stderr


# ---- torch.

START = """
import anyop, anyop.ascend
module = anyop.ascend.start_torch()
import torch
assert module is torch.ascend is anyop.ascend.start_torch()

def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
"""


@of_torch
@pytest.mark.slow
def test_torch_runs_there() -> None:
    run(
        START
        + """
x = drawn(4, 6)
there = x.to("ascend")
assert str(there.device) == "ascend:0" and there.is_ascend and torch.ascend.device_count() == 2
assert torch.equal(there.cpu(), x) and torch.equal(there.t()[1::2].cpu(), x.t()[1::2])
assert torch.equal(there.to("ascend:1").cpu(), x)
assert torch.equal((there * 3).cpu(), x * 3) and (there * 3).sum().item() == (x * 3).sum().item()
assert torch.equal(torch.ones(2, device="ascend").cpu(), torch.ones(2))

# A step of training is that of the CPU.
def step(model, x):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss = torch.nn.functional.mse_loss(model(x), torch.ones_like(x))
    loss.backward()
    optimizer.step()
    return [loss.detach().cpu(), *(p.detach().cpu() for p in model.parameters())]

torch.manual_seed(3)
here = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU(), torch.nn.Linear(6, 6))
far = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU(), torch.nn.Linear(6, 6))
far.load_state_dict(here.state_dict())
for ours, theirs in zip(step(far.to("ascend"), there), step(here, x), strict=True):
    torch.testing.assert_close(ours, theirs)

# Streams and events.
side = torch.Stream(device="ascend")
with side:
    y = there
    for _ in range(50):
        y = y + 1
event = torch.Event(device="ascend")
event.record(side)
torch.accelerator.current_stream().wait_event(event)
torch.testing.assert_close((y * 2).cpu(), (x + 50) * 2)
pinned = torch.empty(4, 6).pin_memory()
pinned.copy_(there, non_blocking=True)
torch.ascend.synchronize()
assert torch.equal(pinned, x)
""",
        ANYOP_ASCEND="delay",
    )


@of_torch
@pytest.mark.slow
def test_operators_of_anyop_run_there() -> None:
    run(
        START
        + """
x, w = drawn(5, 67), drawn(67, seed=1)
on = x.to("ascend"), w.to("ascend")
anyop.reset_counters()
assert torch.allclose(anyop.rms_norm(*on).cpu(), anyop.rms_norm(x, w), 1e-5, 1e-6)
assert torch.equal(torch.ops.anyop.add(on[0], on[0]).cpu(), x + x)
rows = {(row.op, row.device) for row in anyop.counters()}
assert ("anyop.rms_norm", "ascend:0") in rows, rows
[taken] = [k.kernel for k in anyop.explain(anyop.rms_norm, *on).kernels if k.taken]
assert taken == "ascend_host" in {row.kernel for row in anyop.counters()}

a, b = x.clone().requires_grad_(), on[0].clone().requires_grad_()
torch.ops.anyop.rms_norm(a, w).sum().backward()
torch.ops.anyop.rms_norm(b, on[1]).sum().backward()
assert torch.equal(b.grad.cpu(), a.grad)

wrong = anyop.embedding(torch.tensor([0, 9], device="ascend"), on[0])
try:
    wrong.cpu()
    raise SystemExit("no late error")
except ValueError as error:
    assert str(error).startswith("embedding: ids[1] is 9, but must be less than 5"), error
torch.ascend.synchronize()
"""
    )


@of_torch
@pytest.mark.slow
def test_programs_are_compiled_for_it() -> None:
    run(
        START
        + """
x, w = drawn(5, 67), drawn(67, seed=1)
on = x.to("ascend"), w.to("ascend")
f = lambda x, w: torch.ops.anyop.rms_norm(x, w).sin() + 1
for how in ({"backend": "aot_eager"}, {"mode": "lite"}, {"backend": "anyop"}):
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(f, **how)(*on).cpu(), f(x, w))
assert "tensors on ascend:0 are left to torch" in str(anyop.torch.report())
try:
    torch._dynamo.reset()
    torch.compile(f)(*on)
    raise SystemExit("Inductor has kernels")
except Exception as error:
    wanted = 'ascend: Inductor writes no kernels for this device. Try torch.compile(mode="lite")'
    assert wanted in str(error), error
"""
    )


@of_torch
@pytest.mark.slow
def test_the_host_cannot_read_a_tensor() -> None:
    program = """
import ctypes
x = torch.ones(4, device="ascend")
torch.ascend.synchronize()
ctypes.c_float.from_address(x.data_ptr()).value
"""
    done = process("-c", START + program)
    assert done.returncode < 0
    assert "ascend:0: the host touched device memory at offset 0x" in done.stderr


@of_torch
@pytest.mark.slow
def test_another_backend_is_named_before_anything_is_built() -> None:
    told = run(
        """
import anyop.ascend, torch
torch.utils.rename_privateuse1_backend("npu")
try:
    anyop.ascend.start_torch()
except anyop.NotAvailable as error:
    print(error)
""",
        CXX="no-such-compiler",
    )
    assert told == (
        'ascend: torch has one device of this kind (PrivateUse1) in a process, and "npu" has '
        'taken it. Try a process that does not import what brings "npu"; '
        "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from doing so itself.\n"
    )


@of_torch
@pytest.mark.slow
def test_without_a_compiler_the_reason_is_told() -> None:
    told = run(
        """
import torch, anyop.ascend
try:
    anyop.ascend.start_torch()
except anyop.NotAvailable as error:
    print(error)
""",
        CXX="no-such-compiler",
    )
    assert told == (
        "ascend: torch's backend for it is not there: CXX is no-such-compiler, which is not there "
        "to build with. Try installing g++.\n"
    )
