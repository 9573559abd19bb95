# SPDX-License-Identifier: Apache-2.0
"""A program's calls as torch runs them and as something else does: the first thing that differs."""

from __future__ import annotations

import logging
import re
import traceback
from dataclasses import dataclass
from functools import cache
from typing import Any

import anyop
import torch
from anyop.torch._lower import defects
from torch.utils import _pytree as pytree

from fuzz.noise import tolerances
from fuzz.program import Program
from fuzz.session import Seen, Session, Wrap, overwrite


@dataclass(frozen=True)
class Difference:
    kind: str  # "value", "strides", ...; or the exception and where it comes from
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def through_torch_compile(backend: Any, dynamic: bool) -> Wrap:
    return lambda module: torch.compile(module, backend=backend, dynamic=dynamic or None)


# What capture may say of a legal program: it branches by data, a size cannot vary (in
# torch or at all), a tensor that it holds gets another form.
_REFUSALS = (
    "asks for the elements of a tensor",
    "but the program works for",
    "but a graph takes such tensors as they are",
    "calls what torch has for fixed sizes only",
)


class Refused(Exception):
    """capture says, with its reason, that a program is no graph."""


def through_capture(first: Session, dynamic: bool) -> Wrap:
    """first: a session of the same program whose arguments are the example."""

    def wrap(module: Any) -> Any:
        passed = first.passed(first.arguments())
        tensors = [t for t in pytree.tree_leaves(passed) if isinstance(t, torch.Tensor)]
        dims = [{d: f"n{i}_{d}" for d in range(t.dim())} for i, t in enumerate(tensors)]
        try:
            return anyop.torch.capture(module, *passed, dynamic=dims if dynamic else None)
        except anyop.InvalidArgument as error:
            if any(reason in str(error) for reason in _REFUSALS):
                raise Refused(str(error)) from error
            raise

    return wrap


class Defects(logging.Handler):
    """Exceptions of anyop's own that a program survives, since torch runs it instead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Difference] = []

    def emit(self, record: logging.LogRecord) -> None:
        _, kind, error, place = record.args  # type: ignore[misc]
        text = str(error).partition("\n")[0]
        self.found.append(Difference(f"defect, {kind} at {place}", text))

    def __enter__(self) -> Defects:
        defects._logged.clear()  # each place is logged once
        logging.getLogger("anyop").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("anyop").removeHandler(self)


def difference(program: Program, wrap: Wrap, is_capture: bool = False) -> Difference | None:
    """Runs all calls. is_capture: what is captured has no gradients."""
    with Defects() as defects:
        found = _difference(program, wrap, is_capture)
    return found or next(iter(defects.found), None)


def _difference(program: Program, wrap: Wrap, is_capture: bool) -> Difference | None:
    try:
        theirs = Session(program, wrap)
    except Refused:
        return None
    except Exception as error:
        return _raised("making it", error)
    ours = Session(program)
    for call in range(len(program.sizes)):
        a, b = ours.call(), theirs.call()
        if is_capture and isinstance(b.error, anyop.InvalidArgument) and call:
            return None  # sizes for which the program does something else
        found = _between(program, call, a, b, is_capture)
        if found is not None:
            return found
        if a.error is not None:
            return None  # what comes next is no program's contract
    return None


def _raised(where: str, error: BaseException) -> Difference:
    causes = [error]
    while causes[-1].__cause__ is not None and causes[-1].__cause__ not in causes:
        causes.append(causes[-1].__cause__)
    cause = causes[-1]
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if "fuzz" not in f.filename]
    own = [f for f in frames if "/anyop/" in f.filename] or frames
    place = f"{own[-1].filename.rpartition('/')[2]}:{own[-1].name}" if own else "nowhere"
    first = str(cause).strip().partition("\n")[0][:300]
    return Difference(f"{type(cause).__name__} at {place}", f"{where} raises {first}")


def _between(program: Program, call: int, a: Seen, b: Seen, is_capture: bool) -> Difference | None:
    where = f"call {call}"
    if b.error is not None and a.error is None:
        return _raised(where, b.error)
    if a.error is not None:
        if b.error is None:
            return Difference("nothing raised", f"{where}: torch raises {_line(a.error)}")
        return None
    if a.spec != b.spec:
        return Difference("structure", f"{where}: {a.spec} became {b.spec}")
    return (
        _forms(where, a, b, is_capture)
        or _places(where, a, b)
        or _values(program, call, a.values, b.values, "value")
        or _gradients(program, call, a, b)
        or _after_writes(program, call, a, b)
    )


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _forms(where: str, a: Seen, b: Seen, is_capture: bool) -> Difference | None:
    for i, (x, y) in enumerate(zip(a.leaves, b.leaves, strict=True)):
        name = f"{where}, result {i}"
        if type(x) is not type(y):
            return Difference("type", f"{name}: {type(x).__name__} became {type(y).__name__}")
        if not isinstance(x, torch.Tensor):
            if x != y and not (x != x and y != y):
                return Difference("number", f"{name}: {x!r} became {y!r}")
            continue
        if (x.dtype, x.shape) != (y.dtype, y.shape):
            shown = (f"{t.dtype}{list(t.shape)}" for t in (x, y))
            return Difference("shape or dtype", f"{name}: {' became '.join(shown)}")
        if _real_strides(x) != _real_strides(y):
            return Difference("strides", f"{name}: {x.stride()} became {y.stride()} of {x.shape}")
        if not is_capture and x.requires_grad != y.requires_grad:
            return Difference("requires_grad", f"{name}: {x.requires_grad}, {y.requires_grad}")
    for name, was in a.is_written.items():
        if was != b.is_written[name]:
            return Difference("version", f"{where}: {name} written: {was} became {not was}")
    return None


def _real_strides(t: torch.Tensor) -> list[int]:
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n != 1] if t.numel() else []


def _places(where: str, a: Seen, b: Seen) -> Difference | None:
    names = list(a.places)
    same = ({id(v): n for n, v in s.arguments.items()} for s in (a, b))
    is_argument = [
        [ids.get(id(leaf)) for leaf in s.leaves] for ids, s in zip(same, (a, b), strict=True)
    ]
    if is_argument[0] != is_argument[1]:
        return Difference("identity", f"{where}: {is_argument[0]} became {is_argument[1]}")
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if other.startswith("x"):
                continue
            was, now = ((_relation(s.places[one], s.places[other])) for s in (a, b))
            if was != now:
                return Difference("aliasing", f"{where}: {one}, {other}: {was} became {now}")
    return None


def _relation(one: Any, other: Any) -> str:
    if not one[0] or one[0] != other[0]:
        return "apart"
    return f"one memory, {other[1] - one[1]} apart"


def _values(
    program: Program, call: int, a: dict[str, Any], b: dict[str, Any], kind: str
) -> Difference | None:
    @cache
    def allowed() -> dict[str, Any]:
        return tolerances(program, call)

    for name, x in a.items():
        y = b.get(name)
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            if _is_equal(x, y):
                continue
            known = allowed()
            limit = known.get(name, torch.zeros(()))
            if limit is None or _is_close(x, y, limit):
                continue
            return Difference(kind, f"call {call}, {name}: {_shown(x, y, limit)}")
        if x != y:
            return Difference(kind, f"call {call}, {name}: {x} became {y}")
    return None


def _is_equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    is_float = x.is_floating_point() or x.is_complex()
    return bool(((x == y) | ((x != x) & (y != y))).all()) if is_float else torch.equal(x, y)


def _is_close(x: torch.Tensor, y: torch.Tensor, limit: torch.Tensor) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    off = (x.to(torch.complex128) - y.to(torch.complex128)).abs()
    is_same = (x == y) | ((x != x) & (y != y))
    return bool((is_same | (off <= limit)).all())


def _shown(x: torch.Tensor, y: torch.Tensor, limit: torch.Tensor) -> str:
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{x.dtype}{list(x.shape)} became {y.dtype}{list(y.shape)}"
    off = (x.to(torch.complex128) - y.to(torch.complex128)).abs()
    off = torch.where((x == y) | ((x != x) & (y != y)), 0.0, off).reshape(-1)
    at = int(torch.where(off.isnan(), torch.inf, off - limit.reshape(-1)).argmax())
    most = limit.expand(x.shape).reshape(-1)[at].item()
    return (
        f"{x.reshape(-1)[at].item()} became {y.reshape(-1)[at].item()} at element {at}, "
        f"at most {most:.3g} off"
    )


def _gradients(program: Program, call: int, a: Seen, b: Seen) -> Difference | None:
    if a.gradients.keys() != b.gradients.keys():
        return Difference("gradients", f"call {call}: {[*a.gradients]} became {[*b.gradients]}")
    named = ({f"gradient of {n}": t for n, t in s.gradients.items()} for s in (a, b))
    return _values(program, call, *named, "gradient")


def _after_writes(program: Program, call: int, a: Seen, b: Seen) -> Difference | None:
    if program.grad == "train":
        return None
    was, now = overwrite(a), overwrite(b)
    if was.keys() != now.keys():
        refused = sorted(was.keys() ^ now.keys())
        return Difference("writable", f"call {call}: {', '.join(refused)} of one of both only")
    return _values(program, call, was, now, "written into")


def place_in(text: str) -> str:
    """What tells causes apart in a difference: no numbers of calls, results or names."""
    return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
