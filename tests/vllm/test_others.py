# SPDX-License-Identifier: Apache-2.0
"""Layers of another package beside ours: whoever registers first, theirs compute."""

from __future__ import annotations

import in_vllm
import pytest


@pytest.mark.parametrize(
    "first", ["ours", pytest.param("theirs", marks=pytest.mark.exhaustive)]
)
def test_layers_of_another_package_compute_in_either_order(first: str) -> None:
    found = in_vllm.run("others_program.py", first)
    assert found["on"]["answers"] == ["theirs", "theirs", "theirs on a CPU", "theirs"]
    assert found["off"]["answers"][:2] == ["vLLM's", "vLLM's"]
    assert found["off"]["answers"][3] == "native"
    assert found["on"]["replaced"] == ["ApplyRotaryEmb", "NewGELU"]
    for name, theirs in (("MySiluAndMul", "MySiluAndMul"), ("MyGelu", "MyGelu")):
        assert found["on"]["why"][name] == f"__main__.{theirs} takes its place"
    assert found["again"] == "Duplicate op name: RotaryEmbedding", "vLLM's own error"
    assert found["user"] == (
        "anyop.vllm: __main__.MyGelu is to replace QuickGELU, but __main__.over_a_users does "
        "already, by anyop.vllm.replace. Uninstall one of the two packages."
    )
