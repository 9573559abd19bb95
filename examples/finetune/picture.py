# SPDX-License-Identifier: Apache-2.0
"""Both loss curves in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

from .training import Run

matplotlib.use("Agg")  # a file, no window
import matplotlib.pyplot as plt  # noqa: E402

STYLES: dict[str, dict[str, Any]] = {
    "anyop": {"linewidth": 4, "alpha": 0.4},
    "torch": {"linewidth": 1, "color": "black"},
}


def draw(runs: dict[str, Run], title: str, path: Path) -> None:
    """Losses above, their difference below; the wide line shows where the narrow one covers it."""
    figure, (above, below) = plt.subplots(
        2, 1, sharex=True, figsize=(8, 6), height_ratios=(3, 1), layout="constrained"
    )
    for name, run in runs.items():
        label = f"{name}, {run.step_s * 1e3:.0f} ms a step"
        above.plot(range(1, len(run.losses) + 1), run.losses, label=label, **STYLES[name])
    ours, theirs = (run.losses for run in runs.values())
    below.plot(
        range(1, len(ours) + 1), [a - b for a, b in zip(ours, theirs, strict=True)], color="black"
    )
    above.set(title=title, ylabel="cross entropy")
    below.set(ylabel="anyop - torch", xlabel="step")
    above.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
