# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of 4 and 8 bits make the tokens of the model that they decode to, in f32. Of W8A8
inputs of layers are rounded to bytes in both.

By default some formats and defects in one process; with --all every one, vLLM's compilation, and
the operators that vLLM takes on a processor with AMX.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import bytes_models
import in_vllm
import pytest
import quantized_models

DEFAULT = quantized_models.DEFAULT + bytes_models.DEFAULT
FORMATS = (*quantized_models.FORMATS, *bytes_models.FORMATS)
REST = tuple(name for name in FORMATS if name not in DEFAULT)
LAYER = "model.layers.1.self_attn."
# What an engine's start says of a defect.
REFUSED = {
    "awq:no_scale": (
        f"anyop.vllm: 256 of the 1024 numbers of {LAYER}qkv_proj.scales are NaN, because the "
        "checkpoint has no scales of a layer, or wrong ones. Quantize the model again, or load all "
        "of its files."
    ),
    "gptq_ordered:index": (
        f"anyop.vllm: {LAYER}o_proj.g_idx[5] is 4, but must be from 0 to 3, as the layer has 4 "
        "groups. Quantize the model again, or load all of its files."
    ),
    "w8a8_zeros:no_scale": (
        f"anyop.vllm: 64 of the 256 numbers of {LAYER}qkv_proj.weight_scale are NaN, because the "
        "checkpoint has no scales of a layer, or wrong ones. Quantize the model again, or load all "
        "of its files."
    ),
    "w8a8_static_zeros:no_input_scale": (
        f"anyop.vllm: 1 of the 1 numbers of {LAYER}qkv_proj.input_scale are NaN, because the "
        "checkpoint has no scales of a layer, or wrong ones. Quantize the model again, or load all "
        "of its files."
    ),
    "awq:group": "groups of 48 do not divide the 128 inputs of a layer",
    "gptq:bits": "Unsupported quantization config: bits=5, sym=True",
}
ASKED = (*DEFAULT, "awq:no_scale", "gptq_ordered:index", "w8a8_static_zeros:no_input_scale")
DEFECTS = ("awq:group", "gptq:bits", "w8a8_zeros:no_scale")
# Which of `_C` multiplies; in vLLM from 0.28 on a processor with AMX the last.
MULTIPLY = ("cpu_gemm_wna16", "onednn_scaled_mm", "int8_scaled_mm_with_quant")
SECONDS = 1500


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quantized")


@cache
def served(
    folder: Path, names: tuple[str, ...], options: str = "{}", program: str = "quantized_program.py"
) -> Any:
    return in_vllm.run(program, str(folder), json.dumps(names), options, seconds=SECONDS)


@cache
def served_with_amx(folder: Path, names: tuple[str, ...]) -> Any:
    options = '{"dtype": "bfloat16", "amx": true}'
    words = ("quantized_program.py", str(folder), json.dumps(names), options)
    return in_vllm.run(*words, seconds=SECONDS, VLLM_CPU_SGL_KERNEL="1")  # of bytes in 0.27


def n_equal(found: dict[str, Any], how: str) -> int:
    """The number of prompts that get the tokens that are expected."""
    pairs = zip(found[how], found["expected"], strict=True)
    return sum(got == want for got, want in pairs)


def check(name: str, found: dict[str, Any]) -> None:
    if "ordered" in name and "error" in found and in_vllm.version() > "0.30":
        assert "activation ordering" in found["error"], "vLLM's own refusal, on every platform"
        return
    assert "error" not in found, found["error"]
    # An input that lies between two bytes may become either, by the order of sums on the processor,
    # and a close choice of a token turn: one prompt in ten here. Wrong inputs give none its tokens.
    least = 2 if name.startswith("w8a8") else len(found["expected"])
    assert n_equal(found, "together") >= least
    assert n_equal(found, "alone") >= least, "prompts that find prefixes in the cache"
    multiply = MULTIPLY[1:] if name.startswith("w8a8") else MULTIPLY[:1]
    assert any(found["calls"].get(called) for called in multiply)
    different = {token for tokens in found["expected"] for token in tokens}
    assert len(different) > 20, "weights that make few tokens prove little"


@pytest.mark.parametrize("name", DEFAULT)
def test_tokens_are_those_of_the_decoded_model(name: str, folder: Path) -> None:
    check(name, served(folder, ASKED)[name])


@pytest.mark.parametrize("name", [name for name in ASKED if ":" in name])
def test_a_checkpoint_with_a_defect_is_refused_when_it_is_loaded(name: str, folder: Path) -> None:
    if "ordered" in name and in_vllm.version() > "0.30":
        pytest.skip("this vLLM takes no groups that are no neighbours")
    assert REFUSED[name] in served(folder, ASKED)[name].get("error", "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [*REST, *DEFECTS])
def test_every_format_and_defect(name: str, folder: Path) -> None:
    found = served(folder, (*REST, *DEFECTS))[name]
    if name in REFUSED:
        assert REFUSED[name] in found.get("error", "")
    else:
        check(name, found)


@pytest.mark.exhaustive
def test_tokens_of_a_compiled_model(folder: Path) -> None:
    check("awq", served(folder, ("awq",), '{"enforce_eager": false}')["awq"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["awq", "gptq", "w4a16", "w8a8"])
def test_processors_with_amx_multiply_bytes(name: str, folder: Path) -> None:
    """There rows of inputs are rounded to bytes, so that close choices of a token may turn."""
    found = served_with_amx(folder, ("awq", "gptq", "w4a16", "w8a8"))[name]
    assert "error" not in found, found["error"]
    called = "int8_scaled_mm_with_quant" if name == "w8a8" else "int4_scaled_mm_cpu"
    assert found["calls"].get(called)
    assert not found["calls"].get("cpu_gemm_wna16")
    first = [(got[0], want[0]) for got, want in zip(found["alone"], found["expected"], strict=True)]
    assert sum(got == want for got, want in first) >= 3, first
