# SPDX-License-Identifier: Apache-2.0
"""SmolLM2 decode: anyop on each host beside plain NumPy and PyTorch, interleaved in one run.

Every model decodes the same tokens (those that anyop in f32 finds likeliest), so that all do the
same work; `match` counts the steps at which a model's own likeliest token is that one.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyop
import numpy as np
import threadpoolctl
from rich.console import Console
from rich.table import Table

PROMPT = "Explain in a few sentences how a bicycle stays upright."
STEPS = 48
ROUNDS = 3
BEFORE = 4  # steps that warm up each round
WEIGHT_BYTES = {"f32": 4, "bf16": 2}


@dataclass
class Row:
    """A way to run the model; `group` rows are of the same dtype and compare with each other."""

    what: str
    dtype: str
    threads: int
    tokens_per_s: float = 0.0  # by the median step
    best_per_s: float = 0.0  # by the fastest one
    matches: int = STEPS
    read_limit_share: float = 0.0
    model: Any = field(default=None, repr=False)

    def facts(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "model"}


def without_torch() -> str:
    """Why there are no rows for torch, "" if there are."""
    if importlib.util.find_spec("torch"):
        return ""
    return "No rows for PyTorch: torch is not installed. Try: pip install torch"


def set_threads(n: int) -> None:
    anyop.set_num_threads(n)
    if not without_torch():
        import torch

        torch.set_num_threads(n)


def _likeliest(logits: Any) -> int:
    return int(np.argmax(np.asarray(logits[0], np.float32)))


def greedy(model: Any, prompt: list[int]) -> list[int]:
    """The tokens that all models then decode."""
    model.reset()
    ids = [_likeliest(model.forward(np.array(prompt)))]
    while len(ids) < STEPS + 1:
        ids.append(_likeliest(model.forward(np.array(ids[-1:]))))
    return ids


def decode(model: Any, prompt: list[int], ids: list[int]) -> tuple[list[float], list[int]]:
    """Decodes ids after the prompt: seconds of each step, the likeliest token after it."""
    if hasattr(model, "decode"):  # in another process
        return model.decode(prompt, ids)
    model.reset()
    model.forward(np.array(prompt))
    seconds, likeliest = [], []
    for token in ids:
        one = np.array([token])
        start = time.perf_counter()
        logits = model.forward(one)
        seconds.append(time.perf_counter() - start)
        likeliest.append(_likeliest(logits))
    return seconds, likeliest


def measure(row: Row, prompt: list[int], ids: list[int]) -> None:
    """Decodes `ids` after the prompt and keeps the rate of the median step if it is the best."""
    with threadpoolctl.threadpool_limits(row.threads):
        set_threads(row.threads)
        seconds, likeliest = decode(row.model, prompt, ids[:-1])
    row.matches = min(row.matches, sum(a == b for a, b in zip(likeliest, ids[1:], strict=True)))
    row.tokens_per_s = max(row.tokens_per_s, 1 / float(np.median(seconds[BEFORE:])))
    row.best_per_s = max(row.best_per_s, 1 / min(seconds[BEFORE:]))


def models(file: Any, compiled: bool, note: Callable[[str], None]) -> list[tuple[str, str, Any]]:
    """(what, dtype, model) of each row; the first is the one whose tokens all decode."""
    from examples.smollm2.model import Model
    from examples.smollm2.numpy_model import NumpyModel

    found: list[tuple[str, str, Any]] = []
    for dtype in ("f32", "bf16"):
        note(f"anyop, {dtype}")
        found.append(("anyop, NumPy", dtype, Model(file, dtype)))
        found.append(("anyop, NumPy, captured", dtype, Model(file, dtype, captured=True)))
    for dtype in ("q4", "q4-rows"):
        note(f"anyop, {dtype}")
        found.append(("anyop, NumPy", dtype, Model(file, dtype)))
        found.append(("anyop, NumPy, captured", dtype, Model(file, dtype, captured=True)))
    found.append(("plain NumPy", "f32", NumpyModel(file)))
    if without_torch():
        return found
    import torch_opponents

    from examples.smollm2.torch_model import TorchModel

    for dtype in ("f32", "bf16"):
        note(f"PyTorch, {dtype}")
        found.append(("anyop, torch eager", dtype, Model(file, dtype, host="torch")))
        captured = Model(file, dtype, host="torch", captured=True)
        found.append(("anyop, torch captured", dtype, captured))
        found.append(("PyTorch eager", dtype, TorchModel(file, dtype)))
        if not torch_opponents.without_transformers():
            theirs = torch_opponents.TransformersModel(file, dtype)
            found.append(("transformers eager", dtype, theirs))
        if compiled:
            ours = Model(file, dtype, host="torch", compiled=True)
            found.append(("anyop, torch compiled", dtype, ours))
            found.append(("PyTorch compiled", dtype, TorchModel(file, dtype, compiled=True)))
            plain = torch_opponents.through_anyop(file, dtype)
            found.append(("PyTorch, backend anyop", dtype, plain))
            tuned = torch_opponents.max_autotune(file, dtype)
            found.append(("PyTorch max-autotune", dtype, tuned))
    return found


def rows(ceilings: dict[str, Any], compiled: bool, console: Console) -> list[Row]:
    from examples.smollm2.weights import load

    file = load()
    prompt = file.tokenizer.encode(file.chat(PROMPT), add_special_tokens=False).ids
    cores = anyop.get_num_threads()
    with console.status("reading the model") as status:
        found = models(file, compiled, lambda text: status.update(f"packing weights: {text}"))
        ids = greedy(found[0][2], prompt)
        made = [Row(*f[:2], n, model=f[2]) for f in found for n in sorted({1, cores})]
        for turn in range(ROUNDS + compiled):
            for row in made:
                status.update(f"round {turn + 1}: {row.what}, {row.dtype}, threads {row.threads}")
                measure(row, prompt, ids)
    set_threads(cores)
    dram = {b["threads"]: b["read_gbs"] for b in ceilings["bandwidths"] if b["level"] == "DRAM"}
    weights = sum(t.size for t in file.tensors.values())
    in_blocks = sum(b.rows.nbytes for b in file.blocks.values())
    for row in made:
        moved = in_blocks if row.dtype.startswith("q4") else weights * WEIGHT_BYTES[row.dtype]
        row.read_limit_share = row.tokens_per_s * moved / dram[row.threads] / 1e9
    return sorted(made, key=lambda r: (r.dtype, r.threads, r.what))


def show(made: list[Row], console: Console) -> None:
    table = Table(title=f"SmolLM2-135M decode, {STEPS} tokens, median step, best of the rounds")
    names = (
        "dtype",
        "threads",
        "what",
        "tokens/s",
        "of the read limit",
        "x PyTorch eager",
        "match",
    )
    for name in names:
        table.add_column(name, justify="left" if name in ("what", "dtype") else "right")
    for row in made:
        same = [r for r in made if (r.dtype, r.threads) == (row.dtype, row.threads)]
        base = next((r.tokens_per_s for r in same if r.what == "PyTorch eager"), None)
        table.add_row(
            row.dtype, str(row.threads), row.what, f"{row.tokens_per_s:.1f}",
            f"{row.read_limit_share:.0%}", f"{row.tokens_per_s / base:.2f}" if base else "-",
            f"{row.matches}/{STEPS}",
        )  # fmt: skip
    console.print(table)
    if without_torch():
        console.print(without_torch())
        return
    import torch_opponents

    if torch_opponents.without_transformers():
        console.print(torch_opponents.without_transformers())
