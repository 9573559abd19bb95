# SPDX-License-Identifier: Apache-2.0
"""torch's own table of operators (OpInfo) on the virtual NPU: each entry as on the CPU?

    ANYOP_NPU=1 ENVIRONMENT/bin/python python/tests/npu/opinfo.py [--all] [--samples N] [NAME ...]

Without --all every tenth entry. Entries run in a few processes, so that one that ends its process
is named and the others still run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))
import opinfo_device as table  # noqa: E402

EACH = 10  # of a slice
CHUNK = 80
# Entries that do not agree, by name, each with why.
_DOUBLE = "torch_npu makes float32 of float64 on this chip"
EXCEPTIONS: dict[str, str] = {
    **table.EXCEPTIONS,
    "double": _DOUBLE,
    "float_power": _DOUBLE,
    "to": "torch_npu takes no memory format there",
}


def work(names: list[str], count: int) -> None:
    """Prints a line for each entry before it runs, and another after it."""
    import torch
    import torch_npu  # noqa: F401

    warnings.simplefilter("ignore")
    by_name = {table.name_of(op): op for op in table.entries()}
    for name in names:
        print(json.dumps([name]), flush=True)
        why = ""
        torch.manual_seed(0)
        try:
            table.compare(by_name[name], count, "npu")
        except Exception as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            why = f"{type(error).__name__}: {' '.join(lines[:2])}"[:300]
        print(json.dumps([name, why]), flush=True)


def run(names: list[str], count: int) -> dict[str, str]:
    """What went wrong with each entry, "" where nothing did."""
    found: dict[str, str] = {}
    left = list(names)
    while left:
        chunk = left[:CHUNK]
        program = [sys.executable, __file__, "--work", str(count), *chunk]
        ran = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
        for name, *why in map(json.loads, lines):
            found[name] = why[0] if why else f"the process ended with {ran.returncode}"
        left = [name for name in left if name not in found]
        if not lines:
            raise SystemExit(f"no entry runs: exit status {ran.returncode}")
    return found


def report(found: dict[str, str]) -> list[str]:
    """The names of entries that should agree and do not, or do and should not."""
    agree = [name for name, why in found.items() if not why]
    print(f"{len(agree)} of {len(found)} entries agree with the CPU")
    wrong = []
    for name, why in found.items():
        known = EXCEPTIONS.get(name, "")
        if why:
            print(f"  {name}: {known or why}")
        if bool(why) != bool(known):
            wrong.append(name)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", action="store_true", help="every entry")
    parser.add_argument("--samples", type=int, default=3, help="of each entry, at most")
    parser.add_argument("names", nargs="*", help="entries")
    args = parser.parse_args()
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # this process only reads the table
    names = args.names or [table.name_of(op) for op in table.entries()]
    chosen = names if args.all or args.names else names[::EACH]
    wrong = report(run(chosen, args.samples))
    if wrong:
        print(f"not as listed in {Path(__file__).name}: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[3:], int(sys.argv[2]))
    else:
        sys.exit(main())
