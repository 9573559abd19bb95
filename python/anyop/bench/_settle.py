# SPDX-License-Identifier: Apache-2.0
"""The pause between contenders."""

from __future__ import annotations

import time

import anyop

SETTLE_S = 2e-2


def settle() -> None:
    """Waits until a contender's threads sleep: those of OpenMP look for work 14 ms and more after a
    call, and would take the other cores from the next contender."""
    if anyop.get_num_threads() > 1:
        time.sleep(SETTLE_S)
