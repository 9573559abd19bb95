# SPDX-License-Identifier: Apache-2.0
"""Calls that vLLM's own code makes in our place, as no operator of ours takes their tensors."""

from __future__ import annotations

import logging
from collections import Counter

import torch

from anyop import _anyop

# Below "vllm", so that vLLM's settings of logging hold for it.
log = logging.getLogger("vllm.anyop")

# By layer, or operator of vLLM IR, and why: how many calls.
calls: Counter[tuple[str, str]] = Counter()


def note(what: str, why: str) -> None:
    """Counts a call and logs the first of its kind. In strict mode it is an error."""
    if torch.compiler.is_compiling():  # a trace is no call, and is made once for all later ones
        return
    if _anyop.is_strict():
        raise _anyop.Unsupported(
            f"{what}: {why}, but no operator of anyop takes that and strict mode allows no other "
            f"code to run. Switch it off by name (custom_ops or ir_op_priority), or unset "
            f"ANYOP_STRICT."
        )
    calls[what, why] += 1
    if calls[what, why] == 1:
        log.warning("anyop: %s runs on vLLM's own code: %s", what, why)
