# SPDX-License-Identifier: Apache-2.0
"""What `anyop bench model examples/smollm2` measures: SmolLM2-135M on anyop's hosts, in plain
NumPy, PyTorch and JAX, in transformers and in llama.cpp, with the same weights."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anyop.bench import Asked, ModelBench, Way
from anyop.bench.models import resident

from . import random_file
from .gguf_file import EMBEDDING, write
from .llama import LlamaModel, without_llama
from .model import Model
from .numpy_model import NumpyModel
from .program_model import ProgramModel
from .random_file import HEAD, KINDS
from .weights import ModelFile, find_model, load

PROMPT = "Explain in a few sentences how a bicycle stays upright."
BYTES = {"f32": 4, "bf16": 2}  # of a weight
RATES = {"f32": "f32 fma", "bf16": "bf16 dot"}  # of blocks: "int8 dot"


def prompt() -> list[int]:
    file = load()
    ids: list[int] = file.encode(file.chat(PROMPT))
    return ids


def ways(asked: Asked) -> Iterator[Way]:
    asked.note("reading the model")
    file = None if asked.shape else load()
    for weights in asked.weights:
        made = _file(asked, weights, file) if file else _random_file(asked, weights)
        yield from _ways(asked, weights, *made)


def _random_file(asked: Asked, weights: str) -> tuple[ModelFile, Path]:
    kind, path = KINDS[asked.shape], asked.folder / f"{asked.shape}.{weights}.gguf"
    asked.note(f"writing {kind.title}, random weights as {weights}")
    random_file.write(kind, weights, path)
    return load(path), path


def _file(asked: Asked, weights: str, file: ModelFile) -> tuple[ModelFile, Path]:
    """The model with such weights, and where they are written if something reads them."""
    path = asked.folder / f"{weights}.gguf"
    is_other = weights not in BYTES and weights != file.blocks["blk.0.attn_q.weight"].format
    if is_other or "llama" in asked.opponents:
        asked.note(f"writing the weights as {weights}")
        write(find_model(), path, weights)
    return load(path) if is_other else file, path


def _ways(asked: Asked, weights: str, file: ModelFile, path: Path) -> Iterator[Way]:
    c = file.config
    # Of an embedding that is not the head too, a token reads one row.
    read = [name for name in file.tensors if name != EMBEDDING or HEAD not in file.tensors]
    count = sum(math.prod(file.tensors.shapes[name]) for name in read)
    stored = sum(file.blocks[name].rows.nbytes for name in read if name in file.blocks)
    moved = count * BYTES[weights] if weights in BYTES else stored
    cached = 2 * c.layers * c.kv_heads * c.head_dim * BYTES.get(weights, 2)
    tokens = min(asked.tokens, c.context)

    def way(label: str, how: str, make: Callable[[], Any]) -> Way:
        asked.note(f"{weights}: {label}, {how}")
        rate = RATES.get(weights, "int8 dot")
        file.release()
        before = resident()
        model = make()
        # Copies in the memory of a framework, and models of other processes, are not looked at.
        is_ours = label == "anyop" and isinstance(model, Model)
        needed = moved + cached * model.max_tokens if is_ours else 0
        return Way(
            label, how, weights, model, moved, 2 * count, rate, cached, needed,
            grown=resident() - before,
        )  # fmt: skip

    for name in asked.ours:
        for how, make in _ours(name, weights, file, asked.folder, tokens):
            yield way("anyop", how, make)
    for name in asked.opponents:
        for how, make in _theirs(name, weights, file, path, tokens):
            yield way(name, how, make)


def _ours(
    name: str, weights: str, file: ModelFile, folder: Path, tokens: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """(how, the model's maker); nothing where the weights are not for it."""
    stored = [(weights, "")]
    if weights not in BYTES:
        stored = [("q4", ", packed"), ("q4-rows", ", rows of the file")]
    for dtype, how in stored:
        if name in ("captured", "eager"):
            captured = name == "captured"
            yield name + how, _maker(Model, file, dtype, tokens, captured=captured)
        elif name in ("torch-eager", "torch-captured"):
            captured = name == "torch-captured"
            yield name + how, _maker(Model, file, dtype, host="torch", captured=captured)
    if weights in BYTES and name == "jax":
        from .jax_model import JaxModel

        yield name, _maker(JaxModel, file, weights)
    if weights in BYTES and name == "program":
        yield name, _maker(ProgramModel, file, weights, folder / f"{weights}.anyop")
    if weights in BYTES and name == "torch-compiled":
        yield name, _maker(Model, file, weights, host="torch", compiled=True)
    if name == "mindspore":
        for dtype, how in stored:
            yield name + how, _maker(Model, file, dtype, host="mindspore")
    if name == "mindspore-graph":
        from .mindspore_model import MindSporeModel

        for dtype, how in stored:
            yield name + how, _maker(MindSporeModel, file, dtype)
    if weights in BYTES and name == "backend":
        from . import torch_opponents

        yield "the PyTorch model, backend", _maker(torch_opponents.through_anyop, file, weights)


def _theirs(
    name: str, weights: str, file: ModelFile, path: Path, tokens: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    if name == "llama":
        for flash in (False, True):
            how = "flash attention" if flash else "no flash attention"
            yield how, _maker(LlamaModel, path, flash, tokens)
    elif name == "numpy" and weights == "f32":
        yield "plain", _maker(NumpyModel, file)
    elif name == "jax" and weights in BYTES:
        from .jax_plain import JaxPlainModel

        yield "one program", _maker(JaxPlainModel, file, weights)
    elif name == "mindspore" and weights == "f32":
        from .mindspore_own import OwnModel

        for how, compiled in (("PyNative", False), ("graph", True)):
            yield how, _maker(OwnModel, file, compiled=compiled)
    elif name not in ("numpy", "jax", "mindspore") and weights in BYTES:
        from . import torch_opponents
        from .torch_model import TorchModel

        makers: dict[str, Callable[..., Any]] = {
            "torch": TorchModel,
            "inductor": torch_opponents.inductor,
            "autotune": torch_opponents.max_autotune,
            "transformers": torch_opponents.TransformersModel,
        }
        yield name, _maker(makers[name], file, weights)


def _maker(make: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: make(*arguments, **options)


def _needs(*modules: str) -> str:
    for module in modules:
        if not importlib.util.find_spec(module):
            return f"{module} is not installed. Try: pip install {module}"
    return ""


TORCH, JAX, MINDSPORE = _needs("torch"), _needs("jax"), _needs("mindspore")
bench = ModelBench(
    title="SmolLM2-135M",
    prompt=prompt,
    weights={"f32": "", "bf16": "", "q8_0": "", "q4_1": "", "q4_0": ""},
    ours={
        "captured": "", "eager": "", "torch-eager": TORCH, "torch-captured": TORCH,
        "torch-compiled": TORCH, "backend": TORCH, "jax": JAX, "mindspore": MINDSPORE,
        "mindspore-graph": MINDSPORE, "program": "",
    },
    opponents={
        "numpy": "", "torch": TORCH, "inductor": TORCH, "autotune": TORCH,
        "transformers": _needs("torch", "transformers"), "jax": JAX, "mindspore": MINDSPORE,
        "llama": without_llama(),
    },
    usual=("bf16", "q4_1", "captured", "torch", "llama"),
    ways=ways,
    shapes={name: f"{kind.title}, random" for name, kind in KINDS.items()},
    random=dict.fromkeys(random_file.MIXES, ""),
)  # fmt: skip
