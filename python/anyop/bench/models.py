# SPDX-License-Identifier: Apache-2.0
"""Ways to run one model, timed in turns: a step of one token, and a prompt at once.

The folder of a model has a bench.py that defines `bench`, a ModelBench. All ways decode the same
tokens (those that the first one of this process finds likeliest), so that all do the same work.
After a long context they decode the tokens of the context instead: what is in a cache stays right.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import anyop
from anyop import _anyop
from anyop.bench.measure import OURS, Row, Timing, levels_of

DECODE, PREFILL = "decode", "prefill"
CHUNK = 512  # tokens of a long context that are read at once
BEFORE = 4  # steps that warm up each round
PROMPTS = 2  # of a round: after the other ways' rounds the first one finds cold caches and threads
ENOUGH = 0.75  # of the steps with the same likeliest token: fewer, and it is another model
Note = Callable[[str], None]


@dataclass
class Way:
    """One way to run the model.

    label    "anyop" of ours, else the opponent's name
    how      which of the label's ways, as people read it: "captured", "flash attention"
    weights  what they are stored as; ways of the same weights are beside each other
    model    reset(); forward(ids i64[t]) -> logits [1, vocab] after the last token, an array of any
             host. One in another process has instead decode(prompt, ids) -> (seconds of each step,
             likeliest token after it) and prefill(prompt) -> seconds. Where long contexts are
             measured, `length` is how many tokens the cache has, and may be set to fewer
             and back.
             close(), where it has one, gives back what this process cannot collect
    moved    bytes of weights that a step reads
    flops    of a token
    rate     what computes them: "f32 fma", "bf16 dot" or "int8 dot"
    cache    bytes of a token's keys and values
    needed   bytes of weights and caches, where the memory of the process is watched
    grown    bytes by which the process grew for the model so far
    known    tokens of a long context that were read so far
    """

    label: str
    how: str
    weights: str
    model: Any
    moved: int = 0
    flops: int = 0
    rate: str = "f32 fma"
    cache: int = 0
    needed: int = 0
    grown: int = 0
    known: int = 0


@dataclass
class Asked:
    """weights, ours and opponents: what was asked for. folder: for files, gone afterwards.
    shape: of random weights, "": the model itself. tokens: the longest sequence."""

    weights: Sequence[str]
    ours: Sequence[str]
    opponents: Sequence[str]
    folder: Path
    note: Note
    shape: str = ""
    tokens: int = 2048


@dataclass
class ModelBench:
    """What a model's bench.py tells. Of names: the reason why that cannot be had here, "" if it
    can. usual: those that run if nobody chooses.

    ways     ours first; `asked` has only names that can be had
    shapes   names of sizes that random weights can have, and the title of each. Each format has
             other weights there, so that one is measured at a time
    random   what `weights` is for these
    """

    title: str
    prompt: Callable[[], list[int]]
    weights: Mapping[str, str]
    ours: Mapping[str, str]
    opponents: Mapping[str, str]
    usual: Sequence[str]
    ways: Callable[[Asked], Iterator[Way]]
    shapes: Mapping[str, str] = field(default_factory=dict)
    random: Mapping[str, str] = field(default_factory=dict)

    def of_shape(self, shape: str) -> ModelBench:
        """With the title of a shape, and a prompt that needs no tokenizer."""
        return dataclasses.replace(
            self, title=self.shapes[shape], prompt=lambda: list(range(3, 43))
        )


@dataclass
class Plan:
    """What is timed: numbers of threads, tokens that are decoded, tokens of the prompt. contexts:
    how many tokens precede those that are decoded; none: the prompt, which is timed too."""

    threads: Sequence[int]
    steps: int = 48
    prefill: int = 512  # tokens; 0: none
    rounds: int = 3
    contexts: Sequence[int] = ()

    @property
    def phases(self) -> list[str]:
        if self.contexts:
            return [after(n) for n in self.contexts]
        return [DECODE, PREFILL] if self.prefill else [DECODE]

    @property
    def tokens(self) -> int:
        """The tokens of the longest sequence."""
        return max(2048, self.prefill, *(n + self.steps + 1 for n in self.contexts))


@dataclass
class _Timed:
    """Times of a way with a number of threads: seconds of a token, by phase."""

    way: Way
    threads: int
    best: dict[str, float] = field(default_factory=dict)
    median: dict[str, float] = field(default_factory=dict)
    same: float = 1.0  # of the steps: the likeliest token is the one that comes

    def keep(self, phase: str, best: float, median: float) -> None:
        self.best[phase] = min(best, self.best.get(phase, best))
        self.median[phase] = min(median, self.median.get(phase, median))

    def steps(
        self, phase: str, seconds: list[float], likeliest: list[int], expected: Sequence[int]
    ) -> None:
        seconds = seconds[BEFORE:] or seconds
        self.keep(phase, min(seconds), float(np.median(seconds)))
        agreed = sum(a == b for a, b in zip(likeliest, expected, strict=True))
        self.same = min(self.same, agreed / len(likeliest))

    def timing(self, phase: str) -> Timing:
        us = 1e6 * self.best[phase], 1e6 * self.median[phase]
        return Timing(*us, matches=self.same >= ENOUGH)


def load(folder: Path) -> ModelBench:
    """Throws InvalidArgument where there is none."""
    path = folder / "bench.py" if folder.is_dir() else folder
    if not path.is_file():
        raise anyop.InvalidArgument(
            f"bench: {folder} has no bench.py. Try the folder of a model, such as examples/smollm2."
        )
    bench = getattr(module_of(path), "bench", None)
    if not isinstance(bench, ModelBench):
        raise anyop.InvalidArgument(f"bench: {path} defines no `bench`, a ModelBench.")
    return bench


def module_of(path: Path) -> ModuleType:
    """Imports a file as a part of its package, so that it can import its neighbours."""
    parts, root = [path.stem], path.resolve().parent
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(".".join(parts))


def set_threads(n: int) -> None:
    """Of anyop, NumPy, and torch where something imported it."""
    anyop.set_num_threads(n)
    if importlib.util.find_spec("threadpoolctl"):
        import threadpoolctl  # type: ignore[import-untyped]

        threadpoolctl.threadpool_limits(n)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(n)


def _check_threads_of_jax(wanted: Sequence[int]) -> None:
    """XLA makes its threads once, one for each core that the process may use."""
    cores = len(os.sched_getaffinity(0))
    for n in wanted:
        if "jax" in sys.modules and n != cores:
            raise anyop.InvalidArgument(
                f"bench: {n} threads are asked for, but JAX has one for each core that the process "
                f"may use, which are {cores}. Try taskset -c 0-{n - 1} anyop bench model "
                f"--threads {n}, or anyop bench hosts."
            )


def greedy(model: Any, prompt: Sequence[int], steps: int) -> list[int]:
    """The likeliest token after the prompt, and each one after that: steps + 1."""
    model.reset()
    ids = [_likeliest(model.forward(np.array(prompt)))]
    while len(ids) < steps + 1:
        ids.append(_likeliest(model.forward(np.array(ids[-1:]))))
    return ids


def decode(model: Any, prompt: Sequence[int], ids: Sequence[int]) -> tuple[list[float], list[int]]:
    """Decodes ids after the prompt: seconds of each step, and the likeliest token after it."""
    if hasattr(model, "decode"):
        told: tuple[list[float], list[int]] = model.decode(list(prompt), list(ids))
        return told
    model.reset()
    model.forward(np.array(prompt))
    return _steps(model, ids)


def _steps(model: Any, ids: Sequence[int]) -> tuple[list[float], list[int]]:
    seconds, likeliest = [], []
    for token in ids:
        one = np.array([token])
        start = time.perf_counter()
        logits = _computed(model.forward(one))
        seconds.append(time.perf_counter() - start)
        likeliest.append(_likeliest(logits))
    return seconds, likeliest


def decode_after(
    model: Any, context: Sequence[int], ids: Sequence[int], known: int = 0
) -> tuple[list[float], list[int]]:
    """As decode, but without reading the first `known` tokens of the context: the cache holds them
    from an earlier round of the same text."""
    if hasattr(model, "decode"):
        return decode(model, context, ids)
    model.length = min(known, len(context))
    while model.length < len(context):
        _computed(model.forward(np.array(context[model.length : model.length + CHUNK])))
    return _steps(model, ids)


def prefill(model: Any, prompt: Sequence[int]) -> float:
    """Seconds until the logits after the prompt."""
    if hasattr(model, "prefill"):
        seconds: float = model.prefill(list(prompt))
        return seconds
    model.reset()
    start = time.perf_counter()
    _computed(model.forward(np.array(prompt)))
    return time.perf_counter() - start


def _computed(logits: Any) -> Any:
    """The logits, once they are there: calls of JAX and of MindSpore may return before."""
    if hasattr(logits, "asnumpy"):
        return logits.asnumpy()
    return logits.block_until_ready() if hasattr(logits, "block_until_ready") else logits


def _likeliest(logits: Any) -> int:
    return int(np.argmax(np.asarray(logits[0], np.float32)))


def _round(timed: _Timed, prompt: Sequence[int], ids: Sequence[int], plan: Plan) -> None:
    seconds, likeliest = decode(timed.way.model, prompt, ids[:-1])
    timed.steps(DECODE, seconds, likeliest, ids[1:])
    if plan.prefill:
        long = (list(prompt) * plan.prefill)[: plan.prefill]
        token = min(prefill(timed.way.model, long) for _ in range(PROMPTS)) / plan.prefill
        timed.keep(PREFILL, token, token)


def _round_after(
    timed: _Timed, prompt: Sequence[int], expected: dict[int, list[int]], plan: Plan
) -> None:
    """expected: by context, the likeliest tokens of the first way."""
    text = list(prompt) * (max(plan.contexts) + plan.steps)
    for n in plan.contexts:
        ids = text[n : n + plan.steps]
        way = timed.way
        seconds, likeliest = decode_after(way.model, text[:n], ids, way.known)
        way.known = max(way.known, n)
        timed.steps(after(n), seconds, likeliest, expected.setdefault(n, likeliest))


def after(context: int) -> str:
    """The phase of steps after so many tokens."""
    return f"{DECODE} after {context}"


def resident() -> int:
    """Bytes of this process that are in memory, pages of files too. Linux; elsewhere 0."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * mmap.PAGESIZE if pages.exists() else 0


def measure(
    bench: ModelBench, ways: Sequence[Way], plan: Plan, ceilings: Mapping[str, Any],
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter, note: Note = lambda text: None,
) -> list[Row]:  # fmt: skip
    """A row for each of our ways, threads and phase; us of a token. progress wraps the rounds."""
    _check_threads_of_jax(plan.threads)
    before = anyop.get_num_threads()
    # The most threads first: they read the long contexts, which fewer then find in the cache.
    threads = sorted(plan.threads, reverse=bool(plan.contexts))
    made = [_Timed(way, n) for way in ways for n in threads]
    prompt = bench.prompt()
    ids: list[int] = []
    expected: dict[int, list[int]] = {}
    try:
        set_threads(max(plan.threads))
        if not plan.contexts:
            ids = greedy(_first_here(ways), prompt, plan.steps)
        turns = [(turn, timed) for turn in range(plan.rounds) for timed in made]
        for turn, timed in progress(turns):
            way = timed.way
            note(
                f"round {turn + 1}: {way.label}, {way.how}, {way.weights}, {timed.threads} threads"
            )
            set_threads(timed.threads)
            grown = resident()
            if plan.contexts:
                _round_after(timed, prompt, expected, plan)
            else:
                _round(timed, prompt, ids, plan)
            way.grown += resident() - grown
    finally:
        set_threads(before)
    ours = [t for t in made if t.way.label == OURS]
    return [_row(bench.title, t, made, phase, ceilings) for phase in plan.phases for t in ours]


def close(ways: list[Way]) -> None:
    """Gives the memory of the models back; the list is empty then."""
    for way in ways:
        if hasattr(way.model, "close"):
            way.model.close()
    ways.clear()
    gc.collect()  # a model and its graph know each other


def _first_here(ways: Sequence[Way]) -> Any:
    """The model that chooses the tokens: one in another process only decodes what it is given."""
    for way in ways:
        if hasattr(way.model, "forward"):
            return way.model
    raise anyop.InvalidArgument(
        f"bench: {', '.join(way.how for way in ways)} only decodes tokens that it is given, but "
        "one way must choose them. Try one more, such as --ours captured."
    )


def sizes_of(phase: str, weights: str, how: str) -> str:
    """A row's `sizes`."""
    return f"{phase} {weights}, {how}"


def is_of_a_model(row: Row) -> bool:
    """Or of an operator."""
    return row.sizes.startswith((f"{DECODE} ", f"{PREFILL} "))


def _row(
    title: str, timed: _Timed, made: Sequence[_Timed], phase: str, ceilings: Mapping[str, Any]
) -> Row:
    way = timed.way
    us, by = _bound(way, phase, timed.threads, ceilings)
    moved = _moved(way, phase)
    timings, notes = {OURS: timed.timing(phase)}, list[str]()
    for other in made:
        theirs = other.way
        if theirs.label == OURS or (theirs.weights, other.threads) != (way.weights, timed.threads):
            continue
        known = timings.get(theirs.label)
        if known is None or other.best[phase] * 1e6 < known.best_us:  # the best of its settings
            timings[theirs.label] = other.timing(phase)
        if other.same < 1:
            notes.append(f"{theirs.label}, {theirs.how}: {other.same:.0%}")
    if timed.same < 1:
        notes.insert(0, f"anyop: {timed.same:.0%}")
    sizes = sizes_of(phase, way.weights, way.how)
    note = f"steps with the same likeliest token: {'; '.join(notes)}" if notes else ""
    if way.needed and way.grown:
        share = f"{way.grown / way.needed:.0%} of weights and cache, {way.needed >> 20} MiB"
        note = f"{note}{'. ' if note else ''}memory: {way.grown >> 20} MiB, {share}"
    return Row(
        title, sizes, "warm", timed.threads, way.how, us, by, note, timings,
        moved=moved, flops=way.flops,
    )  # fmt: skip


def _moved(way: Way, phase: str) -> int:
    """Bytes of weights, and of the keys and values that are known from the phase."""
    return way.moved + way.cache * int(phase.rpartition(" after ")[2] if " " in phase else 0)


def _bound(way: Way, phase: str, threads: int, ceilings: Mapping[str, Any]) -> tuple[float, str]:
    """The least us of a token: its weights and context from DRAM, or its arithmetic."""
    memory = levels_of(ceilings, threads)[-1]
    if phase != PREFILL:
        return _moved(way, phase) / memory["read_gbs"] / 1e3, memory["level"]
    rates = {r["name"]: r["gops"] for r in ceilings["rates"] if r["threads"] == memory["threads"]}
    return way.flops / rates.get(way.rate, rates["f32 fma"]) / 1e3, way.rate


def chosen(
    known: Mapping[str, str], names: Sequence[str], usual: Sequence[str], what: str
) -> tuple[list[str], list[str]]:
    """The names that run, the usual ones if none are given; and why others cannot. Throws
    InvalidArgument for names that are none."""
    for name in names:
        if name not in known:
            raise anyop.InvalidArgument(
                f"bench: no {what} is called '{name}'.{_anyop.did_you_mean(name, list(known))} "
                f"There are {', '.join(known)}."
            )
    wanted = [n for n in names or known if names or n in usual]
    return [n for n in wanted if not known[n]], [known[n] for n in wanted if known[n]]


def default_folder() -> Path:
    """Beside the checkout's root; what a user of the package alone does not have."""
    return Path(os.curdir) / "examples" / "smollm2"
