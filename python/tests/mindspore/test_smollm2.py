# SPDX-License-Identifier: Apache-2.0
"""examples/smollm2 on MindSpore, with a small model of random weights: the tokens of NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
pytest.importorskip("tokenizers")
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from examples.smollm2.generate import Sampling, tokens  # noqa: E402
from examples.smollm2.mindspore_model import MindSporeModel  # noqa: E402
from examples.smollm2.mindspore_own import OwnModel  # noqa: E402
from examples.smollm2.model import Model  # noqa: E402
from examples.smollm2.weights import Blocks, Config, ModelFile  # noqa: E402


def small_file() -> Any:
    c = Config(
        layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=64, vocab=96, context=64,
        rope_base=10000.0, eps=1e-5,
    )  # fmt: skip
    kv = c.kv_heads * c.head_dim
    sizes = {
        "attn_q": (c.hidden, c.hidden), "attn_k": (kv, c.hidden), "attn_v": (kv, c.hidden),
        "attn_output": (c.hidden, c.hidden), "ffn_gate": (c.ffn, c.hidden),
        "ffn_up": (c.ffn, c.hidden), "ffn_down": (c.hidden, c.ffn), "attn_norm": (c.hidden,),
        "ffn_norm": (c.hidden,),
    }  # fmt: skip
    random = np.random.default_rng(3)
    named = {f"blk.{i}.{n}.weight": s for i in range(c.layers) for n, s in sizes.items()}
    named |= {"token_embd.weight": (c.vocab, c.hidden), "output_norm.weight": (c.hidden,)}
    weights = {n: random.standard_normal(s).astype(np.float32) for n, s in named.items()}
    return ModelFile(c, weights, None, "", frozenset())


def test_tokens_are_those_of_numpy() -> None:
    file, prompt, dtype = small_file(), [5, 17, 60], "bf16"
    found = {}
    for name, model in (
        ("numpy", Model(file, dtype)),
        ("pynative", Model(file, dtype, host="mindspore")),
        ("graph", MindSporeModel(file, dtype)),
    ):
        found[name] = list(tokens(model, prompt, 12, Sampling(), file.end_ids))
    assert len(set(found["numpy"])) > 3
    assert found["pynative"] == found["numpy"] and found["graph"] == found["numpy"]


def in_blocks(file: Any) -> Any:
    """The same weights in blocks: of formats that are packed, and of one that is decoded."""
    kinds = gguf.GGMLQuantizationType
    for name, weight in file.tensors.items():
        if weight.ndim == 2:
            kind = kinds.Q8_0 if "token" in name else kinds.Q5_0 if "down" in name else kinds.Q4_1
            rows = gguf.quants.quantize(weight, kind)
            file.blocks[name] = Blocks(kind.name.lower(), rows)
            file.tensors[name] = gguf.quants.dequantize(rows, kind)
    return file


@pytest.mark.parametrize("dtype", ["q4", pytest.param("q4-rows", marks=pytest.mark.exhaustive)])
def test_tokens_of_quantized_weights_are_those_of_numpy(dtype: str) -> None:
    file, prompt = in_blocks(small_file()), [5, 17, 60]
    models = Model(file, dtype), Model(file, dtype, host="mindspore"), MindSporeModel(file, dtype)
    wanted, *others = (list(tokens(m, prompt, 8, Sampling(), file.end_ids)) for m in models)
    assert len(set(wanted)) > 3 and others == [wanted, wanted]


def test_the_opponent_is_the_same_model() -> None:
    file, prompt = small_file(), [5, 17, 60]
    ours, own = Model(file, "f32"), OwnModel(file, 64, compiled=True)
    assert list(tokens(own, prompt, 8, Sampling(), file.end_ids)) == list(
        tokens(ours, prompt, 8, Sampling(), file.end_ids)
    )
