# SPDX-License-Identifier: Apache-2.0
"""On which device calls ran, as lists, counters and profiles tell it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyop
import far_torch
import pytest
import torch
from anyop.cli import app
from click.testing import CliRunner

FAR = torch.device("far:0")
anyop.load(far_torch.LIBRARY)


def called(device: str, times: int) -> None:
    x = torch.ones(2, 8, device=device)
    for _ in range(times):
        torch.ops.anyop.rms_norm(x)


def test_counters_tell_the_devices_apart() -> None:
    torch.accelerator.synchronize()
    anyop.reset_counters()
    called("cpu", 1), called("far:0", 3), called("far:1", 2)
    for number in (0, 1):
        torch.accelerator.synchronize(number)
    rows = {c.device: c for c in anyop.counters() if c.op == "anyop.rms_norm"}
    assert {device: c.calls for device, c in rows.items()} == {"cpu": 1, "far:0": 3, "far:1": 2}
    assert len({c.kernel for c in rows.values()}) == 1  # of the host, which far runs too


def test_a_call_that_falls_back_to_the_host_is_counted_as_one_of_the_device() -> None:
    torch.accelerator.synchronize()

    @anyop.define("twice(x: f32[n]) -> (y: f32[n])", library="far_tests")
    def twice(x: Any) -> Any:
        return x * 2

    anyop.reset_counters()
    with anyop.fallback("cpu"):
        y = torch.ops.far_tests.twice(torch.ones(3, device=FAR))
    assert y.cpu().tolist() == [2, 2, 2]
    rows = [c for c in anyop.counters() if c.op == "far_tests.twice"]
    assert [(c.device, c.calls, c.fallbacks) for c in rows] == [("cpu", 1, 0), ("far:0", 0, 1)]


def test_a_call_that_falls_back_to_the_host_sees_each_view_of_one_memory() -> None:
    @anyop.define("minus(x: f32[m, n], y: f32[m, n]) -> (z: f32[m, n])", library="far_tests")
    def minus(x: Any, y: Any) -> Any:
        return x - y

    @anyop.define("length(x: f32[m, n], y: f32[k]) -> (z: f32[k])", library="far_tests")
    def length(x: Any, y: Any) -> Any:
        return y + x[0, 0]

    x = torch.arange(9.0).reshape(3, 3)
    far = x.to(FAR)
    with anyop.fallback("cpu"):
        of = torch.ops.far_tests
        for view in (far.t(), far.as_strided((3, 3), (0, 1)), far.as_strided((3, 3), (1, 0)), far):
            z = of.minus(far, view)
            assert z.cpu().tolist() == (x - view.cpu()).tolist()
        assert of.length(far, far.view(9)).cpu().tolist() == x.view(9).tolist()


def test_the_list_of_operators_says_on_which_devices_they_run() -> None:
    def listed(*words: str) -> str:
        return CliRunner().invoke(app, ["list", *words], env={"COLUMNS": "200"}).output

    table = listed("rms_norm")
    assert "devices" in table.splitlines()[1]
    row = next(r for r in table.splitlines() if " anyop.rms_norm " in r)
    assert row.split()[-2:] == ["cpu,", "far"]
    [norm] = [s for s in json.loads(listed("--json", "rms_norm")) if s["name"] == "anyop.rms_norm"]
    assert norm["devices"] == ["cpu", "far"]
    assert {k["device"] for k in norm["kernels"]} == {"cpu"}
    assert "Devices:  cpu, far\n" in anyop._anyop.info_text("rms_norm")


def test_the_list_says_nothing_of_devices_where_there_is_but_the_cpu() -> None:
    command = [sys.executable, "-m", "anyop", "list", "rms_norm"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "anyop.rms_norm" in done.stdout and "devices" not in done.stdout


PROGRAM = """
import far_torch, torch, anyop
far_torch.start()
anyop.load(far_torch.LIBRARY)
import anyop.torch
for place, times in (("cpu", 1), ("far:0", 3)):
    x = torch.ones(2, 8, device=place)
    for _ in range(times):
        torch.ops.anyop.rms_norm(x)
torch.accelerator.synchronize()
"""


@pytest.mark.slow
def test_a_profile_tells_the_device_of_each_row_and_event(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anyop", "profile", "--no-ceilings"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    trace = ["--trace", str(tmp_path / "calls.json")]
    run = ["--", sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        [*command, "--json", *trace, *run], capture_output=True, text=True, env=env, check=True
    )
    rows = {row["device"]: row for row in json.loads(done.stdout)["rows"]}
    assert {device: row["calls"] for device, row in rows.items()} == {"cpu": 1, "far:0": 3}
    assert rows["far:0"]["kernel_ns"] is None  # nobody waited for it
    assert rows["cpu"]["kernel_ns"] > 0 < rows["far:0"]["host_ns"]
    events = json.loads((tmp_path / "calls.json").read_text())["traceEvents"]
    calls = [e["args"] for e in events if e["ph"] == "X"]
    assert sorted(c["device"] for c in calls) == ["cpu", "far:0", "far:0", "far:0"]
    assert all((c["kernel_us"] is None) == (c["device"] == "far:0") for c in calls)
    shown = subprocess.run([*command, *run], capture_output=True, text=True, env=env, check=True)
    (line,) = [s for s in shown.stdout.splitlines() if rows["far:0"]["kernel"] + " on far:0" in s]
    assert re.search(r"on far:0 +3 +- +\d", line), line
    assert " on cpu" not in shown.stdout
