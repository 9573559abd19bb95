# SPDX-License-Identifier: Apache-2.0
"""The same model in llama.cpp, in a process of its own: the opponent for quantized weights."""

from __future__ import annotations

from pathlib import Path

import anyop
from anyop.bench import Elsewhere, installed

SERVED = Path(__file__).with_name("bench_llama.py")
NAME = "llama"
# enum llama_ftype: mixes of formats, as its quantizer names them.
QUANTIZER = {
    "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q4_K_M": 15, "q5_K_M": 17, "q6_K": 18,
}  # fmt: skip


def without_llama() -> str:
    """Why there are no rows for llama.cpp, "" if there are."""
    if NAME in installed():
        return ""
    return f"llama.cpp is not installed. Try: anyop bench opponents --install {NAME} (15 minutes)"


def quantize(source: Path, target: Path, mix: str) -> None:
    """As llama.cpp's own quantizer. mix: one of QUANTIZER. Throws as LlamaModel."""
    Elsewhere.of(NAME).call(
        SERVED, "quantize", source=str(source), target=str(target), kind=QUANTIZER[mix]
    )


class LlamaModel:
    """A GGUF file. Throws anyop.NotAvailable where llama.cpp is missing or refuses the file."""

    def __init__(self, path: Path, flash: bool = False, max_tokens: int = 2048) -> None:
        self._process = Elsewhere.of(NAME)
        self._name = self._process.call(
            SERVED, "load", path=str(path), flash=flash, tokens=max_tokens
        )

    def close(self) -> None:
        """Frees the weights and the cache over there."""
        self._process.call(SERVED, "close", name=self._name)

    def decode(self, prompt: list[int], ids: list[int]) -> tuple[list[float], list[int]]:
        """Decodes ids after the prompt: seconds of each step, the likeliest token after it."""
        told = self._process.call(
            SERVED, "decode", name=self._name, prompt=prompt, ids=ids,
            threads=anyop.get_num_threads(),
        )  # fmt: skip
        return told["seconds"], told["likeliest"]

    def prefill(self, prompt: list[int]) -> float:
        """Seconds until the last token's logits."""
        threads = anyop.get_num_threads()
        seconds: float = self._process.call(
            SERVED, "prefill", name=self._name, prompt=prompt, threads=threads
        )
        return seconds

    def logits(self, ids: list[int]) -> list[list[float]]:
        """After each token."""
        threads = anyop.get_num_threads()
        found: list[list[float]] = self._process.call(
            SERVED, "logits", name=self._name, ids=ids, threads=threads
        )
        return found

    def log_probabilities(self, ids: list[int]) -> list[float]:
        """Of each token but the first."""
        threads = anyop.get_num_threads()
        found: list[float] = self._process.call(
            SERVED, "log_probabilities", name=self._name, ids=ids, threads=threads
        )
        return found
