# SPDX-License-Identifier: Apache-2.0
"""`anyop vllm explain`, the line of an engine's start, and strict mode."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import anyop
import in_vllm
import pytest

OPTIONS = (
    "--skip-tokenizer-init", "--dtype", "float32", "--max-model-len", "256",
    "--kv-cache-memory-bytes", str(1 << 25), "--enforce-eager",
)  # fmt: skip
LINE = (
    f"anyop {anyop.__version__} runs 4 of 4 kinds of layers (ApplyRotaryEmb, RotaryEmbedding, "
    "SiluAndMul, VocabParallelEmbedding), 2 of 2 operators of vLLM IR (rms_norm, "
    "fused_add_rms_norm)"
)


@cache
def found() -> Any:
    return in_vllm.run("explain_program.py")


@pytest.fixture(scope="module")
def model() -> Path:
    folder = in_vllm.model()
    if not folder.exists():
        in_vllm.engines({})
    return folder


def best_kernel() -> str:
    features = set(anyop._anyop.machine()["machine_features"])
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        return "cpu_avx512"
    return "cpu_avx2" if {"avx2", "fma", "f16c"} <= features else "cpu_portable"


def explain(model: Path, *options: str, **more: Any) -> Any:
    return in_vllm.command(
        "-m", "anyop", "vllm", "explain", str(model), *OPTIONS, *options, **more
    )


@pytest.mark.exhaustive
def test_the_output_is_the_report_of_a_worker_process(model: Path) -> None:
    switch = "-cc.custom_ops=" + json.dumps(["all", "-silu_and_mul"])
    done = explain(model, "--json", "--tokens=3", switch, VLLM_ENABLE_V1_MULTIPROCESSING="1")
    assert done.returncode == 0, done.stderr[-3000:]
    (worker,) = json.loads(done.stdout)
    assert worker["custom_ops"] == ["all", "-silu_and_mul"]
    lines = {line["name"]: line for line in worker["lines"]}
    assert lines["SiluAndMul"] == {
        "name": "SiluAndMul", "kind": "layer", "switch": "silu_and_mul",
        "operator": "anyop.silu_and_mul", "instances": 2, "replaced": False,
        "cause": "custom_ops", "why": "custom_ops has all, -silu_and_mul", "kernels": {},
        "calls": None,
    }  # fmt: skip
    rotary = lines["RotaryEmbedding"]
    assert rotary["replaced"] and rotary["instances"] == 1
    assert sum(rotary["kernels"].values()) == rotary["calls"] >= 6
    assert lines["cpu_attention_with_kv_cache"]["operator"] == "anyop.paged_attention"
    assert lines["cpu_attention_with_kv_cache"]["calls"] >= 6


@pytest.mark.exhaustive
def test_an_engine_says_in_one_line_what_runs(model: Path) -> None:
    """In strict mode, too, as every layer of the model has an operator."""
    done = explain(model, ANYOP_STRICT="1")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("runs 4 of 4 kinds of layers") == 1
    assert LINE in done.stderr
    head, switches, titles, *table = done.stdout.splitlines()
    assert head.startswith("worker 0 (process ")
    assert head.endswith((", float32, 1 thread, strict", " threads, strict"))
    ours = (
        "custom_ops all; ir_op_priority rms_norm anyop, native; "
        "ir_op_priority fused_add_rms_norm anyop, native"
    )
    if in_vllm.version() == "0.27.1":
        assert switches == ours
    assert switches.startswith(ours)  # newer versions have further operators
    assert titles.split() == ["name", "runs", "on", "n", "kernels:", "calls", "why"]
    (silu,) = [line.split() for line in table if line.startswith("SiluAndMul")]
    assert silu[1:3] == ["anyop.silu_and_mul", "2"]
    assert silu[-1] == "4"  # two steps of two layers
    # Of the best instructions that the processor has, whatever anyop and vLLM were built for.
    assert silu[3].startswith(best_kernel()), silu


@pytest.mark.exhaustive
def test_options_of_vllm_that_are_wrong_are_its_error(model: Path) -> None:
    done = explain(model, '-cc.custom_ops=["all", "silu"]')
    assert done.returncode != 0
    assert "Invalid syntax 'silu' for custom op" in done.stderr
    assert done.stdout == ""


def test_without_vllm_it_says_where_to_get_it() -> None:
    import importlib.util

    if importlib.util.find_spec("vllm"):
        pytest.skip("vLLM is in this environment")
    from anyop.cli.vllm_explain import command
    from click.testing import CliRunner

    done = CliRunner().invoke(command, ["model"])
    assert done.exit_code == 1
    assert done.output == (
        "Error: explain needs vLLM in this environment. `anyop vllm install FOLDER` makes one "
        "that has it.\n"
    )


def test_a_subclass_that_escapes_is_reported() -> None:
    line = found()["lines"]["ScaledNorm"]
    assert (line["replaced"], line["cause"]) == (False, "subclass")
    assert line["why"] == (
        "a subclass of GemmaRMSNorm, and vLLM replaces classes by their exact name"
    )


def test_a_layer_without_operator_and_one_of_another_plugin() -> None:
    assert found()["lines"]["MulAndSilu"]["cause"] == "no operator"
    assert found()["lines"]["MulAndSilu"]["why"] == "no operator has the gate in the second half"
    theirs = found()["lines"]["TheirGate"]
    assert theirs["cause"] == "another plug-in"
    assert theirs["why"].endswith("TheirGate takes its place")
    assert found()["summary"].startswith(
        f"anyop {anyop.__version__} runs 1 of 7 kinds of layers (SiluAndMul); not: FusedMoE (vLLM "
        "loops over experts in torch), MulAndSilu (no operator has the gate in the second half), "
        "RowParallelLinear (its weights are of FewBitsMethod), ScaledNorm (a subclass of "
    )


def test_layers_of_torch_are_no_fallback() -> None:
    line = found()["lines"]["torch.nn.GELU"]
    assert (line["replaced"], line["cause"], line["instances"]) == (False, "torch", 1)
    assert line["why"] == "a layer of torch's, which vLLM lets nobody replace"
    assert "torch.nn.Dropout" not in found()["lines"]
    assert "torch.nn" not in found()["refusal"]


def test_strict_refuses_a_model_with_layers_of_vllms_own() -> None:
    assert found()["refusal"] == (
        "anyop.vllm: layers of the model have no operator of anyop: FusedMoE (vLLM loops "
        "over experts in torch); MulAndSilu (no operator has the gate in the second half); "
        "RowParallelLinear (its weights are of FewBitsMethod); "
        "ScaledNorm (a subclass of GemmaRMSNorm, and vLLM replaces classes by their exact name), "
        "but strict mode allows no other code to run. Give them one with anyop.vllm.replace, or "
        "unset ANYOP_STRICT."
    )


def test_an_engine_with_another_worker_does_not_answer() -> None:
    assert found()["elsewhere"] == (
        "anyop.vllm.explain: the engine's worker is their.Worker, but only "
        "anyop.vllm._worker.AnyopCpuWorker answers: the plug-in is off, or worker_cls was given. "
        "Try anyop doctor."
    )
