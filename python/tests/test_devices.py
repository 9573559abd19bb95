# SPDX-License-Identifier: Apache-2.0
"""Devices as a program of Python sees them, without a framework that has one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from anyop._inline import FLAGS
from anyop._packages import data_root

LIBRARIES = Path(__file__).resolve().parents[2] / "build/release/tests"
TOY, FAR, OPERATORS = (LIBRARIES / f for f in ("libtoy.so", "anyop_far.so", "my_ops.so"))
ADD = ["explain", "add", "--shape", "x=f32[2,3] y=f32[2,3]"]

if not all(file.exists() for file in (TOY, FAR, OPERATORS)):
    pytest.skip("the C++ tests are not built", allow_module_level=True)


def python(*arguments: str, load: str = "", status: int = 0) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ANYOP_LOAD": load, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


IN_A_CHILD = """
import json, os, sys
import anyop
from anyop.cli import app, doctor
from click.testing import CliRunner
from rich.console import Console
anyop.load(sys.argv[1])
anyop.synchronize("far:0")  # the device is in use
if os.fork() == 0:
    report = {"devices": doctor.devices()}
    doctor.show_devices(Console(width=1000), report)
    listed = CliRunner().invoke(app, ["list", "--json", "rms_norm"]).output
    told = {"devices": [d._asdict() for d in anyop.devices()], "listed": json.loads(listed)}
    print(json.dumps({**told, "doctor": report["devices"]}), flush=True)
    os._exit(0)
os.wait()
"""


def test_a_device_that_cannot_tell_its_properties_says_why_and_is_listed() -> None:
    *table, line = python("-c", IN_A_CHILD, str(FAR)).stdout.splitlines()
    told = json.loads(line)
    why = (
        "the process was forked after it had used the device, and the device's threads are not in "
        'the child. Try the start method "spawn".'
    )
    nothing = {"model": "", "features": "", "cores": 0, "total_bytes": 0, "free_bytes": 0}
    assert told["devices"] == told["doctor"] == [
        {"device": f"far:{n}", **nothing, "library": str(FAR), "error": f"far:{n}: {why}"}
        for n in (0, 1)
    ]  # fmt: skip
    for n in (0, 1):
        assert any(f"far:{n}: {why}" in row for row in table), table
    assert "cpu, far" in ", ".join(told["listed"][0]["devices"])


def test_a_device_that_tells_its_properties_has_no_error() -> None:
    program = "import anyop; [d] = anyop.devices(); print(d.device, d.model, repr(d.error))"
    assert python("-c", program, load=str(TOY)).stdout == "toy:0 a toy ''\n"


def test_a_variable_loads_libraries_of_devices_and_of_operators() -> None:
    program = "import anyop; print(anyop.devices()[0].device, list(anyop.ops), anyop.ops.my_ops)"
    for load in (f"{TOY}:{OPERATORS}", f":{OPERATORS}::{TOY}:"):
        said = python("-c", program, load=load).stdout
        assert said.startswith("toy:0 ['anyop', 'my_ops'] <operators of my_ops: add_rows,")
    program = """
import os, sys
import anyop
os.chdir("/")
anyop.load(sys.argv[1])
print([file for name, _, file in anyop._anyop.libraries() if name == "my_ops"])
"""
    load = os.path.relpath(OPERATORS)
    assert python("-c", program, str(OPERATORS), load=load).stdout == f"['{OPERATORS}']\n"
    program = "import anyop, sys; anyop.load(sys.argv[1]); print(len(anyop.devices()))"
    assert python("-c", program, str(TOY), load=str(TOY)).stdout == "1\n"


KERNELS = """
#include <anyop/device.h>
#include <anyop/op.h>
using namespace anyop;
namespace {
void Run(const Context&, const Tensor&, const Tensor&, const Tensor&) {}
constexpr Kernel kAdd{.name = NAME, .when = "T == f32", .run = Bind<&Run>()};
}
extern "C" ANYOP_EXPORT const anyop_device_info* anyop_device_library() {
  static const anyop_device_kernel add = {sizeof add, 0, "anyop.add",
                                          reinterpret_cast<const anyop_kernel*>(&kAdd)};
  static const anyop_device_kernel* const kernels[] = {&add};
  static const anyop_device_info library = {
      sizeof library, ANYOP_DEVICE_VERSION, LIBRARY, nullptr, 1, 0, kernels};
  return &library;
}
"""
LOADED_AGAIN = """
import os, sys
import anyop
toy, file, second, other = sys.argv[1:]
anyop.load(toy)
ones = anyop.ops.anyop.add, *[__import__("numpy").ones((2, 3), "f")] * 2
def kernels():
    return [k.kernel for k in anyop.explain(*ones).kernels if k.kernel.startswith("toy_")]
library = anyop.load(file)
print(library.__name__, dir(library) == dir(anyop.load(toy)), kernels())
os.replace(second, file)
anyop.load(file)
print(kernels())
try:
    anyop.load(other)
except anyop.InvalidArgument as error:
    print(error)
print(kernels())
"""


def test_kernels_for_a_device_are_a_library_that_may_be_built_again(tmp_path: Path) -> None:
    files = {"mine.so": "toy_first", "built.so": "toy_second", "other.so": "toy_second"}
    for file, name in files.items():
        words = [f'-DNAME="{name}"', f'-DLIBRARY="{file}"']
        flags = [*FLAGS, "-O0", f"-I{data_root() / 'include'}", *words]
        compiler = ["c++", *flags, "-x", "c++", "-", "-o", tmp_path / file]
        subprocess.run(compiler, input=KERNELS, text=True, check=True)
    mine, built, other = (str(tmp_path / file) for file in files)
    assert python("-c", LOADED_AGAIN, str(TOY), mine, built, other).stdout.splitlines() == [
        "anyop.ops.mine True ['toy_rows', 'toy_first']",
        "['toy_rows', 'toy_second']",
        f"{other}: has a kernel toy_second for anyop.add, but {mine} has one of that name, and "
        "calls choose kernels by name. Try another name, or a process of its own.",
        "['toy_rows', 'toy_second']",
    ]


RECORDED = """
import anyop, numpy as np
anyop.add(np.ones((3, 4), np.float32), np.ones((3, 4), np.float32))
"""


def test_a_replay_names_the_kernel_that_ran_where_a_device_has_put_others_in_front(
    tmp_path: Path,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(RECORDED)
    record = ["-m", "anyop", "run", "--record", str(tmp_path / "calls"), "--"]
    python(*record, sys.executable, str(program))
    said = [
        python("-m", "anyop", "replay", str(tmp_path / "calls"), load=load).stdout
        for load in ("", str(TOY))
    ]
    assert said[0] == said[1]
    assert "recorded:" not in said[0] and "kernel cpu_" in said[0]


def test_commands_know_a_device_that_a_variable_loads() -> None:
    def anyop_command(*arguments: str) -> str:
        return python("-m", "anyop", *arguments, load=str(TOY)).stdout

    assert "cpu, toy" in anyop_command("list", "rms_norm")
    assert "toy_rows" in anyop_command("explain", "add")
    row = next(line for line in anyop_command(*ADD).splitlines() if "toy_rows" in line)
    assert row.strip().split(maxsplit=2)[1:] == ["declined", "for device toy"]
    there = anyop_command(*ADD, "--device", "toy")
    assert ["toy_rows", "taken"] in [line.split() for line in there.splitlines()]
    wrong = python("-m", "anyop", *ADD, "--device", "toi", load=str(TOY), status=1)
    assert "there is no device 'toi'" in wrong.stderr
    [device] = json.loads(anyop_command("doctor", "--json", "--quick"))["devices"]
    assert (device["device"], device["model"]) == ("toy:0", "a toy")


def test_generated_tests_run_a_kernel_of_a_device_there_and_not_on_the_host() -> None:
    done = subprocess.run(
        [LIBRARIES / "add_test", "--gtest_filter=Add.MatchesItsReference"],
        env={**os.environ, "ANYOP_LOAD": str(TOY), "OPTEST_LARGE": "none"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [row.strip() for row in done.stdout.splitlines() if "toy_rows" in row]
    assert [row.split(":")[0] for row in rows] == ["add toy_rows on toy"], done.stdout


@pytest.mark.parametrize(
    ("load", "why"),
    [
        ("/nowhere/a.so", "/nowhere/a.so: there is no such file, or it cannot be read."),
        (f"{TOY}:/", "/: it is a folder, but must be a library of operators."),
        (f"{TOY}:{FAR}", f"{FAR}: its device 'far' has tensors of DLPack type 12, that 'toy' of "
         f"{TOY} has already. A process has one of them. Try a process of its own."),
    ],
    ids=["a_missing_file", "a_folder", "two_devices"],
)  # fmt: skip
def test_a_library_of_the_variable_that_does_not_load_is_one_line(load: str, why: str) -> None:
    said = (
        f"the environment variable ANYOP_LOAD is '{load}', but must name libraries that can be "
        f"loaded. {why}\n"
    )
    assert python("-m", "anyop", "list", load=load, status=1).stderr == said
    assert python("-c", "import anyop", load=load, status=1).stderr.endswith(f": {said}")
