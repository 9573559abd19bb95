# SPDX-License-Identifier: Apache-2.0
"""What pages of operators take from files: tolerances of their tests, and times of a saved run."""

from __future__ import annotations

import re
from pathlib import Path

from anyop.bench import runs
from anyop.bench.measure import OURS, Row
from anyop.bench.pictures import in_us

OF_A_TEST = re.compile(
    r'\.op = "(\w+)",\s*(?://[^\n]*\n\s*)*\.tolerance = (.*?),\n\s*(?:\.\w+ =|\})', re.S
)
# Of optest/tolerance.h; u is 2^-24, ulp the distance of neighbours in the result's dtype.
IN_WORDS = (
    (r"Exact\(\)", "exact, the bits of the reference in double, rounded once"),
    (r"Elementwise\((\d+)[^()]*\)", "{0} ulp in f32, 0.51 ulp in narrower floats"),
    (r"Relative\((\d+), (\d+), (\"[^\"]*\")\)", "0.51 ulp + ({0} + {1} √({2})) 2^-24 of the value"),
    (r"Sum\((\"[^\"]*\")[^()]*\)", "0.51 ulp + (4 + 2 √({0})) 2^-24 of the sum of absolute terms"),
)


def tolerances_of(folder: Path) -> dict[str, str]:
    """What the test.cc of each operator allows, in words where it is a usual model."""
    found = {}
    for file in sorted(folder.glob("*/*test.cc")):
        text = file.read_text(encoding="utf-8")
        for name, tolerance in OF_A_TEST.findall(text):
            told = in_words(" ".join(tolerance.split()))
            found[name] = told or f"a model of its own, in `{file.parent.name}/{file.name}`."
    return found


def in_words(tolerance: str) -> str:
    for pattern, words in IN_WORDS:
        if match := re.fullmatch(pattern, tolerance):
            return words.format(*(g.strip('"') for g in match.groups())) + "."
    return ""


def times_of(file: Path, pictures: str = "") -> dict[str, list[str]]:
    """For each operator of a run: a sentence on the machine, a picture where there is an opponent
    and pictures are somewhere, and a table of its rows.
    """
    run = runs.load(file)
    rows: dict[str, list[Row]] = {}
    for row in run.rows:
        rows.setdefault(row.operator, []).append(row)
    return {name: _times(name, mine, run, pictures) for name, mine in rows.items()}


def _times(name: str, rows: list[Row], run: runs.Run, pictures: str) -> list[str]:
    opponents = [o for o in dict.fromkeys(n for r in rows for n in r.timings) if o != OURS]
    threads = rows[0].threads
    said = (
        f"{run.machine['cpu']}, {threads} thread{'s' * (threads > 1)}, "
        f"{run.machine['date'][:10]}: `anyop bench ops {name} --threads {threads}`. Calls from "
        "Python are included; a ratio is the opponent's time over ours, measured in turns."
    )
    head = "".join(f" x {o} |" for o in opponents)
    lines = [f"| sizes | us |{head}", "|---|---|" + "---|" * len(opponents)]
    for row in rows:
        ratios = (row.ratio(o) if o in row.timings else None for o in opponents)
        cells = "".join(f" {ratio:.2g} |" if ratio else " - |" for ratio in ratios)
        lines.append(f"| {row.sizes} | {in_us(row.ours.best_us)} |{cells}")
    picture = f'<img class="picture" src="{pictures}/of-{name}.svg" alt="{name} beside others">'
    has_picture = pictures and any(len(row.timings) > 1 for row in rows)
    return [said, *([picture] if has_picture else []), "\n".join(lines)]
