# SPDX-License-Identifier: Apache-2.0
"""How well the model predicts a text, per way of storing its weights, beside llama.cpp.

Perplexity is exp of the mean of -log p(token | tokens before it in its window); lower is better.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyop
import numpy as np
from rich.console import Console
from rich.table import Table

from .gguf_file import write
from .llama import LlamaModel, without_llama
from .model import Model
from .weights import ModelFile, find_model, load

TOKENS, WINDOW = 1024, 512
# (weights, dtype of ours for a file in that format, "": ours has none)
WAYS = [
    ("f32", "f32"), ("f16", ""), ("bf16", "bf16"), ("q8_0", "q4"), ("q4_1", "q4"),
    ("q4_1", "q4-rows"), ("q4_0", "q4"),
]  # fmt: skip


def default_text() -> str:
    """What Python's own help says."""
    return "\n".join(topics[name] for name in sorted(topics))


def windows(file: ModelFile, text: str) -> list[list[int]]:
    """The first TOKENS tokens, in windows. Throws ValueError for a text without two tokens."""
    ids = file.tokenizer.encode(text[: 16 * TOKENS], add_special_tokens=False).ids[:TOKENS]
    if len(ids) < 2:
        raise ValueError(f"The text has {len(ids)} tokens, but must have 2 or more.")
    found = [ids[i : i + WINDOW] for i in range(0, len(ids), WINDOW)]
    return [w for w in found if len(w) > 1]


def log_probabilities(model: Any, ids: list[int]) -> np.ndarray:
    """Of each token but the first."""
    model.reset()
    logits = np.asarray(model.forward(np.array(ids), all_logits=True), np.float64)[:-1]
    logits -= logits.max(-1, keepdims=True)
    chosen = logits[np.arange(len(ids) - 1), ids[1:]]
    result: np.ndarray = chosen - np.log(np.exp(logits).sum(-1))
    return result


def perplexity(found: list[Any]) -> float:
    return math.exp(-float(np.mean(np.concatenate([np.asarray(f) for f in found]))))


def rows(text: str, file: Path | None, note: Any) -> Iterator[dict[str, Any]]:
    """weights, ours (its dtype), tokens, anyop, llama: perplexities, None where there is none."""
    source = file or find_model()
    parts = windows(load(source), text)
    with tempfile.TemporaryDirectory() as folder:
        for kind, dtype in WAYS:
            path = Path(folder) / f"{kind}.gguf"
            if not path.exists():
                note(f"writing {kind}")
                write(source, path, kind)
            row: dict[str, Any] = {"weights": kind, "ours": dtype, "tokens": sum(map(len, parts))}
            row["anyop"] = row["llama"] = None
            if dtype:
                note(f"anyop, {kind}")
                model = Model(load(path), dtype)
                row["anyop"] = perplexity([log_probabilities(model, w) for w in parts])
            if not without_llama():
                note(f"llama.cpp, {kind}")
                theirs = LlamaModel(path, max_tokens=WINDOW)
                row["llama"] = perplexity([theirs.log_probabilities(w) for w in parts])
            yield row


def show(path: str, file: Path | None, as_json: bool) -> None:
    """path: of a text, "": Python's help. Prints a table, or JSON."""
    text = Path(path).read_text(errors="replace") if path else default_text()
    console = Console(highlight=False)
    with Console(stderr=True).status("reading the model") as status:
        found = list(rows(text, file, status.update))
    if as_json:
        console.print_json(data={"threads": anyop.get_num_threads(), "rows": found})
        return
    title = f"Perplexity of {path or 'the help of Python'}, {found[0]['tokens']} tokens"
    table = Table(title=title)
    for column in ("weights", "anyop's dtype", "anyop", "llama.cpp"):
        table.add_column(column, justify="right" if column in ("anyop", "llama.cpp") else "left")
    for row in found:
        shown = [f"{row[k]:.3f}" if row[k] is not None else "-" for k in ("anyop", "llama")]
        table.add_row(row["weights"], row["ours"] or "-", *shown)
    console.print(table)
    if without_llama():
        console.print(without_llama())
