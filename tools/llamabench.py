# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 beside llama.cpp with the same weights: decode and prefill, interleaved in one run.

llama.cpp runs in its own process with flash attention on and off, its weights in the layouts that
it packs for its kernels; the better of the two is what ours is compared with.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyop
import modelbench
import numpy as np
from modelbench import PROMPT, STEPS
from rich.console import Console
from rich.table import Table

PREFILL = 512
ROUNDS = 3
QUICK_STEPS, QUICK_FORMATS = 32, ("bf16", "q4_1")
LLAMA = "llama.cpp"
# (weights, dtype of our model for a file of this format: packed, in rows)
FORMATS = [
    ("f32", ["f32"]), ("bf16", ["bf16"]), ("f16", []), ("q8_0", ["q4", "q4-rows"]),
    ("q4_1", ["q4", "q4-rows"]), ("q4_0", ["q4", "q4-rows"]),
]  # fmt: skip


@dataclass
class Row(modelbench.Row):
    """Of decode; prefill_per_s: tokens of a prompt of PREFILL per second."""

    prefill_per_s: float = 0.0


def models(folder: Path, kinds: Sequence[str], note: Any) -> list[tuple[str, str, int, Any]]:
    """(what, weights, bytes of a step's weights, model)."""
    from examples.smollm2.gguf_file import write
    from examples.smollm2.llama import LlamaModel, without_llama
    from examples.smollm2.model import Model
    from examples.smollm2.weights import find_model, load

    found: list[tuple[str, str, int, Any]] = []
    for kind, ours in FORMATS:
        if kind not in kinds:
            continue
        note(f"writing the weights as {kind}")
        path = folder / f"{kind}.gguf"
        write(find_model(), path, kind)
        moved = path.stat().st_size
        for dtype in ours:
            note(f"packing weights: {kind}")
            what = "anyop, rows of the file" if dtype.endswith("rows") else "anyop, packed"
            found.append((what, kind, moved, Model(load(path), dtype, captured=True)))
        for flash in () if without_llama() else (False, True):
            note(f"llama.cpp reads {kind}")
            what = f"{LLAMA}, flash attention" if flash else LLAMA
            found.append((what, kind, moved, LlamaModel(path, flash)))
    return found


def prefill(row: Row, prompt: list[int]) -> None:
    modelbench.set_threads(row.threads)
    if hasattr(row.model, "prefill"):
        seconds = row.model.prefill(prompt)
    else:
        row.model.reset()
        start = time.perf_counter()
        row.model.forward(np.array(prompt))
        seconds = time.perf_counter() - start
    row.prefill_per_s = max(row.prefill_per_s, len(prompt) / seconds)


def rows(ceilings: dict[str, Any], console: Console, quick: bool = False) -> list[Row]:
    from examples.smollm2.weights import load

    file = load()
    prompt = file.tokenizer.encode(file.chat(PROMPT), add_special_tokens=False).ids
    cores = anyop.get_num_threads()
    with console.status("reading the model") as status, tempfile.TemporaryDirectory() as folder:
        kinds = QUICK_FORMATS if quick else [kind for kind, _ in FORMATS]
        found = models(Path(folder), kinds, status.update)
        ids = modelbench.greedy(found[0][3], prompt)[: (QUICK_STEPS if quick else STEPS) + 1]
        made, moved = [], []
        for what, kind, size, model in found:
            for threads in sorted({1, cores}):
                made.append(Row(what, kind, threads, matches=len(ids) - 1, model=model))
                moved.append(size)
        for turn in range(1 if quick else ROUNDS):
            for row in made:
                status.update(f"round {turn + 1}: {row.what}, {row.dtype}, threads {row.threads}")
                modelbench.measure(row, prompt, ids)
                if turn == 0 or not quick:
                    prefill(row, (prompt * PREFILL)[:PREFILL])
    modelbench.set_threads(cores)
    dram = {b["threads"]: b["read_gbs"] for b in ceilings["bandwidths"] if b["level"] == "DRAM"}
    for row, size in zip(made, moved, strict=True):
        row.read_limit_share = row.best_per_s * size / dram[row.threads] / 1e9
    return made


def best_of_llama(row: Row, made: list[Row], what: str) -> float | None:
    """The better of llama.cpp's settings with the same weights and threads."""
    same = [r for r in made if (r.dtype, r.threads) == (row.dtype, row.threads)]
    found = [getattr(r, what) for r in same if r.what.startswith(LLAMA)]
    return max(found) if found else None


def show(made: list[Row], console: Console) -> None:
    from examples.smollm2.llama import without_llama

    title = f"SmolLM2-135M beside llama.cpp, tokens/s: decode, prefill of {PREFILL} tokens"
    table = Table(title=title)
    for name in ("weights", "threads", "what", "median", "fastest", "x llama.cpp",
                 "of the read limit", "match", "prefill/s", "x llama.cpp"):  # fmt: skip
        table.add_column(name, justify="left" if name in ("what", "weights") else "right")

    def ratio(row: Row, what: str) -> str:
        base = best_of_llama(row, made, what)
        return f"{getattr(row, what) / base:.2f}" if base else "-"

    for row in sorted(made, key=lambda r: (r.dtype, r.threads)):
        table.add_row(
            row.dtype, str(row.threads), row.what, f"{row.tokens_per_s:.1f}",
            f"{row.best_per_s:.1f}", ratio(row, "best_per_s"), f"{row.read_limit_share:.0%}",
            str(row.matches), f"{row.prefill_per_s:.0f}", ratio(row, "prefill_per_s"),
        )  # fmt: skip
    console.print(table)
    if without_llama():
        console.print(without_llama())
