# SPDX-License-Identifier: Apache-2.0
"""python -m fuzz --seeds 0:5000 --minimize --folder found"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from fuzz.compare import place_in
from fuzz.generate import program
from fuzz.grammar import STATEMENTS
from fuzz.run import WAYS, failures, smaller


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz")
    parser.add_argument("--seeds", default="0:1000", help="begin:end")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--focus", nargs="+", choices=sorted(STATEMENTS), default=[])
    parser.add_argument("--minimize", action="store_true", help="shorten what fails")
    parser.add_argument("--folder", type=Path, help="where a script per kind of failure goes")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the program of a seed")
    given = parser.parse_args()
    if given.show is not None:
        print(program(given.show, given.focus).source())
        return 0
    begin, _, end = given.seeds.partition(":")
    known: dict[str, int] = {}
    start = time.monotonic()
    for failure in failures(range(int(begin), int(end)), given.ways, given.focus):
        key = f"{failure.way} {failure.found.kind} {place_in(failure.found.text)[:60]}"
        known[key] = known.get(key, 0) + 1
        print(f"seed {failure.program.seed}, {failure.way}: {failure.found}", flush=True)
        if known[key] > 1:
            continue
        if given.minimize:
            failure = smaller(failure)
            print(failure.script().partition("\nBUFFERS")[0], flush=True)
        if given.folder:
            given.folder.mkdir(parents=True, exist_ok=True)
            name = f"{failure.program.seed}-{failure.way}.py"
            (given.folder / name).write_text(failure.script())
    spent = time.monotonic() - start
    print(f"seeds {given.seeds}: {sum(known.values())} failures in {spent:.0f} s")
    for key, n in sorted(known.items(), key=lambda row: -row[1]):
        print(f"{n:5} {key}")
    return 1 if known else 0


if __name__ == "__main__":
    raise SystemExit(main())
