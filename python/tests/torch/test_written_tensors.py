# SPDX-License-Identifier: Apache-2.0
"""Tensors of every kind, written by our operators and by torch's own, in every mode.

Where torch refuses, ours do, and nothing is written; where ours write, autograd knows what it knows
after torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
OPS = torch.ops.anyop
MODES = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def leaf() -> Any:
    return torch.rand(4, 4).requires_grad_()


def made_in(mode: Callable[[], Any], make: Callable[[Any], Any], base: Any) -> Any:
    with mode():
        return make(base)


class _OneView(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view(4, 4)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class _TwoViews(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x, x.view(4, 4)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g + h


BASES: dict[str, Callable[[], Any]] = {
    "plain": lambda: torch.rand(4, 4),
    "leaf": leaf,
    "nonleaf": lambda: leaf() * 1,
    "inference": lambda: made_in(torch.inference_mode, torch.rand, (4, 4)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "slice": lambda x: x[:2],
    "unbind": lambda x: x.unbind(0)[1],
    "split": lambda x: x.split(2)[1],
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "one view of a function": _OneView.apply,
    "second view of a function": lambda x: _TwoViews.apply(x)[1],
}
KINDS = [
    (base, view, mode)
    for base in BASES
    for view in VIEWS
    for mode in (["grad"] if view == "itself" else MODES)
]


@anyop.define("written_by_copy(into: mut f32[...], value: f32[...]) -> ()")
def written_by_copy(into: Any, value: Any) -> None:
    into[...] = value


WAYS: dict[str, tuple[Callable[..., Any], list[Callable[..., Any]]]] = {
    "in place": (lambda x, _: torch.sigmoid_(x), [lambda x, _: OPS.sigmoid_(x)]),
    "out": (
        lambda x, y: torch.sigmoid(y, out=x),
        [lambda x, y: OPS.sigmoid.out(y, out=x), lambda x, y: anyop.sigmoid(y, out=x)],
    ),
    "mut": (
        lambda x, y: x.copy_(y),
        [torch.ops.user.written_by_copy.default, written_by_copy],
    ),
}


TORCHS = [torchs for torchs, _ in WAYS.values()]


def write(way: Callable[..., Any], kind: tuple[str, str, str], mode: str) -> Any:
    """What becomes of a tensor of this kind: None where the write is refused."""
    base, view, made = kind
    x = made_in(MODES[made], VIEWS[view], BASES[base]())
    before = x.clone()
    versions = [t._version for t in (x, x._base) if t is not None and not t.is_inference()]
    with MODES[mode]():
        try:
            way(x, torch.full(x.shape, 0.25))
        except RuntimeError:  # NotImplementedError among them
            pass
        except ValueError as error:
            assert "is an inference tensor, but is written outside inference mode" in str(error)
        else:
            now = [t._version for t in (x, x._base) if t is not None and not t.is_inference()]
            try:
                node = x.grad_fn and x.grad_fn.name()
            except RuntimeError as error:  # torch forbids some views once they are written
                node = str(error)
            bumped = [b > a for a, b in zip(versions, now, strict=True)]
            return bumped, x.requires_grad, x.is_leaf, node
        assert way in TORCHS or torch.equal(x, before)  # torch finds some out when it has written
    return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
def test_a_write_is_seen_or_refused_as_torchs_own(
    kind: tuple[str, str, str], way: str, mode: str
) -> None:
    torchs, ours = WAYS[way]
    try:
        expected = write(torchs, kind, mode)
    except RuntimeError:
        pytest.skip("torch makes no such tensor")
    records = mode == "grad" and expected is not None and expected[1]
    for own in ours:
        made = write(own, kind, mode)
        # What torch records as part of the graph has no gradient here and is refused. An inference
        # tensor that was detached outside is one still, though torch counts its versions.
        is_refused = records or (kind[0] == "inference" and kind[1] in ("detach", "data"))
        assert made is None if is_refused and mode != "inference" else made == expected


def test_the_error_names_the_tensor() -> None:
    x = BASES["inference"]()
    text = " is an inference tensor, but is written outside inference mode. Try a clone()."
    y = torch.rand(4, 4)
    for run, name in (
        (lambda: OPS.sigmoid_(x), "sigmoid: x"),
        (lambda: OPS.sigmoid.out(y, out=x), "sigmoid: out"),
        (lambda: torch.ops.user.written_by_copy(x, y), "user.written_by_copy: into"),
    ):
        with pytest.raises(ValueError) as error:
            run()
        assert str(error.value) == name + text
