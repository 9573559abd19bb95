# SPDX-License-Identifier: Apache-2.0
"""Builds of a library of operators, and what differs between two of them."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anyop
from anyop.cli import capsules

SPEED_ROUNDS = 3  # of each build, in turns
SLOWER = 1.15
MAJOR, MINOR, PATCH = "major", "minor", "patch"


@dataclass
class Build:
    """A wheel or a shared object. version: of the wheel, else of the library."""

    label: str
    library: Path
    version: str = ""

    def ask(self, task: str, folder: Path, **settings: str) -> Any:
        """Runs a task of `build_worker` in a process of its own."""
        env = {**os.environ, **settings}
        if self.library.name == "anyop_ops.so":
            env["ANYOP_LIBRARY"] = str(self.library)
        done = subprocess.run(
            [sys.executable, "-m", "anyop.cli.build_worker", task, str(self.library), str(folder)],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
            raise anyop.NotAvailable(f"diff: {self.label} cannot be used: {said[-1]}")
        answer = pickle.loads((folder / "answer.pickle").read_bytes())
        self.version = self.version or answer["version"]
        return answer["answer"]


def open_build(path: Path, folder: Path) -> Build:
    """Unpacks a wheel into the folder. Raises InvalidArgument where no library is in it."""
    if path.suffix == ".so":
        return Build(str(path), path.resolve())
    if not zipfile.is_zipfile(path):
        raise anyop.InvalidArgument(
            f"diff: {path} is no wheel. Try dist/NAME.whl of anyop wheel, or a library (.so)."
        )
    with zipfile.ZipFile(path) as wheel:
        wheel.extractall(folder)
        names = wheel.namelist()
    found = [
        file for file in (folder / n for n in sorted(names) if n.endswith(".so"))
        if not file.stem.endswith("_reference") and b"anyop_library" in file.read_bytes()
        and file.name != "libanyop.so" and not file.name.startswith("_")
    ]  # fmt: skip
    if not found:
        raise anyop.InvalidArgument(f"diff: {path} holds no library of operators.")
    version = re.match(r"[^-]+-([^-]+)-", path.name)
    return Build(path.name, found[0].resolve(), version[1] if version else "")


@dataclass
class Difference:
    """needs: "major", "minor" or "patch"."""

    needs: str
    op: str
    text: str


def contracts(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """What the signatures and lists of kernels say."""
    found = [Difference(MAJOR, op, "is gone") for op in old if op not in new]
    found += [Difference(MINOR, op, "is new") for op in new if op not in old]
    for op in old:
        if op in new:
            found += [Difference(needs, op, text) for needs, text in _of_one(old[op], new[op])]
    return found


def _of_one(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    found = _params(old["params"], new["params"])
    if [r["name"] for r in old["results"]] != [r["name"] for r in new["results"]]:
        found.append((MAJOR, f"returns {_names(new['results'])} in place of "
                             f"{_names(old['results'])}"))  # fmt: skip
    if old["gradient"] and not new["gradient"]:
        found.append((MAJOR, "has no gradient any more"))
    if new["gradient"] and not old["gradient"]:
        found.append((MINOR, "has a gradient"))
    before, after = ([k["name"] for k in info["kernels"]] for info in (old, new))
    for verb, names in (("lost", [n for n in before if n not in after]),
                        ("has the new", [n for n in after if n not in before])):  # fmt: skip
        if names:
            found.append((PATCH, f"{verb} kernel{'s' * (len(names) > 1)} {', '.join(names)}"))
    if old["signature"] != new["signature"] and not any(needs != PATCH for needs, _ in found):
        found.append((MINOR, f"has another signature: {new['signature']}"))
    return found


def _params(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[tuple[str, str]]:
    after = {p["name"]: p for p in new}
    found = [(MAJOR, f"has no parameter {p['name']} any more") for p in old
             if p["name"] not in after]  # fmt: skip
    before = [p["name"] for p in old]
    for p in new:
        if p["name"] not in before:
            needs = MAJOR if p["required"] else MINOR
            must = ", which every call must give" if p["required"] else ""
            found.append((needs, f"has the new parameter {p['name']}{must}"))
    kept = [p["name"] for p in new if p["name"] in before]
    if [n for n in before if n in kept] != kept or [p["name"] for p in new][: len(kept)] != kept:
        found.append((MAJOR, "has its parameters in another order"))
    for was in old:
        now = after.get(was["name"])
        if not now:
            continue
        if was["kind"] != now["kind"]:
            found.append((MAJOR, f"{was['name']} is {now['kind']} in place of {was['kind']}"))
        for key, text in (("required", "must be given"), ("mut", "is written"),
                          ("dense", "must be dense")):  # fmt: skip
            if now[key] and not was[key]:
                found.append((MAJOR if key != "dense" else PATCH, f"{was['name']} {text} now"))
        if now.get("planned", False) != was.get("planned", False):
            is_planned = "is planned" if now.get("planned") else "is not planned any more"
            found.append((MAJOR, f"{was['name']} {is_planned}"))
        if was["default"] != now["default"] and not was["required"] and not now["required"]:
            found.append((MAJOR, f"{was['name']} is {now['default'] or None} by default, "
                                 f"was {was['default'] or None}"))  # fmt: skip
        if lost := [w for w in was["words"] if w not in now["words"]]:
            found.append((MAJOR, f"{was['name']} does not take {', '.join(map(repr, lost))}"))
    return found


def _names(rows: list[dict[str, Any]]) -> str:
    return ", ".join(row["name"] for row in rows) or "nothing"


def results(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """What equal calls do in both: refused now, or other numbers."""
    found: dict[tuple[str, str], Difference] = {}
    worst: dict[str, tuple[float, str, int]] = {}
    for file, was in old.items():
        now, op = new[file], was["op"]
        if "error" in was or op not in {row["op"] for row in new.values()}:
            continue
        if "error" in now:
            text = f"refuses {was['call']}: {now['error'].splitlines()[0]}"
            found.setdefault((op, "refuses"), Difference(MAJOR, op, text))
            continue
        apart = distance(was["written"], now["written"])
        if apart:
            most, call, count = worst.get(op, (0.0, "", 0))
            worst[op] = (max(most, apart), call if most >= apart else was["call"], count + 1)
    for op, (apart, call, count) in worst.items():
        text = f"has other results in {count} calls; the largest difference is {apart:.2g} of the "
        found[(op, "results")] = Difference(MINOR, op, f"{text}result's largest element: {call}")
    return list(found.values())


def distance(old: Mapping[str, tuple[str, bytes]], new: Mapping[str, tuple[str, bytes]]) -> float:
    """The largest difference over the largest element; 0 for equal bits."""
    most = 0.0
    for name, was in old.items():
        now = new.get(name)
        if now == was:
            continue
        if now is None or now[0] != was[0]:
            return float("inf")
        a, b = capsules.numbers(was), capsules.numbers(now)
        with np.errstate(invalid="ignore"):
            apart = np.abs(a - b)
        largest = max(float(np.nanmax(np.abs(a), initial=0)), 1e-30)
        most = max(most, float(np.nanmax(apart, initial=0)) / largest, 5e-324)
    return most


def speed(old: list[Mapping[str, Any]], new: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of calls that both make, over several rounds: best times, and whether all rounds agree."""
    rows = []
    for file, first in old[0].items():
        a, b = ([r[file].get("ns") for r in rounds] for rounds in (old, new))
        if None in a or None in b:
            continue
        ratio = min(b) / min(a)
        is_clear = min(b) > max(a) or max(b) < min(a)
        rows.append({"op": first["op"], "call": first["call"], "old_ns": min(a),
                     "new_ns": min(b), "ratio": ratio, "is_clear": is_clear})  # fmt: skip
    return sorted(rows, key=lambda row: -row["ratio"])


def needed(differences: list[Difference]) -> str:
    """The largest that any difference needs."""
    return next((n for n in (MAJOR, MINOR, PATCH) if any(d.needs == n for d in differences)), PATCH)


def next_version(version: str, needs: str) -> str:
    """By semantic versioning; below 1.0 the second number stands for the first."""
    parts = [int(n) for n in re.findall(r"\d+", version)[:3]]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    if needs == MAJOR:
        return f"{major + 1}.0.0" if major else f"0.{minor + 1}.0"
    return f"{major}.{minor + 1}.0" if needs == MINOR and major else f"{major}.{minor}.{patch + 1}"


def is_enough(new: str, least: str) -> bool:
    """Whether a version is at least another one."""
    a, b = ([int(n) for n in re.findall(r"\d+", v)[:3]] for v in (new, least))
    return a >= b
