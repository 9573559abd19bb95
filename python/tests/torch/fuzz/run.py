# SPDX-License-Identifier: Apache-2.0
"""Programs of some seeds, and what fails of them."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from fuzz.compare import Difference, difference, through_capture, through_torch_compile
from fuzz.generate import program as program_of
from fuzz.minimize import minimized
from fuzz.program import Program
from fuzz.report import script
from fuzz.session import Session

WAYS = ("compile", "capture")


@dataclass(frozen=True)
class Failure:
    program: Program
    way: str
    found: Difference

    def script(self) -> str:
        return script(self.program, self.way, str(self.found))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    level = logging.getLogger("torch").level
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    logging.getLogger("anyop").propagate = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.getLogger("torch").setLevel(level)
            logging.getLogger("anyop").propagate = True


def check(program: Program, way: str) -> Difference | None:
    """What differs from torch."""
    if way == "capture":  # bound tensors are those that the module had
        kept = replace(program, between="write" if program.between == "move" else program.between)
        return difference(kept, through_capture(Session(kept), kept.dynamic), True)
    torch._dynamo.reset()
    return difference(program, through_torch_compile("anyop", program.dynamic))


def is_torchs(program: Program, way: str) -> bool:
    """Whether torch's own compiler differs from torch, too: such programs do not count."""
    torch._dynamo.reset()
    control = through_torch_compile("aot_eager", program.dynamic)
    return way == "compile" and difference(program, control) is not None


def failures(
    seeds: Iterable[int], ways: Iterable[str] = WAYS, focus: Sequence[str] = ()
) -> Iterator[Failure]:
    with quiet():
        for seed in seeds:
            made = program_of(seed, focus)
            for way in ways:
                if way == "capture" and made.grad == "train":
                    continue
                found = check(made, way)
                if found is not None and not is_torchs(made, way):
                    yield Failure(made, way, found)


def smaller(failure: Failure) -> Failure:
    """The shortest program with a difference of the same kind."""
    kind = failure.found.kind
    last = failure.found

    def fails(program: Program) -> bool:
        nonlocal last
        try:
            found = check(program, failure.way)
        except Exception:  # it is no program any more
            return False
        if found is None or found.kind != kind:
            return False
        last = found
        return True

    with quiet():
        program = minimized(failure.program, fails)
        if program != failure.program and is_torchs(program, failure.way):
            return failure
    return Failure(program, failure.way, last)
