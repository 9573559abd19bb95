# SPDX-License-Identifier: Apache-2.0
"""Runs as files, and what changed between two of them."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import anyop
from anyop import _tune
from anyop.bench.measure import Row, Timing

FORMAT = 1
PACKAGES = ("anyop", "numpy", "torch")


@dataclass
class Run:
    """rows, and the machine that they were measured on."""

    machine: dict[str, Any]
    rows: list[Row]
    ceilings: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"format": FORMAT, "machine": self.machine, "ceilings": self.ceilings, "rows": rows}

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=1))


def machine() -> dict[str, Any]:
    """What a run was measured on: processor, threads, date, versions of packages."""
    found: dict[str, Any] = {
        "cpu": cpu_name(),
        "threads": anyop.get_num_threads(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "tuned": _tune.in_use_text(),
    }
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The processor as its maker calls it, or as Python does where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def load(path: Path) -> Run:
    """Throws InvalidArgument for a file that no run was saved in."""
    try:
        data = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise anyop.InvalidArgument(
                f"bench: {path} has format {data['format']}, but this anyop reads {FORMAT}. "
                "Try measuring again."
            )
        rows = [_row(r) for r in data["rows"]]
        return Run(data["machine"], rows, data["ceilings"])
    except (OSError, UnicodeDecodeError) as error:
        raise anyop.InvalidArgument(f"bench: {path} cannot be read: {error}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise anyop.InvalidArgument(
            f"bench: {path} holds no saved run ({type(error).__name__}: {error}). "
            "Try one that anyop bench ops --save wrote."
        ) from None


def _row(data: Mapping[str, Any]) -> Row:
    timings = {name: Timing(**t) for name, t in data["timings"].items()}
    return Row(**{**data, "timings": timings})


@dataclass
class Change:
    """new and old: best us of ours. own: new over old. ratio: the same, each over the opponent of
    its own run that both have, where there is one. A busy or another machine shifts the first, a
    changed opponent the second. spread: how far rounds of one run were apart, over the old best."""

    key: str
    old_us: float
    new_us: float
    own: float
    ratio: float
    spread: float
    beside: str

    @property
    def factor(self) -> float:
        """What both say: the smaller of the two slowdowns, or of the two speedups; 1 where they
        contradict each other, or where the rounds of a run differ as much."""
        if max(self.own, self.ratio) < 1:
            factor = max(self.own, self.ratio)
        else:
            factor = max(min(self.own, self.ratio), 1.0)
        return factor if abs(self.own - 1) > self.spread else 1.0


def compare(old: Run, new: Run) -> tuple[list[Change], list[str]]:
    """The rows that both have, slowest first; and those that only one has."""
    before = {row.key: row for row in old.rows}
    after = {row.key: row for row in new.rows}
    changes = [_change(before[key], after[key]) for key in before if key in after]
    changes.sort(key=lambda c: (-c.factor, -c.ratio))
    return changes, sorted(set(before) ^ set(after))


def _change(old: Row, new: Row) -> Change:
    own = new.ours.best_us / old.ours.best_us
    ratio, beside = own, ""
    for name in _common(old, new):
        ratio, beside = own / (new.timings[name].best_us / old.timings[name].best_us), name
        break
    spread = max(t.median_us - t.best_us for t in (old.ours, new.ours)) / old.ours.best_us
    return Change(new.key, old.ours.best_us, new.ours.best_us, own, ratio, spread, beside)


def _common(old: Row, new: Row) -> Sequence[str]:
    return [name for name in old.timings if name != "anyop" and name in new.timings]
