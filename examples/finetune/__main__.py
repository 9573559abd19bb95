# SPDX-License-Identifier: Apache-2.0
"""python -m examples.finetune: trains SmolLM2 with anyop's gradients beside PyTorch's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyop
import click
import torch
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from examples.smollm2.weights import ModelFileError, load

from .corpus import batches, text
from .picture import draw
from .training import Run, Settings, largest_difference, train

TOLERANCE = 1e-3  # of a loss around 3; 200 low-rank steps differ by 6e-6


def summary(runs: dict[str, Run]) -> dict[str, Any]:
    difference = largest_difference(runs)
    return {
        "steps": len(runs["anyop"].losses),
        "largest_difference": difference,
        "agree": difference <= TOLERANCE,
        "step_s": {name: run.step_s for name, run in runs.items()},
        "speed_ratio": runs["torch"].step_s / runs["anyop"].step_s,
        "losses": {name: run.losses for name, run in runs.items()},
    }


def tell(found: dict[str, Any], picture: Path) -> None:
    for name, losses in found["losses"].items():
        print(
            f"{name:6} {found['step_s'][name] * 1e3:7.0f} ms a step (median), "
            f"loss {losses[0]:.4f} -> {sum(losses[-10:]) / len(losses[-10:]):.4f}"
        )
    verdict = "agree" if found["agree"] else "DO NOT AGREE"
    print(
        f"losses {verdict}: largest difference {found['largest_difference']:.1e}, "
        f"tolerance {TOLERANCE}"
    )
    print(f"anyop is {found['speed_ratio']:.2f} x as fast as torch; picture: {picture}")


@click.command()
@click.option("--steps", default=200, show_default=True)
@click.option("--sequences", default=2, show_default=True, help="Of a batch.")
@click.option("--length", default=64, show_default=True, help="Tokens of a sequence.")
@click.option("--rank", default=8, show_default=True, help="Of the low-rank additions.")
@click.option("--all-weights", is_flag=True, help="Train all weights instead.")
@click.option("--learning-rate", type=float, help="1e-3 for low rank, 1e-5 for all weights.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--host", type=click.Choice(["torch", "jax"]), default="torch", show_default=True,
    help="Whose tensors anyop's operators get.",
)  # fmt: skip
@click.option("--threads", type=int, help="Threads to use; all cores if not given.")
@click.option("--picture", type=click.Path(path_type=Path), default=Path("build/finetune.png"))
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
def main(
    steps: int, sequences: int, length: int, rank: int, all_weights: bool,
    learning_rate: float | None, seed: int, host: str, threads: int | None, picture: Path,
    as_json: bool,
) -> None:  # fmt: skip
    """Trains SmolLM2 on the text of `help()`, with both sets of operators in turn."""
    if threads is not None:
        torch.set_num_threads(threads)
        anyop.set_num_threads(threads)
    if steps < 1 or rank < 1:
        raise click.ClickException("steps and rank must be at least 1.")
    rate = learning_rate or (1e-5 if all_weights else 1e-3)
    settings = Settings(steps, sequences, length, 0 if all_weights else rank, rate, seed)
    ours = None
    if host == "jax":
        from .jax_training import JaxTrainer

        ours = JaxTrainer
    try:
        file = load()
        ids = file.tokenizer.encode(text(), add_special_tokens=False).ids
        batch = batches(ids, sequences, length, seed)
        runs: dict[str, Run] = {}
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        with Progress(*columns, transient=True) as progress:
            task = progress.add_task("first step", total=steps)
            for runs in train(file.config, file.tensors, settings, batch, ours):
                last = ", ".join(f"{name} {run.losses[-1]:.4f}" for name, run in runs.items())
                done = len(runs["anyop"].losses)
                progress.update(task, advance=1, description=f"step {done}/{steps}: {last}")
    except (ModelFileError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    found = summary(runs)
    what = "all weights" if all_weights else f"low rank {rank}"
    draw(runs, f"SmolLM2-135M, {what}, {sequences} x {length} tokens a step", picture)
    tell(found, picture)
    if as_json:
        print(json.dumps(found))
    sys.exit(0 if found["agree"] else 1)


if __name__ == "__main__":
    main()
