# SPDX-License-Identifier: Apache-2.0
"""The project's goals, each measured on this machine: what was reached, and whether that is it.

Collected from the benches that exist; shares are of ceilings measured in the same run.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyop
from anyop.bench import interpreters, measure, models
from anyop.bench.commands import calls as call_bench
from anyop.bench.commands import graph as graph_bench
from anyop.bench.commands import hosts as host_bench
from anyop.bench.commands import model as model_bench
from anyop.bench.commands import ops as operator_bench
from rich.console import Console
from rich.table import Table

# Goal of a case -> (what of its row, the least that is wanted).
CASE_GOALS: dict[str, tuple[tuple[str, float], ...]] = {
    "movement": (("of copy bandwidth", 0.8),),
    "small operator": (("x vllm", 4), ("x torch", 2.5)),
    "experts": (("x torch", 5),),
    "many rows": (("of the ceiling", 0.85), ("x torch", 1)),
    "many rows, int8": (("of the ceiling", 0.85),),
    "one row": (("of read bandwidth", 0.9),),
    "one row of blocks": (("of read bandwidth", 0.65),),
    "decode attention": (("of read bandwidth", 0.65), ("x vllm", 3)),
}
FROM_DRAM = {"many rows": 0.6}  # of the ceiling, where a weight does not fit the caches
LLAMA_GOALS = {"captured, packed": 2.5, "captured, rows of the file": 2.0}
READ_LIMIT = 0.85  # of bf16 weights
MODEL = Path(__file__).resolve().parent.parent / "examples" / "smollm2"
# ns of a call from C++, by the bench's name.
CALL_GOALS = {
    "Cached3Tensors": 25, "Cached17Parameters": 60, "HitBeyondTheLastPlan": 80,
    "Miss3Tensors": 1000, "Miss17Parameters": 1000,
}  # fmt: skip
# A call from Python, and the row that it is compared with: the most of its time.
RATIO_GOALS = {
    ("anyop.add(a, b, out=c)", "numpy.add(a, b, out=c)"): 0.25,
    ("anyop.add(x=a, y=b, out=c)", "numpy.add(a, b, out=c)"): 0.25,
    ("anyop.add(a, b)", "numpy.add(a, b)"): 0.5,
    ("anyop.add(a, b, out=c)", "define/impl, out-writing, torch.add"): 1 / 20,
    ("anyop.add(a, b)", "torch.ops.anyop.add(a, b)"): 1 / 4,
    ("torch.ops.anyop.add(a, b)", "C++ operator by hand"): 1.05,
    ("torch.ops.anyop.add(g, b)", "autograd::Function by hand, (g, b)"): 0.8,
}
# Rows of `anyop bench hosts`: the most of the framework's own time, or ns where it has none.
HOST_GOALS = {"JAX jit": 1.1, "JAX eager": 2, "JAX jit, each of a chain of 100": 130}
DECODE_GOAL = 2  # x the same model in plain jax.numpy
# Rows of graphs by how part and what begin and what ends: the most, in the row's unit.
GRAPH_GOALS = (
    ("a call from Python", "graph", "", 200),
    ("a decode step of 30 layers, next to no work", "captured", "without its kernels", 10),
    ("a decode step of 30 layers, SmolLM2", "captured", "without its kernels", 80),
    ("making a graph", "the same", "per 1,000 nodes", 1),
    ("memory plan", "", "", 1.02),
    ("C++", "Replay", "per node", 4),
    ("C++", "Replay", "per region", 500),
)
IMPORT_MS = 40
BUSY_STEPS, BUSY_ROUNDS = 24, 3
QUICK_ROUNDS, QUICK_BYTES = 7, 100 << 20  # of a case's arrays
Note = Callable[[str], None]


@dataclass
class Goal:
    """aim: the least that is wanted, or the most where is_most."""

    part: str
    what: str
    reached: float
    aim: float
    unit: str = ""
    is_most: bool = False
    note: str = ""

    @property
    def is_met(self) -> bool:
        return self.reached <= self.aim if self.is_most else self.reached >= self.aim

    @property
    def share(self) -> float:
        """Of the aim: beyond 1 it is met."""
        low, high = (self.reached, self.aim) if self.is_most else (self.aim, self.reached)
        return high / low if low else float("inf")


def calls(costs: dict[str, float], import_ms: float, with_torch: bool) -> Iterator[Goal]:
    for name, aim in CALL_GOALS.items():
        if name in costs:
            yield Goal("call from C++", name, costs[name], aim, "ns", True)
    rows = call_bench.measure()
    rows += call_bench.measure_host("torch") if with_torch else []
    for row in rows:
        aim = RATIO_GOALS.get((row.what, row.beside))
        if aim is not None and row.ratio is not None:
            what = f"{row.what} ({row.ns:.0f} ns)"
            yield Goal("call from Python", what, row.ratio, aim, f"of {row.beside}", True)
    yield Goal("import anyop", "beyond NumPy", import_ms, IMPORT_MS, "ms", True)


def jax(with_model: bool, quick: bool, skipped: list[str]) -> Iterator[Goal]:
    """In processes of its own: JAX has as many threads as its process has cores."""
    cores = sorted({1, anyop.get_num_threads()}) if with_model else []
    plan = host_bench.Plan(["bf16", "f32"], cores, rounds=1 if quick else 3)
    found, missing = host_bench.measure(["jax"], plan)
    skipped += missing
    for row in found:
        yield from host_goals(row)


def host_goals(row: host_bench.Row) -> Iterator[Goal]:
    reached = row.call_ratio if row.beside else row.call_ns
    if row.host in HOST_GOALS and reached is not None:
        unit = f"of {row.beside}" if row.beside else "ns"
        yield Goal("call with JAX arrays", row.host, reached, HOST_GOALS[row.host], unit, True)
    if row.host == "JAX eager" and row.import_ms is not None:
        yield Goal("import anyop", "beyond JAX", row.import_ms, IMPORT_MS, "ms", True)
    for decode in row.decode:
        if decode.ratio is not None and not decode.is_void:
            what = f"decode {decode.weights}, JAX, {decode.threads} threads ({decode.ours:.0f}/s)"
            yield Goal("model", what, decode.ratio, DECODE_GOAL, "x jax.numpy")


def graphs(programs: Path, quick: bool, skipped: list[str]) -> Iterator[Goal]:
    decoders = models.module_of(MODEL / "decoder_graphs.py")
    rows = [*graph_bench.calls(quick), *graph_bench.overheads(decoders, quick)]
    rows += [*graph_bench.making(decoders, quick), *graph_bench.memory(decoders)]
    for program in graph_bench.PROGRAMS:
        rows += graph_bench.cpp(programs / program, quick, skipped)
    for row in rows:
        if (aim := graph_aim(row)) is not None:
            yield Goal("graphs", f"{row.part}: {row.what}", row.value, aim, row.unit, True)


def graph_aim(row: graph_bench.Row) -> float | None:
    for part, begin, end, aim in GRAPH_GOALS:
        is_meant = row.part.startswith(part) and row.what.startswith(begin)
        if is_meant and row.what.endswith(end):
            return aim
    return None


def best_of(*measured: dict[str, Any]) -> dict[str, Any]:
    """Ceilings of which each was reached once: another program only ever lowers them."""

    def best(same: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        speeds = {k: max(s[k] for s in same) for k in same[0] if k.endswith("gbs") or k == "gops"}
        return {**same[0], **speeds}

    parts = ("bandwidths", "rates")
    pairs = {part: zip(*(m[part] for m in measured), strict=True) for part in parts}
    return {**measured[0], **{part: [best(same) for same in pairs[part]] for part in parts}}


def measured_again() -> dict[str, Any]:
    """A process measures its ceilings once."""
    program = "import json; from anyop import _anyop; print(json.dumps(_anyop.ceilings()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def operators(
    ceilings: dict[str, Any], opponents: list[str], quick: bool, note: Note
) -> Iterator[Goal]:
    """Cases that say which goal they are for, at the sizes that the goal is about."""
    found: list[tuple[Any, measure.Row]] = []
    cores = anyop.get_num_threads()
    level = {b["level"]: b["bytes"] for b in ceilings["bandwidths"] if b["threads"] == 1}
    anyop.set_num_threads(1)
    models.set_threads(1)
    try:
        for name, path in operator_bench.case_files(None, ()):
            for case in operator_bench.load_cases(name, path):
                if not is_wanted(case, level) or (quick and case.array_bytes > QUICK_BYTES):
                    continue
                note(f"{name} {case.sizes}")
                beside = [kind[2:] for kind, _ in CASE_GOALS[case.goal]]
                present = [o for o in opponents if o in beside]
                row = measure.measure(name, case, ceilings, present)
                assert row
                found.append((case, row))
    finally:
        models.set_threads(cores)
    note("the machine's ceilings, again")
    ceilings.update(best_of(ceilings, measured_again()))
    for case, row in found:
        row.bound_us, row.bound_by = measure.bound(case, ceilings, row.threads, False)
        yield from case_goals(case, row, ceilings, level["L3"])


def is_wanted(case: Any, level: dict[str, int]) -> bool:
    """Whether the case is of a size that its goal is about. level: bytes of the caches."""
    if case.goal == "small operator":
        return bool(case.array_bytes <= level["L2"])
    if case.goal == "movement":
        return bool(case.array_bytes > 2 * level["L1"])
    if case.goal.startswith("one row"):
        return bool(case.moved > 2 * level["L3"])
    return bool(case.goal)


def case_goals(
    case: Any, row: measure.Row, ceilings: dict[str, Any], cached: int
) -> Iterator[Goal]:
    best, what = row.ours.best_us, f"{row.operator} {row.sizes}"
    for kind, aim in CASE_GOALS[case.goal]:
        reached: float | None = row.bound_us / best
        if kind.startswith("x "):
            reached = row.ratio(kind[2:])
        elif kind.endswith(" bandwidth"):
            moves, speed = replace(case, flops=0), f"{kind.split()[1]}_gbs"
            bound, level = measure.bound(moves, ceilings, row.threads, False, (speed,))
            reached, kind = bound / best, f"{kind} ({level})"
        elif case.array_bytes > cached:
            aim = FROM_DRAM.get(case.goal, aim)
        if reached is not None:
            unit = f"{kind} ({row.bound_by})" if kind == "of the ceiling" else kind
            yield Goal(case.goal, what, reached, aim, unit, note=row.note)


def model(quick: bool, skipped: list[str]) -> Iterator[Goal]:
    made = models.load(MODEL)
    most = anyop.get_num_threads()
    plan = models.Plan(sorted({1, most}), steps=32 if quick else 48, prefill=0,
                       rounds=1 if quick else 3)  # fmt: skip
    rows, reasons, _ = model_bench.run(made, plan, ["bf16", "q4_1"], ["captured"], ["llama"])
    skipped += reasons
    for row in rows:
        per_s = 1e6 / row.ours.best_us
        what = f"{row.sizes}, threads {row.threads} ({per_s:.0f}/s)"
        if row.sizes == models.sizes_of(models.DECODE, "bf16", "captured") and row.threads == most:
            share = row.bound_us / row.ours.best_us
            yield Goal("model", what, share, READ_LIMIT, "of the read limit")
        ratio = row.ratio("llama")
        for how, aim in LLAMA_GOALS.items():
            if ratio and row.sizes == models.sizes_of(models.DECODE, "q4_1", how):
                yield Goal("model", what, ratio, aim, "x llama.cpp")
    if most > 1:
        yield busy_core(most)


def spin() -> None:
    while True:
        pass


def busy_core(threads: int) -> Goal:
    """Decode while another process keeps one core: all threads against one."""
    from examples.smollm2.model import Model
    from examples.smollm2.weights import load

    decoder = Model(load(), "bf16", captured=True)
    prompt, ids = list(range(100, 132)), [504] * BUSY_STEPS
    other = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
    other.start()
    best: dict[int, float] = {}
    try:
        for _ in range(BUSY_ROUNDS):
            for n in (1, threads):
                models.set_threads(n)
                seconds, _ = models.decode(decoder, prompt, ids)
                best[n] = max(best.get(n, 0), 1 / statistics.median(seconds[4:]))
    finally:
        other.kill()
        models.set_threads(threads)
    what = f"decode bf16, {threads} threads, one core taken ({best[threads]:.0f}/s)"
    return Goal("model", what, best[threads] / best[1], 0.95, f"of 1 thread ({best[1]:.0f}/s)")


def rows(
    ceilings: dict[str, Any], costs: dict[str, float], import_ms: float, programs: Path,
    console: Console, quick: bool, with_model: bool,
) -> tuple[list[Goal], list[str]]:  # fmt: skip
    """All goals, and what could not be measured. quick: fewer rounds, no compiled opponents."""
    skipped = [] if costs else ["No calls from C++: build with tests, as ./check does."]
    names = ["torch"] if importlib.util.find_spec("torch") else []
    if not names:
        skipped.append("No rows of torch: it is not installed. Try: pip install torch")
    for name, opponent in interpreters.OPPONENTS.items():
        if opponent.is_installed:
            names.append(name)
        else:
            skipped.append(f"No rows of {name}. Try: anyop bench opponents --install {name}")
    if quick:
        measure.ROUNDS = QUICK_ROUNDS
    found: list[Goal] = []
    with console.status("calls") as status:
        found += calls(costs, import_ms, not quick and "torch" in names)
        status.update("JAX")
        found += jax(with_model, quick, skipped)
        status.update("graphs")
        found += graphs(programs, quick, skipped)
        found += operators(ceilings, names, quick, status.update)
    if with_model:
        found += model(quick, skipped)
    return found, skipped


def facts(found: Iterable[Goal]) -> list[dict[str, Any]]:
    return [{**asdict(g), "is_met": g.is_met} for g in found]


def show(found: list[Goal], skipped: list[str], console: Console, short: bool = False) -> None:
    """A line for each goal; short: for each kind of goal, with the one that is furthest off."""
    table = Table(title="Goals, one run; operators with 1 thread")
    for name in ("goal", "what", "reached", "aim", "", "met"):
        table.add_column(name, justify="right" if name in ("reached", "aim") else "left")
    for part, unit in dict.fromkeys((g.part, kind_of(g)) for g in found):
        mine = [g for g in found if (g.part, kind_of(g)) == (part, unit)]
        worst = min(mine, key=lambda g: g.share)
        for g in [worst] if short else mine:
            sign = "<=" if g.is_most else ">="
            met = "yes" if g.is_met else "NO"
            if short:
                met = f"{sum(g.is_met for g in mine)} of {len(mine)}"
            what = f"furthest: {g.what}" if short and len(mine) > 1 else g.what
            reached = f"{g.reached:.3g}" if g.reached < 1000 else f"{g.reached:.0f}"
            table.add_row(part, what, reached, f"{sign} {g.aim:g}", g.unit, met)
    console.print(table)
    for reason in dict.fromkeys(skipped):
        console.print(reason)


def kind_of(goal: Goal) -> str:
    """Goals of one kind are one line of the short table."""
    return goal.unit.split(" (")[0] if goal.part in CASE_GOALS else goal.part
