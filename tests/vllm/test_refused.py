# SPDX-License-Identifier: Apache-2.0
"""What cannot be served is an error of the engine's start, with what is missing."""

from __future__ import annotations

from pathlib import Path

import in_vllm
import pytest

CANNOT = "Unsupported: anyop.vllm: the model cannot be served. _C."
NO_KERNEL = ", but anyop has no kernel of it. Try a model, or options, without."
CALLED = f": vLLM calls it for quantized weights{NO_KERNEL}"
ASKED = f": vLLM asks for it{NO_KERNEL}"
# What each asks for first, on a processor with AMX or without.
REFUSED = {
    "fp8": {f"{CANNOT}dynamic_scaled_fp8_quant{CALLED}"},
    "mamba": {f"{CANNOT}causal_conv1d_weight_pack{ASKED}"},
    "mamba2": {f"{CANNOT}causal_conv1d_weight_pack{ASKED}"},
    "qwen3_next": {f"{CANNOT}causal_conv1d_weight_pack{ASKED}"},
}


def test_a_model_is_refused_before_its_first_request(tmp_path: Path) -> None:
    """One whose layers ask when they are called, one whose options ask, and one that runs."""
    found = in_vllm.run("refused_program.py", str(tmp_path), "plain", "fp8", "ngram")
    assert found["fp8"]["error"] in REFUSED["fp8"]
    assert found["ngram"]["error"] == (
        "NotAvailable: anyop.vllm: speculative decoding by ngram is asked for, but it calls "
        "_C.copy_and_expand_eagle_inputs_kernel_impl and 7 more operators, which anyop has no "
        "kernels of. Try without --speculative-config."
    )
    assert found["plain"]["tokens"] == 3
    assert found["plain"]["calls"]["SiluAndMul"] == 3, "the step before is not counted"


@pytest.mark.exhaustive
def test_models_of_every_kind_that_is_not_served(tmp_path: Path) -> None:
    if in_vllm.version() != "0.27.1":
        pytest.skip("the operators are those that 0.27.1 asks for")
    found = in_vllm.run("refused_program.py", str(tmp_path), *REFUSED, seconds=1200)
    for name, errors in REFUSED.items():
        assert found[name].get("error") in errors, name
