# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of 4 and 8 bits served by vLLM, beside the tokens of what they decode to.

    quantized_program.py FOLDER '["awq"]' '{"dtype": "float32"}'

A name that ends in ":WHAT" is the checkpoint with a defect; the option "amx" is a processor that
says it has AMX. Run by vLLM's Python.
"""

from __future__ import annotations

import gc
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bytes_models
import quantized_models
from models_program import serve

Tensors = dict[str, Any]
LAYER = "model.layers.1.self_attn.k_proj."


def without_scale(tensors: Tensors, config: dict[str, Any]) -> None:
    del tensors[LAYER + ("weight_scale" if LAYER + "weight_scale" in tensors else "scales")]


def without_input_scale(tensors: Tensors, config: dict[str, Any]) -> None:
    for layer in ("q_proj", "k_proj", "v_proj"):
        del tensors[LAYER.replace("k_proj", layer) + "input_scale"]


def with_another_group(tensors: Tensors, config: dict[str, Any]) -> None:
    config["group_size"] = 48


def with_a_group_too_many(tensors: Tensors, config: dict[str, Any]) -> None:
    for name, tensor in tensors.items():
        if name.endswith("layers.1.self_attn.o_proj.g_idx"):
            tensor[5] = 4


def with_unknown_bits(tensors: Tensors, config: dict[str, Any]) -> None:
    config["bits"] = 5


DEFECTS: dict[str, Callable[[Tensors, dict[str, Any]], None]] = {
    "no_scale": without_scale,
    "no_input_scale": without_input_scale,
    "group": with_another_group,
    "index": with_a_group_too_many,
    "bits": with_unknown_bits,
}


def spoil(whole: Path, broken: Path, defect: str) -> None:
    from safetensors.torch import load_file, save_file

    broken.mkdir()
    tensors = load_file(whole / "model.safetensors")
    config = json.loads((whole / "config.json").read_text())
    DEFECTS[defect](tensors, config["quantization_config"])
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    (broken / "config.json").write_text(json.dumps(config))


def attempt(folder: Path, asked: str, options: dict[str, Any]) -> dict[str, Any]:
    name, _, defect = asked.partition(":")
    kind: Any = bytes_models if name in bytes_models.FORMATS else quantized_models
    if not (folder / name).exists():
        kind.make(name, folder)
    if defect:
        broken = folder / asked.replace(":", "_")
        shutil.rmtree(broken, ignore_errors=True)
        spoil(folder / name, broken, defect)
        return serve(broken, options)
    return {"expected": kind.expected(name, folder), **serve(folder / name, options)}


def main() -> None:
    from vllm.distributed import cleanup_dist_env_and_memory

    folder, names, options = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    if options.pop("amx", False):
        import torch

        torch.cpu._is_amx_tile_supported = lambda: True
    found = {}
    for name in names:
        try:
            found[name] = attempt(folder, name, options)
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        gc.collect()
        if name != names[-1]:
            cleanup_dist_env_and_memory()
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
