# SPDX-License-Identifier: Apache-2.0
"""Programs of some seeds, and what fails of them."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._dynamo

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


PER_COLLECTION = 20  # programs; each leaves modules and graphs that refer to themselves


@contextlib.contextmanager
def cheap() -> Iterator[None]:
    """Without what costs time and changes no result: threads that wait for one another over
    tensors of a few elements, Dynamo's timing of its guards, collections of garbage while a
    program is compiled.
    """
    guards: Any = torch._dynamo.guards
    threads, profile = torch.get_num_threads(), guards.profile_guard_manager
    torch.set_num_threads(1)
    guards.profile_guard_manager = lambda *_: 0.0
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
        guards.profile_guard_manager = profile
        torch.set_num_threads(threads)


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


def is_torchs(program: Program, way: str, found: Difference) -> bool:
    """Whether torch's own compiler differs from torch, too: such programs do not count. They read,
    for instance, what they overwrite. capture differs in the same way then."""
    torch._dynamo.reset()
    control = difference(program, through_torch_compile("aot_eager", program.dynamic))
    return control is not None and (way == "compile" or control.kind == found.kind)


def failures(
    seeds: Iterable[int], ways: Iterable[str] = WAYS, focus: Sequence[str] = ()
) -> Iterator[Failure]:
    with quiet(), cheap():
        for number, seed in enumerate(seeds):
            if number % PER_COLLECTION == 0:
                gc.collect()
            made = program_of(seed, focus)
            for way in ways:
                if way == "capture" and made.grad == "train":
                    continue
                found = check(made, way)
                if found is not None and not is_torchs(made, way, found):
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
        if program != failure.program and is_torchs(program, failure.way, last):
            return failure
    return Failure(program, failure.way, last)
