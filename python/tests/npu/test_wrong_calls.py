# SPDX-License-Identifier: Apache-2.0
"""Every operator with one wrong tensor: an empty result as torch's, or an error that names the
operator and its arguments; no crash (wrong_calls.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("wrong_calls.py")
# What torch_npu or the operator converts to floating-point numbers itself, or takes of any type.
ANY_TYPE = (
    "npu_dtype_cast", "npu_format_cast", "get_npu_format", "npu_rotary_mul", "npu_convolution",
    "npu_fusion_attention_grad", "npu_moe_init_routing_v2", "npu_moe_token_permute",
    "npu_quantize", "npu_quant_matmul", "npu_anti_quant", "npu_group_quant", "npu_rms_norm_quant",
    "npu_trans_quant_param", "npu_weight_quant_batchmatmul", "npu_dequant_bias",
    "npu_dequant_swiglu_quant",
)  # fmt: skip
# torch_npu looks at no size of what it copies to a tensor without elements.
COPIES = "z.copy_(y)"


def rows(which: str, *wrong: str, **settings: str) -> list[dict[str, Any]]:
    """What the program prints, without the calls that it announces."""
    ran = subprocess.run(
        [sys.executable, PROGRAM, which, *wrong], env={**os.environ, **settings},
        capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert lines and lines[-1] == {"end": True}, (ran.returncode, lines[-1:], ran.stderr[-2000:])
    if which == "npu":
        assert len(lines[0]["operators"]) > 60
    assert sum("call" in line for line in lines) > 200
    return [line for line in lines[1:-1] if "call" not in line]


def check_torch(*wrong: str) -> None:
    """Compared with the CPU: a result where it has one, an error where it has none."""
    found = rows("torch", *wrong, ANYOP_NPU="aclnn")
    wrong_rows = [row for row in found if row["case"] != COPIES]
    # torch_npu asks for integers where torch gives floating-point numbers.
    named = [row for row in wrong_rows if row["wrong"] == "another type" and "refused" in row]
    missing = [row for row in wrong_rows if "is not supported" in row.get("refused", "")]
    assert [row for row in wrong_rows if row not in named and row not in missing] == []


def check_npu(*wrong: str) -> None:
    found = rows("npu", *wrong, ANYOP_NPU="1")
    assert [row for row in found if "taken" not in row] == []
    assert [row for row in found if not any(name in row["operator"] for name in ANY_TYPE)] == []


def test_operators_of_torch_without_elements() -> None:
    check_torch("no elements")


def test_operators_of_torch_npu_without_elements_and_of_another_type() -> None:
    check_npu("no elements", "another type")


@pytest.mark.exhaustive
def test_operators_of_torch_with_a_wrong_tensor() -> None:
    check_torch()


@pytest.mark.exhaustive
def test_operators_of_torch_npu_with_a_wrong_tensor() -> None:
    check_npu()
