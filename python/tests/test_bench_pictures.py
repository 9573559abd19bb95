# SPDX-License-Identifier: Apache-2.0
"""`anyop bench plot`: what the pictures of a run show, without any measuring."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from anyop.bench import pictures_roofline, runs
from anyop.cli import app
from click.testing import CliRunner, Result

pytest.importorskip("matplotlib")

CEILINGS = {
    "bandwidths": [
        {"level": level, "bytes": size, "threads": 1, "read_gbs": gbs, "copy_gbs": gbs / 2}
        for level, size, gbs in (("L1", 1 << 15, 200.0), ("memory", 1 << 28, 20.0))
    ],
    "rates": [{"name": "f32 fma", "threads": 1, "gops": 90.0}],
}  # fmt: skip


def row(operator: str, sizes: str, us: dict[str, float], bound_us: float) -> dict[str, Any]:
    timings = {n: {"best_us": x, "median_us": x * 1.1} for n, x in us.items()}
    return {
        "operator": operator, "sizes": sizes, "cache": "warm", "threads": 1, "kernel": "cpu_avx2",
        "bound_us": bound_us, "bound_by": "L1", "note": "", "timings": timings,
        "moved": 1 << 20, "flops": int(us["anyop"]) << 20,
    }  # fmt: skip


ROWS = [
    row("softmax", "f32[2, 3]", {"anyop": 2.0, "torch": 5.0, "numpy": 30.0}, 1.0),
    row("softmax", "f32[8, 9]", {"anyop": 4.0, "torch": 3.0}, 13.76),  # lost; above its ceiling
    row("top_k", "bf16[64]", {"anyop": 1.0, "torch": 8.0}, 0.2),
]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    machine = {"cpu": "A processor", "threads": 1, "date": "2026-01-02T00:00:00", "tuned": "none"}
    run = {"format": runs.FORMAT, "machine": machine, "rows": ROWS, "ceilings": CEILINGS}
    (tmp_path / "run.json").write_text(json.dumps(run))
    return tmp_path / "run.json"


def bench(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["bench", *map(str, args)])


def texts(picture: Path) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.read_text("utf-8"))


def test_every_number_of_a_run_is_in_its_pictures(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    assert bench("plot", saved, folder, "--format", "svg").exit_code == 0
    assert {p.name for p in folder.iterdir()} == {
        "summary.svg", "bars.svg", "bound.svg", "roofline.svg", "rows.md",
    }  # fmt: skip
    bars = texts(folder / "bars.svg")
    assert [t for t in bars if "softmax" in t] == [
        "softmax  f32[2, 3]",
        "softmax  f32[8, 9] (lost)",
    ]
    assert {"2.5", "15", "0.75", "8", "A processor, 1 thread, 2026-01-02"} <= set(bars)
    assert {"1.6", "15", "8"} <= set(texts(folder / "summary.svg"))  # medians over sizes
    assert {"50 %", "344 % →", "20 %"} <= set(texts(folder / "bound.svg"))
    roofline = texts(folder / "roofline.svg")
    assert {"softmax f32", "top_k bf16"} <= set(roofline)
    assert {"L1 200 GB/s", "memory 20 GB/s", "f32 fma 90"} <= set(roofline)
    assert [t for t in roofline if "softmax" in t] == ["softmax f32"]  # its largest size
    numbers = (folder / "rows.md").read_text()
    assert "| softmax | f32[8, 9] | 4 | - | 0.75 | 344 % L1 |" in re.sub(" +", " ", numbers)


def test_each_operator_has_a_picture_of_its_own(saved: Path, tmp_path: Path) -> None:
    assert bench("plot", saved, tmp_path / "p", "--format", "svg", "--each").exit_code == 0
    made = texts(tmp_path / "p" / "of-softmax.svg")
    assert "softmax beside its opponents" in made
    assert {"f32[2, 3]", "f32[8, 9] (lost)"} <= set(made)
    assert not any("top_k" in text for text in made)


def test_the_run_of_a_model_shows_tokens_per_second(tmp_path: Path) -> None:
    """Of every contender, also of one that has no colour of its own."""
    rows = [
        row("A model", "decode bf16, captured", {"anyop": 1e4, "torch": 4e4, "unheard": 8e3}, 1e3),
        row("A model", "prefill bf16, captured", {"anyop": 1e3, "torch": 2e3}, 1e2),
    ]
    machine = {"cpu": "A processor", "threads": 1, "date": "2026-01-02T00:00:00", "tuned": "none"}
    run = {"format": runs.FORMAT, "machine": machine, "rows": rows, "ceilings": CEILINGS}
    (tmp_path / "model.json").write_text(json.dumps(run))
    bench("plot", tmp_path / "model.json", tmp_path / "p", "--format", "svg")
    made = {p.name for p in (tmp_path / "p").iterdir()}
    assert made == {"tokens.svg", "prompt.svg", "rows.md"}
    tokens = texts(tmp_path / "p" / "tokens.svg")
    assert {"100", "25", "125", "unheard", "What A model generates"} <= set(tokens)
    assert "bf16, captured, 1 thread (lost)" in tokens
    numbers = (tmp_path / "p" / "rows.md").read_text()
    assert "| A model, decode bf16, captured | 1 | 100 | 25 (4) | 125 (0.8) |" in numbers
    assert {"1,000", "500"} <= set(texts(tmp_path / "p" / "prompt.svg"))


@pytest.mark.parametrize("wanted", [[0.5] * 5, [0.0, 0.01, 0.02, 0.9], [0.97, 0.98, 0.99], []])
def test_names_of_points_stay_apart_and_in_order(wanted: list[float]) -> None:
    places = pictures_roofline.apart(wanted, 0.1)
    assert all(b - a >= 0.1 - 1e-9 for a, b in zip(places, places[1:], strict=False))
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert pictures_roofline.apart([0.2, 0.6], 0.1) == pytest.approx([0.2, 0.6])


def test_no_two_names_of_bars_share_a_line(saved: Path, tmp_path: Path) -> None:
    """And none is left of the picture."""
    bench("plot", saved, tmp_path / "p", "--format", "svg")
    for name in ("bars.svg", "bound.svg"):
        text = (tmp_path / "p" / name).read_text("utf-8")
        places = re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>(?:softmax|top_k) ', text)
        assert len({y for _, y in places}) == len(places) == len(ROWS)
        assert all(float(x) > 5 for x, _ in places)


def test_a_picture_follows_its_page_into_the_dark_and_is_made_again_alike(
    saved: Path, tmp_path: Path
) -> None:
    made = []
    for name in ("a", "b"):
        bench("plot", saved, tmp_path / name, "--format", "svg")
        made.append({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()})
    assert made[0] == made[1]
    assert b"@media (prefers-color-scheme: dark)" in made[0]["bars.svg"]
    assert b'[style*="fill: #1f2430"]' in made[0]["bars.svg"]
    assert b"fill: #1f2430" in made[0]["bars.svg"].split(b"</style>", 2)[-1]


def test_without_matplotlib_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec",
        lambda name, *more: None if name == "matplotlib" else find(name, *more),
    )  # fmt: skip
    monkeypatch.setattr("anyop.bench.measure.measure", lambda *_: pytest.fail("measured"))
    done = bench("ops", "softmax", "--plot", tmp_path / "p")
    assert done.exit_code == 1
    assert "bench: pictures need matplotlib. Try: pip install matplotlib" in str(
        done.exception or done.output
    )
    assert "matplotlib" in str(bench("model", "--plot", tmp_path / "p").exception)
