# SPDX-License-Identifier: Apache-2.0
"""python -m examples.vllm.save FILE.gguf FOLDER: a model as vLLM reads it, in bf16.

Run by a Python that has transformers and gguf.
"""

from __future__ import annotations

import sys
from pathlib import Path


def save(file: Path, folder: Path) -> None:
    """The weights of a GGUF file as numbers of bf16, with its tokenizer and chat template."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )  # fmt: skip
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)  # last: it says that the folder is complete


def is_saved(folder: Path) -> bool:
    return (folder / "model.safetensors").exists()


if __name__ == "__main__":
    save(Path(sys.argv[1]), Path(sys.argv[2]))
