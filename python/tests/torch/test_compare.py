# SPDX-License-Identifier: Apache-2.0
"""`anyop.torch.compare` measures each way on arguments of its own."""

from __future__ import annotations

from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor needs a compiler and seconds: a backend of torch that needs neither stands in."""
    from anyop.torch._compile import compare

    monkeypatch.setattr(
        compare, "_BACKENDS", {"torch": "", "inductor": "aot_eager", "anyop": "anyop"}
    )


def test_each_way_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    ways(monkeypatch)
    rows = anyop.torch.compare(lambda x, n: torch.sigmoid(x) * n, torch.ones(4, 8), n=2, rounds=3)
    assert [row["way"] for row in rows] == ["torch", "inductor", "anyop"]
    assert rows[0]["ratio"] == 1 and all(row["ms"] > 0 for row in rows)
    shown = str(rows).splitlines()
    assert shown[0].split() == ["way", "ms", "of", "torch"] and shown[3].startswith("anyop ")


def test_arguments_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ways(monkeypatch)
    x = torch.zeros(3)
    anyop.torch.compare(lambda x: x.add_(1), x, rounds=2)
    assert x.tolist() == [0, 0, 0]


def test_a_way_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from anyop.torch._compile import compare

    def broken(module: Any, examples: Any) -> Any:
        raise OSError("no compiler")

    monkeypatch.setattr(compare, "_BACKENDS", {"torch": "", "inductor": broken})
    torch_, inductor = anyop.torch.compare(lambda x: x + 1, torch.ones(3), rounds=2)
    assert not torch_["why_not"] and "no compiler" in inductor["why_not"]
