# SPDX-License-Identifier: Apache-2.0
"""Adapters of LoRA on a model whose layers are replaced."""

from __future__ import annotations

from pathlib import Path

import in_vllm


def test_an_adapter_gives_the_tokens_of_merged_weights(tmp_path: Path) -> None:
    found = in_vllm.run("lora_program.py", str(tmp_path))
    assert found["adapter"] == found["merged"] != found["base"]
    assert found["mixed"] == found["base"] + found["adapter"] + found["base"]
    assert found["lora"].keys() == {"anyop.lora_shrink", "anyop.lora_expand"}
    assert all(line["replaced"] for line in found["lines"].values())
    assert found["lines"]["VocabParallelEmbedding"]["calls"] >= 16
