# SPDX-License-Identifier: Apache-2.0
"""./check --bench: call costs, operators against NumPy and the machine's ceilings, the model.

Everything of one table is measured in one run, interleaved, minimum of many repeats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT)]

import anyop  # noqa: E402
import modelbench  # noqa: E402
import opbench  # noqa: E402
from anyop import _anyop  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

console = Console(highlight=False, width=120)


def call_costs() -> dict[str, float]:
    """ns per call of the C++ bench program, by name."""
    program = ROOT / "build/release/tests/runtime_call_bench"
    if not program.exists():
        return {}
    command = [program, "--benchmark_format=json", "--benchmark_repetitions=5"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    best: dict[str, float] = {}
    for run in json.loads(out)["benchmarks"]:
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


def operators(only: list[str], ceilings: dict[str, Any]) -> list[opbench.Row]:
    rows = []
    with console.status("operators") as status:
        for name, case in opbench.load_cases(ROOT, only):
            status.update(f"{name} {case.sizes}")
            rows.append(opbench.measure(name, case, ceilings))
    return rows


def show_operators(rows: list[opbench.Row]) -> None:
    table = Table(title=f"Operators, {anyop.get_num_threads()} threads, calls included")
    for column in ("operator", "sizes", "us", "NumPy us", "x NumPy", "of the bound", "match"):
        table.add_column(column, justify="left" if column in ("operator", "sizes") else "right")
    for row in rows:
        theirs = f"{row.numpy_us:.1f}" if row.numpy_us else "-"
        ratio = f"{row.numpy_us / row.ours_us:.1f}" if row.numpy_us else "-"
        share = f"{row.bound_us / row.ours_us:.0%} {row.bound_by}"
        void = "yes" if row.matches else "NO: void"
        table.add_row(
            row.operator, row.sizes, f"{row.ours_us:.2f}", theirs, ratio, share, void
        )  # fmt: skip
    console.print(table)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", nargs="*", help="calls, operators, model, compiled, import, or an operator"
    )
    parser.add_argument("--json", type=Path, help="also write everything to this file")
    args = parser.parse_args()
    parts = ("calls", "operators", "model", "compiled", "import")
    only = [w for w in args.what if w not in parts]
    wanted = [w for w in args.what if w in parts] or (["operators"] if only else list(parts))
    found: dict[str, Any] = {}
    with console.status("the machine's ceilings"):
        ceilings = found["ceilings"] = _anyop.ceilings()
    if "calls" in wanted:
        found["calls"] = call_costs()
        show_calls(found["calls"])
        subprocess.run([sys.executable, "-m", "anyop", "bench", "calls"], check=True)
    if "operators" in wanted:
        rows = operators(only, ceilings)
        found["operators"] = [asdict(r) for r in rows]
        show_operators(rows)
    if "model" in wanted or "compiled" in wanted:
        decode = modelbench.rows(ceilings, "compiled" in wanted, console)
        found["model"] = [row.facts() for row in decode]
        modelbench.show(decode, console)
    if "import" in wanted:
        found["import_ms"] = import_ms()
        console.print(
            f"import anyop: {found['import_ms']['anyop_beyond_numpy']:.0f} ms beyond NumPy"
        )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))
    return 0 if all(r["matches"] for r in found.get("operators", [])) else 1


if __name__ == "__main__":
    sys.exit(main())
