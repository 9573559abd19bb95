# SPDX-License-Identifier: Apache-2.0
"""Times the operators that have kernels for CUDA cards beside torch's own, as shares of the rate at
which the card copies memory.

    PYTHONPATH=build/gpu/package python3 tools/gpu.py [--json FILE] [--seconds 60] [--no-compile]

Each contender writes its results into memory of its own. Inputs go round through as many sets as
exceed the card's cache; contenders take turns; a time is the median of many turns between events.
Small calls are timed as replays of a CUDA graph of many calls, and as what they cost the host.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import anyop
import torch

Call = Callable[[], Any]
OPS = torch.ops.anyop
BF16 = torch.bfloat16
CACHE_BYTES = 160 << 20  # more than any card's last-level cache
CALLS_IN_A_ROW = 12


@dataclass
class Case:
    """Calls of one size. make() gives the contenders' calls on tensors of their own."""

    name: str
    moved: int  # bytes that any implementation must read and write
    make: Callable[[], dict[str, Call]]
    times: dict[str, float] = field(default_factory=dict)  # microseconds
    shares: dict[str, float] = field(default_factory=dict)  # of the rate of a copy


def normal(*shape: int, dtype: Any = BF16) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype)


_COMPILED: dict[str, Any] = {}  # by the name of a case, all of whose sets have one size


def compiled(name: str, f: Callable[..., Any], *args: Any) -> Call:
    made = _COMPILED.setdefault(name, torch.compile(f, dynamic=False))
    return lambda: made(*args)


def add(rows: int, d: int, dtype: Any = BF16) -> Case:
    name = f"add {short(dtype)}[{rows}, {d}]"

    def make() -> dict[str, Call]:
        x, y = normal(rows, d, dtype=dtype), normal(rows, d, dtype=dtype)
        z = torch.empty_like(x)
        return {
            "anyop": lambda: OPS.add.out(x, y, out=z),
            "torch": lambda: torch.add(x, y, out=z),
        }

    return Case(name, 3 * rows * d * dtype.itemsize, make)


def rms_norm(rows: int, d: int, dtype: Any = BF16) -> Case:
    name = f"rms_norm {short(dtype)}[{rows}, {d}]"

    def make() -> dict[str, Call]:
        x, w = normal(rows, d, dtype=dtype), normal(d, dtype=dtype)
        y = torch.empty_like(x)

        def plain(x: Any, w: Any) -> Any:
            v = x.float()
            return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

        return {
            "anyop": lambda: OPS.rms_norm.out(x, w, out=y),
            "torch": lambda: torch.nn.functional.rms_norm(x, (d,), w, 1e-6),
            "inductor": compiled(name, plain, x, w),
        }

    return Case(name, 2 * rows * d * dtype.itemsize, make)


def silu(rows: int, d: int, dtype: Any = BF16) -> Case:
    name = f"silu_and_mul {short(dtype)}[{rows}, 2*{d}]"

    def make() -> dict[str, Call]:
        x = normal(rows, 2 * d, dtype=dtype)
        y = torch.empty(rows, d, dtype=dtype, device="cuda")

        def plain(x: Any) -> Any:
            return torch.nn.functional.silu(x[..., :d]) * x[..., d:]

        return {
            "anyop": lambda: OPS.silu_and_mul.out(x, out=y),
            "torch": lambda: plain(x),
            "inductor": compiled(name, plain, x),
        }

    return Case(name, 3 * rows * d * dtype.itemsize, make)


def rotary(t: int, hq: int = 32, hkv: int = 8, d: int = 128) -> Case:
    name = f"rotary_embedding bf16[{t}, {hq}+{hkv}, {d}]"

    def make() -> dict[str, Call]:
        q, k, table = normal(t, hq, d), normal(t, hkv, d), normal(8192, d)
        positions = torch.arange(t, device="cuda") % 8192

        def turn(x: Any, w: Any) -> Any:
            c, s = w[:, None, : d // 2], w[:, None, d // 2 :]
            a, b = x[..., : d // 2], x[..., d // 2 :]
            return torch.cat([a * c - b * s, b * c + a * s], -1)

        def plain(positions: Any, q: Any, k: Any, table: Any) -> Any:
            w = table[positions]
            return turn(q, w), turn(k, w)

        return {
            "anyop": lambda: OPS.rotary_embedding(positions, q, k, table),
            "torch": lambda: plain(positions, q, k, table),
            "inductor": compiled(name, plain, positions, q, k, table),
        }

    return Case(name, 4 * t * (hq + hkv) * d, make)


def cache(t: int, h: int = 8, d: int = 128) -> Case:
    def make() -> dict[str, Call]:
        blocks = (t + 15) // 16 + 8
        key, value = normal(t, h, d), normal(t, h, d)
        caches = [torch.zeros(blocks, 16, h, d, dtype=BF16, device="cuda") for _ in range(2)]
        slots = torch.randperm(blocks * 16, device="cuda")[:t]
        flat = [c.view(-1, h, d) for c in caches]

        def plain() -> None:
            flat[0].index_copy_(0, slots, key)
            flat[1].index_copy_(0, slots, value)

        def trusted() -> None:
            with anyop.data_checks("trusted"):
                OPS.reshape_and_cache(key, value, *caches, slots)

        return {
            "anyop": lambda: OPS.reshape_and_cache(key, value, *caches, slots),
            "anyop trusted": trusted,
            "torch": plain,
        }

    return Case(f"reshape_and_cache bf16[{t}, {h}, {d}]", 8 * t * h * d, make)


def short(dtype: Any) -> str:
    return {torch.float32: "f32", torch.float16: "f16", BF16: "bf16"}.get(dtype, str(dtype))


LARGE = [
    add(16384, 4096), add(16384, 4096, torch.float32), rms_norm(16384, 4096), rms_norm(65536, 1024),
    rms_norm(262144, 128), rms_norm(4096, 16384), rms_norm(8192, 4096, torch.float32),
    silu(8192, 14336), silu(65536, 1536), rotary(16384), cache(32768),
]  # fmt: skip
SMALL = [add(1, 4096), add(64, 4096), rms_norm(1, 4096), rms_norm(64, 4096), silu(1, 14336),
         silu(64, 14336), rotary(1), rotary(64), cache(1), cache(64)]  # fmt: skip


def elapsed_us(f: Call, calls: int) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(4_000_000)  # about 2 ms, in which the host puts all calls on the stream
    start.record()
    f()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000 / calls


def in_turns(calls: dict[str, Call], n: int, seconds: float) -> dict[str, float]:
    """Median microseconds of each; a call stands for n."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for f in calls.values():
        f()
    torch.cuda.synchronize()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 5:
        for name, f in calls.items():
            times[name].append(elapsed_us(f, n))
    return {name: statistics.median(t) for name, t in times.items()}


def copy_rate(seconds: float) -> float:
    """Bytes per microsecond, read and written, of copies of 1 GiB."""
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_(0, 256)
    y = torch.empty_like(x)
    return 2 * x.numel() / in_turns({"copy": lambda: y.copy_(x)}, 1, seconds)["copy"]


def all_of(sets: list[dict[str, Call]]) -> dict[str, Call]:
    """For each contender, its calls on every set one after the other."""

    def run(calls: list[Call]) -> Call:
        return lambda: [f() for f in calls]

    return {name: run([s[name] for s in sets]) for name in sets[0]}


def time_large(case: Case, rate: float, seconds: float, with_compiler: bool) -> None:
    """Calls one after the other, so that each pays for what the one before left in the cache."""
    n = max(2, -(-CACHE_BYTES // case.moved) + 1)
    sets = [case.make() for _ in range(n)]
    repeats = -(-CALLS_IN_A_ROW // n)
    if not with_compiler:
        sets = [{name: f for name, f in s.items() if name != "inductor"} for s in sets]
    case.times = in_turns(all_of(sets * repeats), n * repeats, seconds)
    case.shares = {name: case.moved / t / rate for name, t in case.times.items()}


def captured(f: Call, n: int) -> Call:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(n):
            f()
    return graph.replay


def time_small(case: Case, seconds: float) -> None:
    """On the card, by replays of 50 calls, and on the host, by calls that nobody waits for."""
    calls = {name: f for name, f in case.make().items() if name != "inductor"}
    for f in calls.values():
        f()
    torch.cuda.synchronize()
    case.times = in_turns({k: captured(f, 50) for k, f in calls.items()}, 50, seconds)
    for name, f in calls.items():
        rounds = []
        for _ in range(20):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(100):
                f()
            rounds.append((time.perf_counter() - begin) * 1e4)
        case.times[f"{name}, host"] = statistics.median(rounds)


def tables(cases: list[Case]) -> Iterator[str]:
    for case in cases:
        cells = []
        for name, t in case.times.items():
            share = f" {case.shares[name]:4.0%}" if name in case.shares else ""
            cells.append(f"{name} {t:.1f} us{share}")
        yield f"{case.name:38}" + " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=30, help="for all timing together")
    parser.add_argument("--match", default="", help="only cases whose names contain this")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    args = parser.parse_args()
    anyop.load(Path(anyop.__file__).parent / "anyop_cuda.so")
    large, small = ([c for c in cases if args.match in c.name] for cases in (LARGE, SMALL))
    each = args.seconds / (len(large) + len(small) + 1)
    rate = copy_rate(each)
    print(
        f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}: copies {rate / 1e6:.2f} TB/s"
    )
    for case in large:
        time_large(case, rate, each, not args.no_compile)
        print(*tables([case]), sep="\n", flush=True)
    for case in small:
        time_small(case, each)
        print(*tables([case]), sep="\n", flush=True)
    if args.json:
        rows = [{k: v for k, v in asdict(c).items() if k != "make"} for c in large + small]
        head = {"card": torch.cuda.get_device_name(0), "torch": torch.__version__,
                "copy_bytes_per_us": rate}  # fmt: skip
        args.json.write_text(json.dumps({**head, "cases": rows}, indent=1))


if __name__ == "__main__":
    main()
