# SPDX-License-Identifier: Apache-2.0
"""Layers of vLLM on our operators: values, switches, tokens, and what counters prove."""

from __future__ import annotations

from functools import cache
from typing import Any

import in_vllm
import pytest
from anyop.vllm import _tables

PROMPTS = [[3, 4, 5, 6, 7], [9, 8, 7]]
NATIVE = {
    "compilation_config": {"custom_ops": ["none", "-vocab_parallel_embedding"]},
    "ir_op_priority": {"rms_norm": ["native"], "fused_add_rms_norm": ["native"]},
}


@cache
def layers() -> Any:
    return in_vllm.run("layers_program.py")


@pytest.fixture(scope="module")
def engines() -> Any:
    """All of ours, each prompt alone, none of ours, and switches."""
    both = ["none", "+silu_and_mul", "-silu_and_mul"]
    asked = {
        "together": {"prompts": PROMPTS},
        "first": {"prompts": PROMPTS[:1]},
        "second": {"prompts": PROMPTS[1:]},
        "native": {"prompts": PROMPTS, "options": NATIVE},
        "off": {"prompts": PROMPTS, "options": switches("all", "-silu_and_mul")},
        "on": {"prompts": PROMPTS, "options": switches("none", "+silu_and_mul")},
        "class": {"prompts": PROMPTS, "options": switches("all", "-AnyopSiluAndMul")},
        "ir": {"prompts": PROMPTS, "options": {"ir_op_priority": {"rms_norm": ["native"]}}},
        "contradictory": {"prompts": PROMPTS, "options": switches(*both)},
    }
    return in_vllm.engines(asked)


def switches(*custom_ops: str) -> dict[str, Any]:
    return {"compilation_config": {"custom_ops": list(custom_ops)}}


def line(engine: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in engine["report"][0]["lines"] if one["name"] == name]
    return dict(found)


# Of every version; those without an operator are explained.
ROWS = {
    row.layer: row
    for version in ((0, 27, 1), (0, 28), (0, 32))
    for row in _tables.rows(version, has_ir=False)
    if row.operator and row.layer != "VocabParallelEmbedding"  # needs an engine
}


@pytest.mark.parametrize("name", ROWS)
def test_layer_computes_what_its_own_code_does(name: str) -> None:
    row, found = ROWS[name], layers()["layers"].get(name)
    if found is None:
        pytest.skip(f"the installed vLLM has no layer {name} to replace")
    assert found["cls"] == f"Anyop{name}"
    wanted = {f"anyop.{operator}" for operator in (row.operator, *row.also)}
    assert wanted <= set(found["operators"])
    assert found["worst"] < 1, "beyond rounding"


def test_switches_keep_the_names_of_operators() -> None:
    """`register_oot` alone would rename them to those of classes."""
    names = {"silu_and_mul", "rotary_embedding", "gemma_rms_norm", "apply_rotary_emb"}
    assert names < set(layers()["enabled"])
    assert not [name for name in layers()["enabled"] if name[0].isupper()]


def test_registering_twice_is_once() -> None:
    assert layers()["twice"] > 20


def test_dtype_without_kernel_is_vllms_own_and_an_error_under_strict() -> None:
    refused = layers()["refused"]
    assert refused["same"]
    assert refused["noted"] == [[["SiluAndMul", "x is torch.float64"], 1]]
    assert refused["error"] == (
        "SiluAndMul: x is torch.float64, but no operator of anyop takes that and strict mode "
        "allows no other code to run. Switch it off by name (custom_ops or ir_op_priority), or "
        "unset ANYOP_STRICT."
    )


def test_class_that_vllm_lacks_is_an_error_with_the_nearest_name() -> None:
    assert layers()["misfit"] == (
        f"anyop.vllm: vLLM {layers()['vllm']} has other layers than the table of anyop says: "
        "vllm.model_executor.layers.activation has no class SiluAndMull (Did you mean "
        "'SiluAndMul'?). Install a version of vLLM that `anyop doctor` lists."
    )


def test_wrappers_of_lora_know_our_layers() -> None:
    """They compare types, and look ours up by the name of vLLM's class."""
    assert layers()["lora"] == {"VocabParallelEmbedding": True, "RowParallelLinear": True}


def test_tokens_are_those_of_vllms_own_code(engines: Any) -> None:
    assert engines["together"]["tokens"] == engines["native"]["tokens"]
    assert all(one["replaced"] for one in engines["together"]["report"][0]["lines"])
    own = [one for one in engines["native"]["report"][0]["lines"] if one["kind"] != "_C"]
    assert not any(one["replaced"] or one["calls"] for one in own)


def test_tokens_do_not_depend_on_the_batch(engines: Any) -> None:
    alone = engines["first"]["tokens"] + engines["second"]["tokens"]
    assert engines["together"]["tokens"] == alone


def test_every_step_of_every_layer_is_counted(engines: Any) -> None:
    steps, layers_of_model = 8, 2
    assert line(engines["together"], "SiluAndMul")["calls"] == steps * layers_of_model
    assert line(engines["together"], "RotaryEmbedding")["calls"] == steps * layers_of_model
    assert line(engines["together"], "VocabParallelEmbedding")["calls"] == steps
    assert line(engines["together"], "rms_norm")["calls"] == steps
    assert line(engines["together"], "fused_add_rms_norm")["calls"] == steps * layers_of_model * 2


def test_switch_by_the_name_of_the_operator(engines: Any) -> None:
    off, on = engines["off"], engines["on"]
    assert not line(off, "SiluAndMul")["replaced"]
    assert line(off, "SiluAndMul")["why"] == "custom_ops has all, -silu_and_mul"
    assert line(off, "RotaryEmbedding")["replaced"]
    assert line(on, "SiluAndMul")["calls"] == 16
    assert line(on, "RotaryEmbedding")["why"] == "custom_ops has none"
    assert line(engines["class"], "SiluAndMul")["replaced"]
    assert off["tokens"] == on["tokens"] == engines["together"]["tokens"]


def test_switch_of_vllm_ir(engines: Any) -> None:
    found = engines["ir"]
    assert line(found, "rms_norm")["cause"] == "ir_op_priority"
    assert line(found, "rms_norm")["why"] == "ir_op_priority has native"
    assert line(found, "fused_add_rms_norm")["calls"] == 32
    assert found["tokens"] == engines["together"]["tokens"]


def test_contradictory_switches_are_vllms_error(engines: Any) -> None:
    assert (
        "custom_ops cannot both enable and disable the same operation(s): silu_and_mul. Remove "
        "either the '+' or '-' directive"
    ) in engines["contradictory"]["error"]


@pytest.mark.exhaustive
def test_a_worker_process_has_our_layers() -> None:
    """Registrations are of a process; a worker makes its own."""
    asked = {"one": {"prompts": PROMPTS}}
    found = in_vllm.engines(asked, VLLM_ENABLE_V1_MULTIPROCESSING="1")["one"]
    (worker,) = found["report"]
    assert worker["pid"] != found["pid"]
    assert line(found, "SiluAndMul")["calls"] > 0
    assert all(one["replaced"] for one in worker["lines"])


@pytest.mark.exhaustive
def test_compiled_models_call_our_operators() -> None:
    asked = {
        "eager": {"prompts": PROMPTS},
        "compiled": {"prompts": PROMPTS, "options": {"enforce_eager": False}},
    }
    found = in_vllm.engines(asked)
    assert line(found["compiled"], "SiluAndMul")["calls"] >= 16
    assert line(found["compiled"], "fused_add_rms_norm")["calls"] >= 32
    assert found["compiled"]["tokens"] == found["eager"]["tokens"]
