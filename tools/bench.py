# SPDX-License-Identifier: Apache-2.0
"""./check --bench: call costs, operators against NumPy and the machine's ceilings, the model.

Everything of one table is measured in one run, interleaved, minimum of many repeats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT)]

import goals  # noqa: E402
from anyop import _anyop  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

MODEL = "examples/smollm2"
console = Console(highlight=False, width=120)


def call_costs(programs: Path) -> dict[str, float]:
    """ns per call of the C++ bench program, by name."""
    program = programs / "runtime_call_bench"
    if not program.exists():
        return {}
    command = [program, "--benchmark_format=json", "--benchmark_repetitions=5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        console.print(f"No calls from C++: {program} failed: {done.stderr.strip()[-300:]}")
        return {}
    best: dict[str, float] = {}
    for run in json.loads(done.stdout)["benchmarks"]:
        if run.get("run_type") == "iteration":
            name = run["run_name"]
            best[name] = min(best.get(name, float("inf")), run["real_time"])
    return best


def show_calls(costs: dict[str, float]) -> None:
    table = Table(title="A call from C++")
    table.add_column("what")
    table.add_column("ns", justify="right")
    for name, ns in costs.items():
        table.add_row(name, f"{ns:.1f}")
    console.print(table)


def saved_run(*command: str | Path) -> dict[str, Any]:
    """`anyop bench` with these arguments, and the run that it saves."""
    with tempfile.TemporaryDirectory() as folder:
        return _saved_run(Path(folder) / "run.json", command)


def _saved_run(saved: Path, command: tuple[str | Path, ...]) -> dict[str, Any]:
    program = [sys.executable, "-m", "anyop", "bench", *command, "--save", saved]
    done = subprocess.run(program, cwd=ROOT, check=False)
    if not saved.exists():
        sys.exit(done.returncode)
    return {**json.loads(saved.read_text()), "exit_status": done.returncode}


def import_ms() -> dict[str, float]:
    """Milliseconds to import NumPy alone and NumPy and anyop, best of five processes."""

    def best(code: str) -> float:
        program = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        runs = [
            float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                                 check=True).stdout) for _ in range(5)
        ]  # fmt: skip
        return 1e3 * min(runs)

    numpy = best("import numpy")
    return {"numpy": numpy, "anyop_beyond_numpy": best("import numpy, anyop") - numpy}


def goals_table(args: argparse.Namespace) -> int:
    with console.status("the machine's ceilings"):
        ceilings = _anyop.ceilings()
    costs = call_costs(args.programs)
    beyond = import_ms()["anyop_beyond_numpy"]
    found, skipped = goals.rows(
        ceilings, costs, beyond, args.programs, console, args.quick, not args.without_model
    )
    goals.show(found, skipped, console, args.short)
    if args.json:
        told = {"ceilings": ceilings, "goals": goals.facts(found), "skipped": skipped}
        args.json.write_text(json.dumps(told, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        nargs="*",
        help="calls, operators, model, import, an operator; or goals: all that the project aims at",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--short", action="store_true", help="goals: a line for each kind")
    parser.add_argument("--without-model", action="store_true", help="goals: not the model's")
    parser.add_argument(
        "--programs",
        type=Path,
        default=ROOT / "build/release/tests",
        help="where the C++ benches are",
    )
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()
    parts = ("calls", "operators", "model", "import")
    if args.what == ["goals"]:
        return goals_table(args)
    only = [w for w in args.what if w not in parts]
    wanted = [w for w in args.what if w in parts] or (["operators"] if only else list(parts))
    found: dict[str, Any] = {}
    with console.status("the machine's ceilings"):
        found["ceilings"] = _anyop.ceilings()
    if "calls" in wanted:
        found["calls"] = call_costs(args.programs)
        show_calls(found["calls"])
        subprocess.run([sys.executable, "-m", "anyop", "bench", "calls"], check=True)
    if "operators" in wanted:
        found["operators"] = saved_run("ops", *only)
    if "model" in wanted:
        quick = ("--rounds", "1", "--steps", "32") if args.quick else ()
        found["model"] = saved_run("model", ROOT / MODEL, *quick)
    if "import" in wanted:
        found["import_ms"] = import_ms()
        console.print(
            f"import anyop: {found['import_ms']['anyop_beyond_numpy']:.0f} ms beyond NumPy"
        )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    return int(found.get("operators", {}).get("exit_status", 0))


if __name__ == "__main__":
    sys.exit(main())
