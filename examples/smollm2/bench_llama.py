# SPDX-License-Identifier: Apache-2.0
"""The model in llama.cpp; runs in its interpreter (`anyop bench opponents`), asked by llama.py."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass, field
from typing import Any

import llama_cpp as c
import numpy as np

QUIET = c.llama_log_callback(lambda level, text, data: None)
LONG = 512  # tokens of the cache that are worth keeping when it is cut


@dataclass
class Loaded:
    path: str
    context: Any
    memory: Any
    batch: Any
    vocab: int
    cached: list[int]  # the tokens that the cache has
    # Of the longest text so far: its tokens, and what the cache held of them.
    kept: list[int] = field(default_factory=list)
    state: Any = None

    def forward(self, ids: list[int], all_logits: bool = False) -> np.ndarray:
        """Appends tokens. Returns logits [1, vocab], or [t, vocab]; a view of llama.cpp's."""
        b, start = self.batch, c.llama_memory_seq_pos_max(self.memory, 0) + 1
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i], b.pos[i] = token, start + i
            b.n_seq_id[i], b.seq_id[i][0] = 1, 0
            b.logits[i] = all_logits or i + 1 == len(ids)
        if status := c.llama_decode(self.context, b):
            raise RuntimeError(f"llama_decode gave {status}")
        self.cached += ids
        rows = len(ids) if all_logits else 1
        logits = c.llama_get_logits(self.context)
        return np.ctypeslib.as_array(logits, (rows, self.vocab))

    def reset(self) -> None:
        c.llama_memory_clear(self.memory, True)
        self.cached = []

    def read(self, prompt: list[int]) -> None:
        """As reset and forward, but for the tokens that the cache has, or had before it was cut:
        texts of several lengths take turns, and to read one anew takes minutes."""
        n = _common(prompt, self.cached)
        if len(self.cached) - n >= LONG and len(self.cached) > len(self.kept):
            self._keep()
        if (again := _common(prompt, self.kept)) >= n + LONG:
            self._restore()
            n = again
        c.llama_memory_seq_rm(self.memory, 0, n, -1)
        self.cached = self.cached[:n]
        self.forward(prompt[n:])

    def _keep(self) -> None:
        size = c.llama_state_seq_get_size(self.context, 0)
        self.state = (ctypes.c_ubyte * size)()
        if c.llama_state_seq_get_data(self.context, self.state, size, 0) != size:
            raise RuntimeError("llama_state_seq_get_data gave less than the state")
        self.kept = list(self.cached)

    def _restore(self) -> None:
        c.llama_memory_clear(self.memory, True)
        if not c.llama_state_seq_set_data(self.context, self.state, len(self.state), 0):
            raise RuntimeError("llama_state_seq_set_data refused its own state")
        self.cached = list(self.kept)


def _common(prompt: list[int], known: list[int]) -> int:
    """How many tokens of the prompt, but for the last, are known ones."""
    n = 0
    while n < min(len(prompt) - 1, len(known)) and prompt[n] == known[n]:
        n += 1
    return n


_models: dict[str, Any] = {}
_loaded: dict[str, Loaded] = {}


def load(path: str, flash: bool, tokens: int) -> str:
    """Reads a GGUF file, weights in the layout that llama.cpp takes for its kernels. Returns a name
    for the other functions. tokens: the longest sequence, and the largest step."""
    c.llama_log_set(QUIET, ctypes.c_void_p(0))
    name = f"{path} {flash}"
    if path not in _models:
        options = c.llama_model_default_params()
        _models[path] = c.llama_model_load_from_file(path.encode(), options)
        if not _models[path]:
            raise RuntimeError(f"llama.cpp cannot read {path}")
    model = _models[path]
    options = c.llama_context_default_params()
    options.n_ctx = options.n_batch = tokens
    options.n_ubatch = min(tokens, 512)
    options.flash_attn_type = (
        c.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash else c.LLAMA_FLASH_ATTN_TYPE_DISABLED
    )
    options.no_perf = True
    context = c.llama_init_from_model(model, options)
    vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(model))
    batch = c.llama_batch_init(tokens, 0, 1)
    _loaded[name] = Loaded(path, context, c.llama_get_memory(context), batch, vocab, [])
    return name


def close(name: str) -> None:
    """Frees a context, and the weights after the last one of theirs."""
    model = _loaded.pop(name)
    c.llama_batch_free(model.batch)
    c.llama_free(model.context)
    if all(other.path != model.path for other in _loaded.values()):
        c.llama_model_free(_models.pop(model.path))


def decode(name: str, prompt: list[int], ids: list[int], threads: int) -> dict[str, list[Any]]:
    """Decodes ids after the prompt: seconds of each step, and the likeliest token after it."""
    model = _loaded[name]
    c.llama_set_n_threads(model.context, threads, os.cpu_count() or 1)  # of steps; of reading
    model.read(prompt)
    seconds, likeliest = [], []
    for token in ids:
        start = time.perf_counter()
        logits = model.forward([token])
        seconds.append(time.perf_counter() - start)
        likeliest.append(int(logits[0].argmax()))
    return {"seconds": seconds, "likeliest": likeliest}


def prefill(name: str, prompt: list[int], threads: int) -> float:
    """Seconds until the logits of the last token."""
    model = _loaded[name]
    c.llama_set_n_threads(model.context, threads, threads)
    model.reset()
    start = time.perf_counter()
    model.forward(prompt)
    return time.perf_counter() - start


def quantize(source: str, target: str, kind: int) -> None:
    """Writes a GGUF file anew as llama.cpp's quantizer does. kind: its number of a mix."""
    c.llama_log_set(QUIET, ctypes.c_void_p(0))
    options = c.llama_model_quantize_default_params()
    options.ftype, options.nthread = kind, 1
    if status := c.llama_model_quantize(source.encode(), target.encode(), options):
        raise RuntimeError(f"llama_model_quantize gave {status}")


def logits(name: str, ids: list[int], threads: int) -> list[list[float]]:
    """After each token."""
    model = _loaded[name]
    c.llama_set_n_threads(model.context, threads, threads)
    model.reset()
    found: list[list[float]] = model.forward(ids, all_logits=True).tolist()
    return found


def log_probabilities(name: str, ids: list[int], threads: int) -> list[float]:
    """Of each token but the first, after those before it."""
    model = _loaded[name]
    c.llama_set_n_threads(model.context, threads, threads)
    model.reset()
    logits = model.forward(ids, all_logits=True)[:-1].astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    chosen = logits[np.arange(len(ids) - 1), ids[1:]]
    result: list[float] = (chosen - np.log(np.exp(logits).sum(-1))).tolist()
    return result
