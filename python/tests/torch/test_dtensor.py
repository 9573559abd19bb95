# SPDX-License-Identifier: Apache-2.0
"""torch's DTensor: an operator computes on each device the rows that are there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyop
import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch is built without torch.distributed", allow_module_level=True)

from generated import contract, example, listed, operators, torch_op  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import (  # noqa: E402
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.debug import CommDebugMode  # noqa: E402


@pytest.fixture(scope="module")
def mesh() -> Iterator[Any]:
    """Four devices, of which this process is the first; the others are imagined."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "sp"))
    torch.distributed.destroy_process_group()


def test_rows_are_computed_where_they_are(mesh: Any) -> None:
    x, w = torch.randn(4, 6, 8), torch.randn(8)
    xs = distribute_tensor(x, mesh, [Shard(0), Shard(1)])
    ws = distribute_tensor(w, mesh, [Replicate(), Replicate()])
    with CommDebugMode() as talk:
        y = anyop.rms_norm(xs, ws)
        z, total = anyop.add_rms_norm(y, xs, ws)
    assert talk.get_total_counts() == 0
    for made in (y, z, total):
        assert isinstance(made, DTensor)
        assert made.placements == (Shard(0), Shard(1))
        assert made.shape == x.shape
    assert torch.equal(y.to_local(), anyop.rms_norm(x[:2, :3], w))


def test_what_must_be_whole_is_gathered(mesh: Any) -> None:
    x = distribute_tensor(torch.randn(4, 8), mesh, [Shard(0), Shard(1)])
    with CommDebugMode() as talk:
        y = anyop.softmax(x)
    assert talk.get_total_counts() == 1
    assert y.placements == (Shard(0), Replicate()) or Shard(1) not in y.placements


def test_gradients_of_what_has_no_rows_are_sums_over_them(mesh: Any) -> None:
    x, w = torch.randn(4, 6, 8), torch.randn(8)
    xs = distribute_tensor(x, mesh, [Shard(0), Shard(1)]).requires_grad_()
    ws = distribute_tensor(w, mesh, [Replicate(), Replicate()]).requires_grad_()
    anyop.rms_norm(xs, ws).sum().backward()
    assert xs.grad.placements == (Shard(0), Shard(1))
    own = [x[:2, :3].clone().requires_grad_(), w.clone().requires_grad_()]
    anyop.rms_norm(*own).sum().backward()
    torch.testing.assert_close(xs.grad.to_local(), own[0].grad)
    assert ws.grad.placements in ((Partial(), Partial()), (Replicate(), Replicate()))


def test_absent_arguments_and_words_are_no_tensors(mesh: Any) -> None:
    x = distribute_tensor(torch.randn(4, 8), mesh, [Shard(0), Replicate()])
    w = distribute_tensor(torch.randn(5, 8), mesh, [Replicate(), Replicate()])
    for activation in ("none", "silu"):
        y = anyop.linear(x, w, None, activation)
        assert y.placements == (Shard(0), Replicate())
        local = anyop.linear(x.to_local(), w.to_local(), None, activation)
        assert torch.equal(y.to_local(), local)
    assert anyop.rms_norm(x, None).placements == (Shard(0), Replicate())


@pytest.mark.parametrize("op", operators())
def test_every_operator_that_writes_nothing_takes_whole_tensors(op: str, mesh: Any) -> None:
    if any(p.get("mut") for p in contract(op)["params"]):
        pytest.skip("it writes an argument")

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(v) for v in value]
        is_tensor = isinstance(value, torch.Tensor)
        return DTensor.from_local(value, mesh, [Replicate()] * 2) if is_tensor else value

    call = example(op)
    given = [whole(v) for v in call.copy().torch_values]
    plain = listed(torch_op(op)(*call.torch_values))
    flat = [t for v in given for t in (v if isinstance(v, list) else [v])]
    if not any(isinstance(t, DTensor) for t in flat):
        pytest.skip("it takes no tensors")
    with CommDebugMode() as talk:
        made = listed(torch_op(op)(*given))
    assert talk.get_total_counts() == 0
    for ours, one in zip(made, plain, strict=True):
        if one is None:
            assert ours is None
        else:
            assert ours.placements == (Replicate(), Replicate())
            torch.testing.assert_close(ours.to_local(), one, rtol=0, atol=0, equal_nan=True)


TWO = """
import os, sys, torch, anyop
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
x, w = torch.randn(5, 8), torch.randn(8)
xs = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
ws = distribute_tensor(w, mesh, [Replicate()]).requires_grad_()
ours = anyop.rms_norm(xs, ws)
(ours * ours).sum().backward()
x.requires_grad_(), w.requires_grad_()
y = anyop.rms_norm(x, w)
(y * y).sum().backward()
torch.testing.assert_close(ours.full_tensor(), y)
torch.testing.assert_close(xs.grad.full_tensor(), x.grad)
torch.testing.assert_close(ws.grad.full_tensor(), w.grad)
parts = distribute_tensor(x.detach(), mesh, [Shard(1)])
torch.testing.assert_close(anyop.softmax(parts).full_tensor(), anyop.softmax(x.detach()))
dist.destroy_process_group()
print("equal")
"""


@pytest.mark.slow
def test_two_processes_compute_what_one_does(tmp_path: Any) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", TWO, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ},
        )
        for rank in range(2)
    ]  # fmt: skip
    for process in both:
        out, err = process.communicate(timeout=120)
        assert out == "equal\n", err
