# SPDX-License-Identifier: Apache-2.0
"""sparse_mla_decode_step, an operator that is a composition alone, from Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import anyop
import numpy as np
import pytest
from anyop import _anyop
from anyop.cli import app
from click.testing import CliRunner

HIDDEN, RANK, HEADS, NOPE, LATENT, ROPE, INDEX_HEADS, WIDTH = 12, 8, 3, 5, 6, 4, 2, 8
BLOCKS, BLOCK, LENGTHS = 8, 4, (7, 11)
NAMES = ("x", "kv_cache", "rope_cache", "index_cache")
TYPES = (
    f"f32[2, {HIDDEN}]",
    f"f32[{BLOCKS}, {BLOCK}, {LATENT}]",
    f"f32[{BLOCKS}, {BLOCK}, {ROPE}]",
    f"f32[{BLOCKS}, {BLOCK}, {WIDTH}]",
)


class Step:
    """Two sequences of one new token each; what is left to give is x and the caches."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)

        def normal(*shape: int) -> np.ndarray:
            return random.standard_normal(shape, np.float32)

        self.first = {
            "positions": np.array(LENGTHS) - 1,
            "slot_mapping": np.array([4 * 1 + 2, 4 * 5 + 2]),
            "block_table": np.array([[0, 1, 2], [3, 4, 5]], np.int32),
            "seq_lens": np.array(LENGTHS, np.int32),
            "query_start_loc": np.arange(3, dtype=np.int32),
            "cos_sin_cache": anyop.rotary_cache(12, ROPE),
            "w_q_a": normal(RANK, HIDDEN),
            "q_norm": normal(RANK),
            "w_q_b": normal(HEADS * (NOPE + ROPE), RANK),
            "w_kv_a": normal(LATENT + ROPE, HIDDEN),
            "kv_norm": normal(LATENT),
            "w_uk": normal(HEADS, NOPE, LATENT),
            "w_iq": normal(INDEX_HEADS * WIDTH, RANK),
            "w_ik": normal(WIDTH, HIDDEN),
            "ik_weight": normal(WIDTH),
            "ik_bias": normal(WIDTH),
            "w_iw": normal(INDEX_HEADS, HIDDEN),
        }
        self.x = normal(len(LENGTHS), HIDDEN)
        self.caches = [normal(BLOCKS, BLOCK, n) for n in (LATENT, ROPE, WIDTH)]

    def __call__(self, x: Any, kv_cache: Any, rope_cache: Any, index_cache: Any) -> Any:
        return anyop.sparse_mla_decode_step(
            x, **self.first, kv_cache=kv_cache, rope_cache=rope_cache, index_cache=index_cache,
            top=3, scale=0.4,
        )  # fmt: skip

    def expected(self) -> tuple[np.ndarray, list[np.ndarray]]:
        caches = [c.copy() for c in self.caches]
        return self(self.x, *caches), caches


@pytest.fixture(scope="module")
def step() -> Step:
    return Step()


def test_a_composition_alone_is_no_fallback(step: Step) -> None:
    anyop.reset_counters()
    with anyop.strict():
        step.expected()
    rows = {(c.op, c.kernel): c for c in anyop.counters()}
    assert rows["anyop.sparse_mla_decode_step", "means"].calls == 1
    assert all(c.fallbacks == 0 and c.copies == 0 for c in rows.values())
    assert "anyop.sparse_attention" in {op for op, _ in rows}


def test_explain_and_profile_do_not_call_it_one(step: Step) -> None:
    caches = [c.copy() for c in step.caches]
    arguments = {"x": step.x, **step.first, **dict(zip(NAMES[1:], caches, strict=True))}
    text = str(anyop.explain("sparse_mla_decode_step", **arguments, top=3, scale=0.4))
    assert "\n  means: taken\n" in text
    assert "declined" not in text
    code = "import test_sparse_mla as t; t.Step().expected()"
    done = CliRunner(env={"PYTHONPATH": python_path(), "COLUMNS": "300"}).invoke(
        app, ["profile", "--", sys.executable, "-c", code]
    )
    assert "sparse_mla_decode_step  means" in done.output
    assert "no kernel takes the call" not in done.output


def test_lists_and_pages_say_that_it_has_no_kernel(tmp_path: Path) -> None:
    listed = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["list"]).output
    row = next(line for line in listed.splitlines() if "sparse_mla_decode_step" in line)
    assert row.rstrip().endswith("its composition")
    assert CliRunner().invoke(app, ["docs", str(tmp_path)]).exit_code == 0
    page = (tmp_path / "anyop.sparse_mla_decode_step.md").read_text()
    assert "It has no kernel: it is these calls.\n\n```\nqa = linear(x, w_q_a)\n" in page
    assert "none: it is the calls of .means\n" in _anyop.info_text("sparse_mla_decode_step")


def python_path() -> str:
    return os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])


def test_caches_may_lie_beside_each_other(step: Step) -> None:
    """As vLLM keeps them: a row of one buffer holds the latent, then the rotated part."""
    y, caches = step.expected()
    both = np.concatenate(step.caches[:2], -1)
    index = step.caches[2].copy()
    assert np.array_equal(step(step.x, both[..., :LATENT], both[..., LATENT:], index), y)
    assert np.array_equal(both, np.concatenate(caches[:2], -1))
    assert np.array_equal(index, caches[2])


def test_graphs_write_the_caches_and_any_number_can_be_made(step: Step, tmp_path: Path) -> None:
    y, caches = step.expected()
    for i in range(100):
        graph = anyop.graph(step, *TYPES)
        mine = [c.copy() for c in step.caches]
        assert np.array_equal(graph(step.x, *mine), y), i
        for one, other in zip(mine, caches, strict=True):
            assert np.array_equal(one, other)
    graph.save(tmp_path / "step")
    mine = [c.copy() for c in step.caches]
    assert np.array_equal(anyop.load_graph(tmp_path / "step")(step.x, *mine), y)
    assert all(np.array_equal(one, other) for one, other in zip(mine, caches, strict=True))


def test_a_refused_call_stores_nothing(step: Step) -> None:
    caches = [c.copy() for c in step.caches]
    wrong = Step()
    wrong.first["block_table"][1, 2] = BLOCKS
    with pytest.raises(ValueError) as refused:
        wrong(step.x, *caches)
    assert str(refused.value) == (
        "sparse_mla_decode_step: block_table[1, 2] is 8, but must be less than 8 (the blocks of "
        "kv_cache). Try -1 for a block that does not exist."
    )
    assert all(np.array_equal(one, other) for one, other in zip(caches, step.caches, strict=True))
