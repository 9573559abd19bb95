# SPDX-License-Identifier: Apache-2.0
"""Programs of torch_npu: what they compute, and the order in which they do it."""

from __future__ import annotations

import copy
from typing import Any

import anyop
import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch.utils.checkpoint import checkpoint


def trained(device: str) -> list[float]:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(16, 4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    data = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(5):
        x = torch.randn(32, 8, generator=data).to(device)
        y = torch.randint(0, 4, (32,), generator=data).to(device)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_trained_model_is_that_of_the_cpu() -> None:
    losses = trained("npu")
    assert losses == trained("cpu")
    assert losses[-1] < losses[0]


def test_convolution_and_its_gradients() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 8, 8)
    want = layer(x)
    want.square().sum().backward()
    gradient = layer.weight.grad
    there = torch.nn.Conv2d(3, 4, 3)
    there.load_state_dict(layer.state_dict())
    there = there.to("npu")
    got = there(x.npu())
    got.square().sum().backward()
    assert torch.equal(got.cpu(), want)
    assert torch.equal(there.weight.grad.cpu(), gradient)


def test_operators_do_not_wait() -> None:
    in_order, at_once = torch.ops.anyop_npu.boxed_counts()
    x = torch.ones(8, device="npu")
    y = (x * 2 + 1).softmax(0)
    assert torch.ops.anyop_npu.boxed_counts()[0] >= in_order + 3
    assert torch.ops.anyop_npu.boxed_counts()[1] == at_once
    torch.nonzero(y)  # its shape is known when it has run
    assert torch.ops.anyop_npu.boxed_counts()[1] == at_once + 1


def test_views_and_writes_to_them() -> None:
    x = torch.zeros(4, 4, device="npu")
    x[:, 1] = 5
    x[0] += 1
    x.t()[3].copy_(torch.arange(4.0))
    want = torch.zeros(4, 4)
    want[:, 1] = 5
    want[0] += 1
    want.t()[3].copy_(torch.arange(4.0))
    assert torch.equal(x.cpu(), want)
    assert torch.equal(x.t().contiguous().cpu(), want.t())
    assert torch.equal(x[x > 1].cpu(), want[want > 1])


def test_conjugates_and_batch_norm() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(x.npu().conj().cpu(), x.conj())
    assert torch.equal(x.npu().conj().clone().cpu().resolve_conj(), x.conj().resolve_conj())
    assert torch.equal(torch.fft.ihfft(x.real.npu()).cpu(), torch.fft.ihfft(x.real))
    y = torch.randn(2, 3, 4)
    numbers = [torch.rand(3) for _ in range(2)]
    there = F.batch_norm(y.npu(), *(n.npu() for n in numbers))
    assert torch.equal(there.cpu(), F.batch_norm(y, *numbers))


def test_streams_and_events() -> None:
    stream = torch.npu.Stream()
    first, last = (torch.npu.Event(enable_timing=True) for _ in range(2))
    x = torch.arange(1000.0, device="npu")
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        first.record()
        y = x
        for _ in range(20):
            y = y + 1
        last.record()
    torch.npu.current_stream().wait_event(last)
    assert torch.equal((y * 2).cpu(), torch.arange(1000.0) * 2 + 40)
    last.synchronize()
    assert last.query() and first.elapsed_time(last) > 0


def test_random_numbers_follow_the_generator() -> None:
    torch.npu.manual_seed(3)
    first = torch.randn(1000, device="npu")
    state = torch.npu.get_rng_state()
    second = torch.randn(1000, device="npu")
    assert not torch.equal(first.cpu(), second.cpu())
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(1000, device="npu").cpu(), second.cpu())
    torch.npu.manual_seed(3)
    assert torch.equal(torch.randn(1000, device="npu").cpu(), first.cpu())
    assert abs(first.mean().item()) < 0.2 and 0.8 < first.std().item() < 1.2


def test_late_error_is_told_once_and_by_name() -> None:
    table, index = torch.zeros(4, 2, device="npu"), torch.tensor([9], device="npu")
    F.embedding(index, table)
    with pytest.raises(RuntimeError, match="virtual NPU: aten::embedding: index out of range"):
        torch.npu.synchronize()
    assert (torch.ones(2, device="npu") + 1).tolist() == [2.0, 2.0]


def test_memory_that_there_is_not() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 37.25 GiB"):
        torch.empty(10**10, device="npu")


def test_what_is_not_there_says_so() -> None:
    x = torch.ones(2, 4, device="npu")
    with pytest.raises(RuntimeError, match="virtual NPU: aclnnFFNV2 is not supported"):
        torch_npu.npu_ffn(x, x.t().contiguous(), x, "gelu")
    assert (x + 1).sum().item() == 16


def test_devices() -> None:
    assert torch.npu.device_count() == 2 and torch.npu.get_device_name(1) == "Ascend910B3"
    x = torch.arange(4.0, device="npu:1")
    assert (x + 1).device == torch.device("npu:1")
    assert torch.equal(x.to("npu:0").cpu(), torch.arange(4.0))
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(4, device="npu:0")


def test_operators_of_anyop() -> None:
    x, weight = torch.randn(3, 8), torch.randn(8)
    want = anyop.rms_norm(x, weight)
    there = x.npu().requires_grad_()
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        got = anyop.rms_norm(there * 1, weight.npu())
        got.sum().backward()
    stream.synchronize()
    assert got.device.type == "npu"
    assert torch.allclose(got.detach().cpu(), want)
    here = x.clone().requires_grad_()
    anyop.rms_norm(here, weight).sum().backward()
    assert here.grad is not None and there.grad is not None
    assert torch.allclose(there.grad.cpu(), here.grad, atol=1e-6)


def test_operators_of_anyop_have_kernels_of_the_device() -> None:
    """torch_npu has a fallback, which copies to the host and waits."""
    names = ("anyop::rms_norm", "anyop::rms_norm_backward", "anyop::linear")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    assert [name for name in names if not has(name, "PrivateUse1")] == []


def test_dropout_draws_from_the_devices_generator() -> None:
    """In the order of calls, whatever the host draws meanwhile: a checkpoint repeats its mask."""
    dropout, x = torch.nn.Dropout(0.5), torch.ones(1000, device="npu", requires_grad=True)
    torch.npu.manual_seed(3)
    hosts = torch.get_rng_state()
    first = dropout(x)
    torch.rand(5)
    torch.npu.manual_seed(3)
    assert first.equal(dropout(x)) and 400 < int((first > 0).sum()) < 600
    torch.set_rng_state(hosts)
    y = checkpoint(lambda t: dropout(t) * t, x, use_reentrant=True)
    y.sum().backward()
    assert x.grad is not None and (x.grad > 0).equal(y > 0)
    assert hosts.equal(torch.get_rng_state())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_networks(kind: Any, dtype: torch.dtype) -> None:
    here = kind(8, 6, 2, batch_first=True, bidirectional=True)
    there, x = copy.deepcopy(here).to("npu", dtype), torch.randn(2, 5, 8)
    results = []
    for module, y in ((here, x), (there, x.to("npu", dtype))):
        module(y)[0].square().sum().backward()
        grads = [p.grad.cpu().float() for p in module.parameters()]
        results.append([module(y)[0].cpu().float(), *grads])
    tolerance = 1e-5 if dtype == torch.float32 else 0.1
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)


def test_packed_sequences() -> None:
    module, x = torch.nn.GRU(3, 4), torch.randn(5, 2, 3)
    lengths = torch.tensor([5, 2])
    there = copy.deepcopy(module).to("npu")
    results = []
    for gru, y in ((module, x), (there, x.to("npu"))):
        packed = torch.nn.utils.rnn.pack_padded_sequence(y, lengths)
        results.append(torch.nn.utils.rnn.pad_packed_sequence(gru(packed)[0])[0].cpu())
    torch.testing.assert_close(*results)
