# SPDX-License-Identifier: Apache-2.0
"""Whether a replacement of nodes of a graph does what they do: it is tried, then taken.

A pattern is a guess. `refusal` runs the nodes that it stands for, and what is to stand there, on
small tensors of several sizes, strides and values, and compares dtypes, shapes, values, memory that
is shared and arguments that are written. Values may differ as a reordering of the same sums makes
them differ: the yardstick is how far the nodes themselves are from their results in f64.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from anyop import _anyop
from anyop.hosting.sentences import clause
from anyop.torch._nodes.memory import Writes
from anyop.torch._proof.fragment import Fragment
from anyop.torch._proof.trials import Function, Trial

# A replacement may be off by both together: units in the last place of a result's dtype, and
# multiples of the largest error of the nodes themselves.
_ULPS = 4
_SPREAD = 4

_known: dict[str, str] = {}  # by a canonical text of both: the reason against it
_MAX_KNOWN = 4096
_refused: list[tuple[str, str]] = []  # what was not taken, and why
_modes = threading.local()  # .strict


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Within, a replacement that is refused is an error."""
    before, _modes.strict = getattr(_modes, "strict", False), True
    try:
        yield
    finally:
        _modes.strict = before


def refusals() -> list[tuple[str, str]]:
    """The replacements that were not taken so far, each with the reason."""
    return list(_refused)


def holds(
    output: Node, inputs: Sequence[Node], replacement: Function, name: str, writes: Writes,
    **options: Any,
) -> bool:  # fmt: skip
    """Whether a function of trials can stand where output does: see `refusal` for its options.

    It reads the inputs where output stands, so that these must still be what the nodes read.
    """
    fragment = Fragment(output, inputs)
    why = fragment.why or _written(fragment, writes)
    if why:
        _refuse(name, why)
        return False
    return not refusal(output, inputs, replacement, name, **options)


def _written(fragment: Fragment, writes: Writes) -> str:
    for node in fragment.nodes:
        if writes.between(node, node, fragment.output):
            return f"{node.name} is written meanwhile"
    for node in fragment.inputs:
        readers = [n for n in fragment.nodes if node in n.all_input_nodes]
        if readers and writes.between(node, writes.first(readers), fragment.output):
            return f"{node.name} is written meanwhile"
    return ""


def refusal(
    output: Node, inputs: Sequence[Node], replacement: Function, name: str, *,
    values: Callable[[Trial], dict[Node, torch.Tensor]] | None = None, results_only: bool = False,
    kinds: Sequence[str] = ("normal", "zeros", "small", "large", "huge"), key: str = "",
) -> str:  # fmt: skip
    """Why a function of trials cannot stand for the nodes between inputs and output; "" if it can.

    name and key: text that tells one replacement from others. values: inputs that are not random.
    results_only: it may share other memory and write other arguments.
    """
    fragment = Fragment(output, inputs)
    why = fragment.why
    if not why:
        text = "\n".join((name, key, str(results_only), *kinds, fragment.text()))
        if text not in _known:
            trials = fragment.trials(kinds, values)
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[text] = difference(
                fragment.run, replacement, trials, fragment.exact, results_only=results_only
            )
        why = _known[text]
    if why:
        _refuse(name, why)
    return why


def _refuse(name: str, why: str) -> None:
    _refused[:] = [*_refused[-999:], (name, why)]
    if getattr(_modes, "strict", False):
        raise _anyop.Error(f"{name}: the replacement is not what it stands for: {why}")


def difference(
    original: Function, replacement: Function, trials: Iterable[Trial],
    exact: Function | None = None, *, results_only: bool = False,
) -> str:  # fmt: skip
    """Where two functions of trials differ; "" if nowhere. exact: the original in f64."""
    n = 0
    with torch.no_grad(), _disable_current_modes():
        for trial in trials:
            try:
                wanted = _run(original, trial)
            except Exception:  # the program would have failed too: nothing can be compared
                continue
            n += 1
            try:
                made = _run(replacement, trial)
            except Exception as error:
                shown = clause(error)[:200]
                return f"{trial.name}: it fails: {shown}"
            best = None  # nodes that do not run in f64 are their own yardstick
            if exact is not None:
                with contextlib.suppress(Exception):
                    best = _run(exact, trial)
            why = _compared(wanted, made, best, results_only)
            if why:
                return f"{trial.name}: {why}"
    return "" if n else "the nodes run with no sizes that were tried"


class _Ran:
    """What a call returned, and what became of its arguments."""

    def __init__(self, results: list[Any], arguments: list[Any]) -> None:
        self.results, self.arguments = results, arguments
        memory = [_memory(a) for a in arguments]
        self.shared = [[i for i, m in enumerate(memory) if m is not None and m == _memory(r)]
                       for r in results]  # fmt: skip


def _run(function: Function, trial: Trial) -> _Ran:
    given = trial.of(trial.copies())
    made = function(given)
    return _Ran(list(made) if isinstance(made, (tuple, list)) else [made], given.tensors)


def _memory(value: Any) -> int | None:
    is_tensor = isinstance(value, torch.Tensor) and value.numel()
    return value.untyped_storage().data_ptr() if is_tensor else None


def _compared(wanted: _Ran, made: _Ran, best: _Ran | None, results_only: bool) -> str:
    if len(wanted.results) != len(made.results):
        return f"{len(made.results)} results of {len(wanted.results)}"
    if wanted.shared != made.shared and not results_only:
        return "it shares other memory with its arguments"
    many = best.results if best is not None else [None] * len(wanted.results)
    for w, m, b in zip(wanted.results, made.results, many, strict=True):
        why = different(w, m, b)
        if why:
            return why
    for w, m in zip(wanted.arguments, made.arguments, strict=True):
        if not results_only and different(w, m, w):
            return "it writes something else to its arguments"
    return ""


def different(wanted: Any, made: Any, best: Any = None) -> str:
    """How a result differs from another; best: the same in f64."""
    if not isinstance(wanted, torch.Tensor) or not isinstance(made, torch.Tensor):
        return "" if wanted == made else f"{made} instead of {wanted}"
    if wanted.dtype != made.dtype or wanted.shape != made.shape:
        return f"{_shown(made)} instead of {_shown(wanted)}"
    if not wanted.dtype.is_floating_point:
        return "" if torch.equal(wanted, made) else "other values"
    w, m = wanted.double(), made.double()
    is_finite = w.isfinite()
    # 9 and -9 stand for the infinities, so that their signs are compared.
    if not torch.equal(w.nan_to_num(0, 9, -9)[~is_finite], m.nan_to_num(0, 9, -9)[~is_finite]) or (
        not torch.equal(w.isnan(), m.isnan()) or not torch.equal(is_finite, m.isfinite())
    ):
        return "other infinities or NaN"
    b = w if best is None or best.shape != w.shape else best.double()
    kept = is_finite & b.isfinite()
    w, m, b = w[kept], m[kept], b[kept]
    if not w.numel():
        return ""
    # An element near 0 may be the difference of large numbers: the mean size is allowed for too.
    size = b.abs()
    own = (w - b).abs().max()
    allowed = _SPREAD * own + _ULPS * torch.finfo(wanted.dtype).eps * (size + size.mean())
    excess = ((m - b).abs() - allowed).max()
    if excess <= 0:
        return ""
    return f"off by {float((m - b).abs().max()):.3g}, the nodes themselves by {float(own):.3g}"


def _shown(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
