# SPDX-License-Identifier: Apache-2.0
"""Torch tensors that a graph is bound to: it notices when their memory is exchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")

CHANGES: list[Callable[[Any], Any]] = [
    lambda w: w.resize_(100000),
    lambda w: w.set_(torch.zeros(9)),
    lambda w: setattr(w, "data", torch.zeros(4)),
    lambda w: w.untyped_storage().resize_(0),
    lambda w: w.resize_(2),
    lambda w: w.resize_(2, 2),
    lambda w: setattr(w, "data", w.data[None]),
    lambda w: setattr(w, "data", w.data.view(torch.int32)),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("is_view", [False, True])
def test_state_of_other_memory_is_refused(change: Callable[[Any], Any], is_view: bool) -> None:
    base = torch.ones(4)
    weight = base[:4].view(4) if is_view else base
    g = anyop.graph(lambda x: anyop.add(x, weight), "f32[4]", state={"w": weight}, name="g")
    x = torch.ones(4)
    assert g(x).tolist() == [2.0] * 4
    change(weight)
    with pytest.raises(ValueError) as caught:
        g(x)
    assert str(caught.value) == (
        "g: the state w was resized or given other memory or another form, but a graph keeps what "
        "it was made with. Try making the graph again."
    )


def test_a_call_counts_as_a_write_of_the_state_that_it_writes() -> None:
    """torch's version counter tells autograd; also of a graph that calls the one that writes."""
    weight, cache = torch.ones(4), torch.zeros(4)

    def writes(x: Any) -> Any:
        anyop.add(x, weight, out=cache)
        return anyop.mul(x, weight)

    g = anyop.graph(writes, "f32[4]")
    outer = anyop.graph(lambda x: anyop.mul(g(x), weight), "f32[4]")
    for graph in (g, outer):
        was_read, was_written = weight._version, cache._version
        graph(torch.ones(4))
        assert cache._version > was_written
        assert weight._version == was_read


def test_state_that_is_written_in_place_is_seen() -> None:
    weight = torch.ones(4)
    g = anyop.graph(lambda x: anyop.add(x, weight), "f32[4]")
    weight.mul_(3)
    assert g(torch.ones(4)).tolist() == [4.0] * 4


def test_a_wrong_device_or_dtype_is_told() -> None:
    g = anyop.graph(lambda x: anyop.softmax(x), "f32[n]", name="g")
    with pytest.raises(ValueError, match="g: a graph cannot take these tensors: no plain CPU tens"):
        g(torch.ones(4, device="meta"))
    with pytest.raises(ValueError, match=r"g: x is f64\[4\], but must be f32\[n\]."):
        g(torch.ones(4, dtype=torch.float64))


def test_a_profile_takes_tensors() -> None:
    weight = torch.full((64,), 2.0)
    g = anyop.graph(lambda x: anyop.rms_norm(x, weight), "f32[n, 64]")
    rows = g.profile(torch.ones(100, 64), repeats=3)
    assert [row.op for row in rows] == ["anyop.rms_norm"]
    assert rows[0].ns_min > 0


def test_a_captured_program_is_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from anyop.cli import app
    from click.testing import CliRunner

    (tmp_path / "captured_probe.py").write_text(
        "import anyop.torch, torch\n"
        "LINEAR = torch.nn.Linear(8, 8, bias=False)\n"
        "with torch.no_grad():\n"
        "    STEP = anyop.torch.capture(LINEAR, torch.ones(2, 8))\n"
    )
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(app, ["graph", "captured_probe:STEP", "--svg", "step.svg"])
    assert shown.exit_code == 0, shown.output
    assert "linear</tspan>" in (tmp_path / "step.svg").read_text()
