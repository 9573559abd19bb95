# SPDX-License-Identifier: Apache-2.0
"""Calls on torch's streams, in its graphs and its compiler; errors that come late."""

from __future__ import annotations

import threading
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
from card import ON_CARD, library, quiet  # noqa: E402, F401

pytestmark = ON_CARD
OPS = torch.ops.anyop


def card(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype or torch.bfloat16)


def test_calls_go_to_the_current_stream() -> None:
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for n in range(10):
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(n)
            y = anyop.add(x, x)
            z = OPS.add(y, x)
        side.synchronize()
        assert z.eq(3 * n).all(), n


def test_two_threads_on_two_streams_do_not_meet() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for n in range(200):
                x = torch.full((257, 64), float(seed + n), device="cuda")
                y = anyop.add(anyop.add(x, x), x)
                if not y.eq(3.0 * (seed + n)).all():
                    failures.append(f"{seed} {n}")

    threads = [threading.Thread(target=work, args=(s,)) for s in (1000, 5000, 9000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def cache_call(bad: int | None = None, tokens: int = 8) -> tuple[Any, ...]:
    slots = torch.arange(tokens, device="cuda")
    if bad is not None:
        slots[3] = bad
    cache = torch.zeros(4, 16, 2, 64, dtype=torch.bfloat16, device="cuda")
    key = torch.ones(tokens, 2, 64, dtype=torch.bfloat16, device="cuda")
    return key, None, cache, None, slots


LATE = (
    r"^reshape_and_cache: slot_mapping\[3\] is 70000, but must be less than 64 \(nb\*bs.*\)\. "
    r"This is of earlier work on cuda:0, whose results are not to be used\.$"
)


def test_an_index_out_of_range_is_told_late_and_once_and_nothing_is_written() -> None:
    call = cache_call(70000)
    anyop.reshape_and_cache(*call)
    with pytest.raises(anyop.InvalidArgument, match=LATE):
        anyop.synchronize("cuda:0")
    assert call[2].eq(0).all()
    good = cache_call()
    anyop.reshape_and_cache(*good)
    anyop.synchronize("cuda:0")
    assert good[2].sum() == 8 * 2 * 64


def test_the_next_call_on_the_stream_tells_it() -> None:
    OPS.reshape_and_cache(*cache_call(70000))
    torch.cuda.synchronize()
    x = card(4, 8)
    with pytest.raises(ValueError, match=LATE):
        OPS.add(x, x)
    assert torch.equal(OPS.add(x, x), x + x)


def test_a_call_on_another_stream_is_not_told() -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        anyop.reshape_and_cache(*cache_call(70000))
    torch.cuda.synchronize()
    x = card(4, 8)
    assert torch.equal(anyop.add(x, x), x + x)
    with torch.cuda.stream(side), pytest.raises(ValueError, match=LATE):
        anyop.add(x, x)


def test_strict_tells_it_at_once() -> None:
    with pytest.raises(ValueError, match=r"slot_mapping\[3\] is 70000"), anyop.strict():
        anyop.reshape_and_cache(*cache_call(70000))


def test_positions_out_of_range_are_told_and_nothing_is_rotated() -> None:
    q = torch.ones(4, 2, 64, device="cuda")
    table = torch.ones(10, 64, device="cuda")
    positions = torch.tensor([0, 1, 10, 3], device="cuda")
    anyop.rotary_embedding(positions, q, None, table)
    with pytest.raises(
        anyop.InvalidArgument,
        match=r"rotary_embedding: positions\[2\] is 10, but must be less than 10 \(p\)\.",
    ):
        anyop.synchronize("cuda:0")
    assert q.eq(1).all()


def test_calls_are_captured_into_a_graph_and_replayed() -> None:
    x, y, w = card(64, 512), card(64, 512), card(512)
    cache_args = cache_call()
    q, table = card(8, 4, 64), card(64, 64)
    positions = torch.arange(8, device="cuda")

    def step() -> Any:
        s = anyop.add(x, y)
        n = OPS.rms_norm(s, w)
        anyop.reshape_and_cache(*cache_args)
        anyop.rotary_embedding(positions, q, None, table)
        return OPS.silu_and_mul(n)

    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        step()
    torch.cuda.current_stream().wait_stream(warm)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    for seed in range(5):
        torch.manual_seed(seed)
        x.copy_(card(64, 512))
        y.copy_(card(64, 512))
        cache_args[2].zero_()
        graph.replay()
        expected = anyop.silu_and_mul(anyop.rms_norm(anyop.add(x, y), w))
        assert torch.equal(result, expected)
        assert cache_args[2].sum() == 8 * 2 * 64


def test_a_first_call_may_be_captured() -> None:
    x = card(3, 24, dtype=torch.int32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = anyop.add(x, x)
    x.fill_(21)
    graph.replay()
    assert y.eq(42).all()


def test_a_captured_check_tells_each_replay_that_fails() -> None:
    call = cache_call()
    anyop.reshape_and_cache(*call)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        anyop.reshape_and_cache(*call)
    for bad in (70000, None, 70000, None):
        call[4].copy_(torch.arange(8, device="cuda"))
        if bad is not None:
            call[4][3] = bad
        call[2].zero_()
        graph.replay()
        torch.cuda.synchronize()
        if bad is None:
            anyop.synchronize("cuda:0")
            assert call[2].sum() == 8 * 2 * 64
        else:
            with pytest.raises(anyop.InvalidArgument, match=LATE):
                anyop.synchronize("cuda:0")
            assert call[2].eq(0).all()


def test_inductor_calls_an_operator_as_one_node() -> None:
    from torch._inductor.utils import run_and_get_code

    x, w = card(64, 512), card(512)

    def f(x: Any, w: Any) -> Any:
        return OPS.rms_norm(x * 2, w) + 1

    result, code = run_and_get_code(torch.compile(f, fullgraph=True), x, w)
    assert torch.equal(result, OPS.rms_norm(x * 2, w) + 1)
    assert "\n".join(code).count("torch.ops.anyop.rms_norm") >= 1


def test_gradients_have_no_kernel_on_the_card_and_say_so() -> None:
    x = card(4, 64).requires_grad_()
    w = card(64).requires_grad_()
    y = OPS.rms_norm(x, w)
    with pytest.raises(NotImplementedError, match="(?s)rms_norm_backward.*for device cpu"):
        y.sum().backward()


def test_what_has_no_kernel_on_the_card_runs_on_the_cpu_where_that_is_allowed() -> None:
    x, w, dy = card(4, 64), card(64), card(4, 64)
    with anyop.fallback("cpu"):
        dx, dw = OPS.rms_norm_backward(dy, x, w, 1e-6, 0.0)
    assert dx.is_cuda and dw.is_cuda
    expected = OPS.rms_norm_backward(dy.cpu(), x.cpu(), w.cpu(), 1e-6, 0.0)
    assert torch.equal(dx.cpu(), expected[0]) and torch.equal(dw.cpu(), expected[1])


def test_two_devices_in_one_call_are_refused_by_name() -> None:
    x = card(4, 8)
    with pytest.raises(ValueError, match="cuda:0.*cpu|cpu.*cuda:0"):
        OPS.add(x, x.cpu())


def test_opcheck() -> None:
    torch.library.opcheck(OPS.add.default, (card(4, 8), card(4, 8)))
    torch.library.opcheck(OPS.silu_and_mul.default, (card(4, 16),))
    torch.library.opcheck(OPS.rms_norm.default, (card(4, 8), card(8)))


def test_the_card_is_listed() -> None:
    (first, *_) = anyop.devices()
    assert first.device == "cuda:0"
    assert first.model == torch.cuda.get_device_name(0)
    assert first.cores == torch.cuda.get_device_properties(0).multi_processor_count
    major, minor = torch.cuda.get_device_capability(0)
    assert first.features.split(",")[0] == f"sm_{major}{minor}"
    assert "sm_80" in first.features.split(",")
