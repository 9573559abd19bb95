# SPDX-License-Identifier: Apache-2.0
"""python -m examples.vision: the vision encoder of Qwen2-VL by anyop, beside transformers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyop
import click
import torch
from torch import Tensor

from .encoder import Encoder
from .picture import draw, normalized, write
from .transformers_model import SHAPE, module, tokens

TOLERANCE = 1e-4  # of the largest element; differences are about 1e-6


def timed(run: Callable[[], Tensor]) -> tuple[Tensor, float]:
    run()
    start = time.perf_counter()
    return run(), time.perf_counter() - start


@click.command()
@click.option("--rows", default=20, show_default=True, help="Of patches, an even number.")
@click.option("--columns", default=28, show_default=True, help="Of patches, an even number.")
@click.option("--seed", default=0, show_default=True, help="Of the weights.")
@click.option("--threads", type=int, help="Threads to use; all cores if not given.")
@click.option("--picture", type=click.Path(path_type=Path), default=Path("build/vision.png"))
def main(rows: int, columns: int, seed: int, threads: int | None, picture: Path) -> None:
    """Draws an image and encodes it with random weights, both ways."""
    if rows < 2 or columns < 2 or rows % SHAPE.merge or columns % SHAPE.merge:
        raise click.ClickException(
            f"{rows} rows and {columns} columns of patches, but squares of {SHAPE.merge} x "
            f"{SHAPE.merge} become one token. Try even numbers."
        )
    if threads is not None:
        torch.set_num_threads(threads)
        anyop.set_num_threads(threads)
    image = draw(rows * SHAPE.patch, columns * SHAPE.patch)
    model = module(seed)
    encoder = Encoder(SHAPE, {name: w.detach() for name, w in model.state_dict().items()})
    ours, our_s = timed(lambda: encoder(normalized(image)))
    theirs, their_s = timed(lambda: tokens(model, normalized(image)))
    difference = float((ours - theirs).abs().max() / theirs.abs().max())
    write(image, ours, columns // SHAPE.merge, picture)
    print(
        f"{rows * columns} patches -> {len(ours)} tokens of {ours.shape[1]}; anyop "
        f"{our_s * 1e3:.0f} ms, transformers {their_s * 1e3:.0f} ms"
    )
    agree = difference <= TOLERANCE
    print(
        f"tokens {'agree' if agree else 'DO NOT AGREE'}: largest difference {difference:.1e} of "
        f"the largest element, tolerance {TOLERANCE}; picture: {picture}"
    )
    sys.exit(0 if agree else 1)


if __name__ == "__main__":
    main()
