# SPDX-License-Identifier: Apache-2.0
"""The vision encoder gives the tokens that transformers' module gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anyop")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("matplotlib")

from click.testing import CliRunner  # noqa: E402

from examples.vision.__main__ import main  # noqa: E402
from examples.vision.encoder import Encoder, merge_order  # noqa: E402
from examples.vision.picture import draw, normalized  # noqa: E402
from examples.vision.transformers_model import OUTPUT, SHAPE, module, tokens  # noqa: E402


def weights(model: Any) -> dict[str, Any]:
    return {name: w.detach() for name, w in model.state_dict().items()}


@pytest.mark.parametrize("rows, columns", [(2, 2), (6, 10)])
def test_tokens_are_those_of_transformers(rows: int, columns: int) -> None:
    model = module(seed=rows)
    image = normalized(draw(rows * SHAPE.patch, columns * SHAPE.patch))
    theirs = tokens(model, image)
    assert theirs.shape == (rows * columns // 4, OUTPUT)
    ours = Encoder(SHAPE, weights(model))(image)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5 * float(theirs.abs().max()))


def test_tokens_depend_on_every_patch_and_on_its_place() -> None:
    encoder = Encoder(SHAPE, weights(module(seed=1)))
    image = normalized(draw(4 * SHAPE.patch, 4 * SHAPE.patch))
    tokens = encoder(image)
    turned = encoder(image.flip(2))
    assert (turned.view(2, 2, -1).flip(1).flatten(0, 1) - tokens).abs().max() > 1e-3
    image[:, -1, -1] += 1
    assert ((encoder(image) - tokens).abs().amax(1) > 1e-6).all()


def test_squares_that_merge_lie_together() -> None:
    assert merge_order(4, 4, 2).tolist() == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]


def test_the_program_says_that_tokens_agree_and_writes_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "vision.png"
    run = CliRunner().invoke(main, ["--rows", "4", "--columns", "6", "--picture", str(picture)])
    assert run.exit_code == 0, run.output
    assert "24 patches -> 6 tokens of 256" in run.output
    assert "tokens agree" in run.output
    assert picture.read_bytes().startswith(b"\x89PNG")
    odd = CliRunner().invoke(main, ["--rows", "3"])
    assert odd.exit_code == 1
    assert odd.output == (
        "Error: 3 rows and 28 columns of patches, but squares of 2 x 2 become one token. Try even "
        "numbers.\n"
    )
