# SPDX-License-Identifier: Apache-2.0
"""Programs with a planted defect, each with a twin that is right, on the virtual NPU.

    ANYOP_NPU=delay ENVIRONMENT/bin/python python/tests/npu/planted.py [KIND ...]

A program returns whether it has seen what it would see if all was in order. Each is run some times,
with the defect and without. A defect is caught if a wrong value shows at least once; a twin must be
right each time. Prints, for each program, how often it was wrong: with the defect, without.
"""

from __future__ import annotations

import functools
import json
import sys
import warnings
from collections.abc import Callable

import torch
import touches

TIMES = 10
N, BIG = touches.N, 384
Program = Callable[[bool], bool]
PROGRAMS: dict[str, dict[str, Program]] = {}


def planted(kind: str) -> Callable[[Program], Program]:
    def note(program: Program) -> Program:
        PROGRAMS.setdefault(kind, {})[program.__name__] = program
        return program

    return note


def main_stream() -> torch.npu.Stream:
    return torch.npu.current_stream()


def begin(value: float = 0.0) -> torch.Tensor:
    """A tensor that is there."""
    x = torch.full((N,), value, device="npu")
    torch.npu.synchronize()
    return x


@functools.cache
def big() -> torch.Tensor:
    return torch.full((BIG, BIG), 1e-3, device="npu")


def nothing() -> torch.Tensor:
    """0, after some milliseconds of work."""
    x = big()
    for _ in range(4):
        x = x @ big()
    return x[0, 0] * 0


def slow(x: torch.Tensor, steps: int = 30) -> torch.Tensor:
    """x + steps, some milliseconds later."""
    x = x + nothing().to(x.dtype)
    for _ in range(steps):
        x = x + 1
    return x


def late(x: torch.Tensor, steps: int = 30) -> torch.Tensor:
    """Adds in place: who looks too early sees less."""
    x += nothing().to(x.dtype)
    for _ in range(steps):
        x += 1
    return x


def is_all(x: torch.Tensor, value: float) -> bool:
    torch.npu.synchronize()
    return bool((x.cpu() == value).all())


# ---- An event that is forgotten, or waited for by the wrong one.

EVENT = "event"


@planted(EVENT)
def stream_waits_for_no_other(right: bool) -> bool:
    x, other = late(begin()), torch.npu.Stream()
    if right:
        other.wait_stream(main_stream())
    with torch.npu.stream(other):
        y = x * 1
    return is_all(y, 30)


@planted(EVENT)
def event_is_recorded_too_early(right: bool) -> bool:
    x, other, event = begin(), torch.npu.Stream(), torch.npu.Event()
    if not right:
        event.record()
    late(x)
    if right:
        event.record()
    other.wait_event(event)
    with torch.npu.stream(other):
        y = x * 1
    return is_all(y, 30)


@planted(EVENT)
def event_is_recorded_on_another_stream(right: bool) -> bool:
    x, other, third = late(begin()), torch.npu.Stream(), torch.npu.Stream()
    event = torch.npu.Event()
    event.record(main_stream() if right else third)
    other.wait_event(event)
    with torch.npu.stream(other):
        y = x * 1
    return is_all(y, 30)


@planted(EVENT)
def wait_the_wrong_way_round(right: bool) -> bool:
    x, other = late(begin()), torch.npu.Stream()
    waits, waited = (other, main_stream()) if right else (main_stream(), other)
    waits.wait_stream(waited)
    with torch.npu.stream(other):
        y = x * 1
    return is_all(y, 30)


@planted(EVENT)
def wait_behind_the_work(right: bool) -> bool:
    x, other = late(begin()), torch.npu.Stream()
    if right:
        other.wait_stream(main_stream())
    with torch.npu.stream(other):
        y = x * 1
    other.wait_stream(main_stream())
    return is_all(y, 30)


@planted(EVENT)
def one_of_two_is_waited_for(right: bool) -> bool:
    a, b = begin(), begin()
    streams = [torch.npu.Stream() for _ in range(2)]
    with torch.npu.stream(streams[0]):
        a += 1
    with torch.npu.stream(streams[1]):
        late(b)
    for stream in streams if right else streams[:1]:
        main_stream().wait_stream(stream)
    return is_all(a + b, 31)


@planted(EVENT)
def result_of_another_stream_is_used_at_once(right: bool) -> bool:
    x, other = begin(), torch.npu.Stream()
    with torch.npu.stream(other):
        late(x)
    if right:
        main_stream().wait_stream(other)
    return is_all(x + 0, 30)


@planted(EVENT)
def matrix_of_another_stream(right: bool) -> bool:
    x, other = torch.zeros(16, 16, device="npu"), torch.npu.Stream()
    eye = torch.eye(16, device="npu")
    torch.npu.synchronize()
    late(x)
    if right:
        other.wait_stream(main_stream())
    with torch.npu.stream(other):
        y = x @ eye
    return is_all(y, 30)


@planted(EVENT)
def chain_over_three_streams(right: bool) -> bool:
    x, second, third = begin(), torch.npu.Stream(), torch.npu.Stream()
    late(x)
    second.wait_stream(main_stream())
    with torch.npu.stream(second):
        late(x)
    third.wait_stream(second if right else main_stream())
    with torch.npu.stream(third):
        y = x * 1
    return is_all(y, 60)


@planted(EVENT)
def write_while_another_stream_reads(right: bool) -> bool:
    x, other = begin(), torch.npu.Stream()
    zero = begin()
    with torch.npu.stream(other):
        y = slow(zero) * 0 + x
    if right:
        main_stream().wait_stream(other)
    x.fill_(7)
    return is_all(y, 0)


# ---- A copy that does not block, and is read early.

COPY = "copy"


def pinned(value: float = 0.0) -> torch.Tensor:
    return torch.full((N,), value).pin_memory()


@planted(COPY)
def copy_into_pinned_memory(right: bool) -> bool:
    here = pinned()
    here.copy_(slow(begin()), non_blocking=True)
    if right:
        torch.npu.synchronize()
    return bool((here == 30).all())


@planted(COPY)
def copy_into_memory_that_is_made_pinned(right: bool) -> bool:
    x = slow(begin())
    here = torch.zeros(N, pin_memory=True)
    here.copy_(x, non_blocking=True)
    if right:
        torch.npu.synchronize()
    return bool((here == 30).all())


@planted(COPY)
def copy_of_a_part(right: bool) -> bool:
    here = pinned()
    here[8:16].copy_(slow(begin())[8:16], non_blocking=True)
    if right:
        main_stream().synchronize()
    return bool((here[8:16] == 30).all())


@planted(COPY)
def copy_that_numpy_reads(right: bool) -> bool:
    here = pinned()
    view = here.numpy()
    here.copy_(slow(begin()), non_blocking=True)
    if right:
        main_stream().synchronize()
    return bool((view == 30).all())


@planted(COPY)
def copy_on_another_stream_than_is_waited_for(right: bool) -> bool:
    here, other = pinned(), torch.npu.Stream()
    with torch.npu.stream(other):
        here.copy_(slow(begin()), non_blocking=True)
    (other if right else main_stream()).synchronize()
    return bool((here == 30).all())


@planted(COPY)
def wait_before_the_copy(right: bool) -> bool:
    here, x = pinned(), slow(begin())
    if not right:
        main_stream().synchronize()
    x = slow(x)
    here.copy_(x, non_blocking=True)
    if right:
        main_stream().synchronize()
    return bool((here == 60).all())


@planted(COPY)
def event_before_the_copy(right: bool) -> bool:
    here, event = pinned(), torch.npu.Event()
    x = slow(begin())
    if not right:
        event.record()
    here.copy_(slow(x), non_blocking=True)
    if right:
        event.record()
    event.synchronize()
    return bool((here == 60).all())


@planted(COPY)
def source_is_written_again_too_early(right: bool) -> bool:
    here = pinned(3.0)
    there = begin()
    late(torch.zeros(N, device="npu"))
    there.copy_(here, non_blocking=True)
    if right:
        main_stream().synchronize()
    here.fill_(9.0)
    return is_all(there, 3)


@planted(COPY)
def two_copies_into_one_buffer(right: bool) -> bool:
    here = pinned()
    here.copy_(slow(begin()), non_blocking=True)
    main_stream().synchronize()
    first = float(here[0])
    here.copy_(slow(begin(), 60), non_blocking=True)
    if right:
        main_stream().synchronize()
    return first == 30 and float(here[-1]) == 60


@planted(COPY)
def copy_of_integers(right: bool) -> bool:
    here = torch.zeros(N, dtype=torch.int64).pin_memory()
    there = torch.zeros(N, dtype=torch.int64, device="npu")
    here.copy_(late(there), non_blocking=True)
    if right:
        torch.npu.synchronize()
    return here.tolist() == [30] * N


# ---- Memory that is given back while another stream still uses it.

FREED = "freed"


def use_on(stream: torch.npu.Stream, x: torch.Tensor, right: bool) -> torch.Tensor:
    """x + 30, on the stream; x is read last."""
    stream.wait_stream(main_stream())
    zero = begin()
    with torch.npu.stream(stream):
        y = slow(zero) + x
    zero.record_stream(stream)
    if right:
        x.record_stream(stream)
    return y


def reused(right: bool, make: Callable[[], torch.Tensor], again: Callable[[], object]) -> bool:
    x, other = make(), torch.npu.Stream()
    torch.npu.synchronize()
    y = use_on(other, x, right)
    del x
    kept = [again() for _ in range(40)]  # one of them has that memory
    seen = is_all(y, 32)
    del kept
    return seen


def twos() -> torch.Tensor:
    return torch.full((N,), 2.0, device="npu")


@planted(FREED)
def freed_then_filled(right: bool) -> bool:
    return reused(right, twos, lambda: torch.full((N,), 5.0, device="npu"))


@planted(FREED)
def freed_then_zeros(right: bool) -> bool:
    return reused(right, twos, lambda: torch.zeros(N, device="npu"))


@planted(FREED)
def freed_then_a_result(right: bool) -> bool:
    one = torch.ones(N, device="npu")
    return reused(right, twos, lambda: one * 4)


@planted(FREED)
def freed_then_a_copy_of_the_host(right: bool) -> bool:
    return reused(right, twos, lambda: torch.full((N,), 8.0).to("npu"))


@planted(FREED)
def freed_then_random_numbers(right: bool) -> bool:
    return reused(right, twos, lambda: torch.rand(N, device="npu"))


@planted(FREED)
def freed_then_several(right: bool) -> bool:
    return reused(right, twos, lambda: [torch.full((N,), float(i), device="npu") for i in (7, 8)])


@planted(FREED)
def freed_then_integers(right: bool) -> bool:
    return reused(right, twos, lambda: torch.arange(N, dtype=torch.int32, device="npu"))


@planted(FREED)
def freed_result_of_a_function(right: bool) -> bool:
    return reused(right, lambda: twos() * 1, lambda: torch.zeros(N, device="npu"))


@planted(FREED)
def freed_view(right: bool) -> bool:
    return reused(right, lambda: twos().view(N), lambda: torch.full((N,), 6.0, device="npu"))


@planted(FREED)
def freed_large(right: bool) -> bool:
    """Of a block of its own."""
    x, other = torch.full((1 << 20,), 2.0, device="npu"), torch.npu.Stream()
    zero = begin()
    other.wait_stream(main_stream())
    with torch.npu.stream(other):
        y = slow(zero) + x[:N]
    if right:
        x.record_stream(other)
    del x
    kept = torch.zeros(1 << 20, device="npu")
    return is_all(y, 32) and kept is not None


# ---- Memory of the device that the host reads or writes: the process ends.

HOST = "host"


def host(touch: touches.Touch) -> None:
    def program(right: bool) -> bool:
        x = torch.arange(N, dtype=torch.float32, device="npu")
        kept = x.cpu() if right else x
        torch.npu.synchronize()
        return touches.is_left_in_peace(touch, kept.data_ptr())

    program.__name__ = touch.__name__
    planted(HOST)(program)


for each in touches.TOUCHES:
    host(each)


# ---- All of it.


def wrongs(kind: str, program: Program, right: bool) -> int:
    return sum(not program(right) for _ in range(1 if kind == HOST else TIMES))


def main() -> None:
    warnings.simplefilter("ignore")
    for kind in sys.argv[1:] or PROGRAMS:
        for name, program in PROGRAMS[kind].items():
            program(True)  # what comes with a first call is over
            row = [kind, name, wrongs(kind, program, False), wrongs(kind, program, True)]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
