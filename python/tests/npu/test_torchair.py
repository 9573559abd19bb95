# SPDX-License-Identifier: Apache-2.0
"""Graphs that torchair makes: what they compute is what eager calls compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu

torchair = pytest.importorskip("torchair")
Made = Callable[..., Any]
CASES: dict[str, Made] = {
    "elements": lambda x, w, i: (x * 2 - w).exp().sigmoid() / 3 + x.abs().sqrt() - x.neg().tanh(),
    "activations": lambda x, w, i: (
        F.relu(x), F.gelu(x), F.silu(x), F.leaky_relu(x, 0.1), F.elu(x), F.hardswish(x), F.mish(x),
        F.glu(x), x.clamp(-0.5, 0.5),
    ),
    "functions": lambda x, w, i: (
        torch.rsqrt(x.abs() + 1), x.square(), x.pow(3), torch.log(x.abs() + 1), x.sin(), x.cos(),
        torch.erf(x), x.reciprocal(), x.floor(), x.ceil(), x.round(), x.sign(), torch.maximum(x, w),
        torch.minimum(x, w), torch.remainder(x, 0.7), i // 2, i % 2, i & i.flip(0),
    ),
    "products": lambda x, w, i: (
        x @ x[0].t(), torch.bmm(x, x.transpose(1, 2)), torch.addmm(w[:2], x[0], x[1].t()),
        F.linear(x, x[0], w[:2]),
    ),
    "softmax": lambda x, w, i: (x.softmax(-1), torch.log_softmax(x, 1), x.half().softmax(0)),
    "layer_norm": lambda x, w, i: F.layer_norm(x, (8,), w, w),
    "rms_norm": lambda x, w, i: F.rms_norm(x, (8,), w),
    "npu_rms_norm": lambda x, w, i: torch_npu.npu_rms_norm(x, w)[0] + x,
    "shapes": lambda x, w, i: (
        x.reshape(4, 8).t().contiguous()[1:7:2], x.unsqueeze(0).squeeze(0).permute(2, 0, 1) + 1,
        x.flatten() * 2, w.view(1, 1, 8).expand(2, 2, 8) + x, x.repeat(1, 2, 1), x.flip(1),
        x[:, -1] + 1, x[0, 1:, :-2] + 1,
        x[:, :1].expand(-1, 3, -1) + 1,
    ),
    "joins": lambda x, w, i: (
        torch.cat([x, x + 1], 1), torch.stack([x, x], 0), [t + 1 for t in x.split(1, 1)],
        [t + 1 for t in x.chunk(2, -1)], [t + 1 for t in x.unbind(0)],
    ),
    "choices": lambda x, w, i: (
        x[..., i], torch.index_select(x, 2, i), F.embedding(i, x[0].t()),
        torch.gather(x, 2, i.view(1, 1, 3).expand(2, 2, 3)), x.topk(3), x.sort(-1),
        x[:, i - 1 - i] + 1,
    ),
    "reductions": lambda x, w, i: (
        x.sum(-1), x.sum(), x.mean((0, 1)), x.max(-1),
        x.argmax(-1), (x > 0).all(), (x > 9).any(), x.cumsum(1), i.sum(),
    ),
    "where": lambda x, w, i: (
        torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, -1.0), x == w, (x != 0) & (x < 1),
        ~(x > 0), (x >= 0) | (x <= 1),
    ),
    "casts": lambda x, w, i: (x.half(), x.to(torch.int32), x.bool(), i.float(), x.bfloat16() + 1),
    "new": lambda x, w, i: (
        torch.zeros(2, 3, device=x.device) + x.sum(), torch.ones_like(x) * x,
        torch.arange(5, device=x.device) + i[0], torch.full((2,), 3.0, device=x.device), x.tril(),
        x.triu(1), F.one_hot(i, 8), F.pad(x, (1, 2), value=3.0),
    ),
    "constants": lambda x, w, i: x * torch.tensor([[1.0], [2.0]]).to(x.device) + 1,
    "scatter": lambda x, w, i: (
        torch.zeros(9, 8, device=x.device).scatter_add(
            0, i.view(3, 1).expand(3, 8), x[[0, 1, 0], 0]
        ),
        torch.zeros(3, 9, device=x.device).scatter(1, i.view(3, 1), 1.0),
    ),
    "convolution": lambda x, w, i: F.conv2d(x[None], x[:, :, :2].unsqueeze(0), padding=1),
}  # fmt: skip


def values(device: str = "npu") -> tuple[torch.Tensor, ...]:
    made = torch.Generator().manual_seed(0)
    x, w = (torch.randn(*sizes, generator=made) for sizes in ((2, 2, 8), (8,)))
    return x.to(device), w.to(device), torch.tensor([0, 7, 3]).to(device)


def flat(results: Any) -> list[torch.Tensor]:
    if isinstance(results, torch.Tensor):
        return [results]
    return [tensor for part in results for tensor in flat(part)]


def compiled(function: Made, **options: Any) -> Made:
    torch._dynamo.reset()
    made: Made = torch.compile(
        function, backend=torchair.get_npu_backend(), fullgraph=True, **options
    )
    return made


def compare(got: Any, want: Any) -> None:
    assert len(flat(got)) == len(flat(want))
    for a, b in zip(flat(got), flat(want), strict=True):
        assert a.device.type == "npu"
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_graph_computes_what_eager_calls_do(name: str) -> None:
    given = values()
    if name == "npu_rms_norm":  # an operator of CANN's, which eager calls may not have
        want = F.rms_norm(given[0].cpu(), (8,), given[1].cpu(), 1e-6) + given[0].cpu()
    else:
        want = CASES[name](*values("cpu"))
    make = compiled(CASES[name])
    compare(make(*given), want)
    compare(make(*given), want)  # once more, with the compiled graph


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.all, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.all(self.norm(x)).view(batch, length, 3, 4, width // 4)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.ones(length, length, device=x.device).tril() == 0
        scores = (q @ k.transpose(-1, -2) / 2).masked_fill(mask, -1e4)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return x + self.out(mixed)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_an_attention_block(dynamic: bool) -> None:
    torch.manual_seed(0)
    block = Attention().eval()
    here = {n: torch.randn(2, n, 16) for n in (5, 7, 3)}
    with torch.no_grad():
        want = {n: block(x) for n, x in here.items()}
        make = compiled(block.npu(), dynamic=dynamic)
        for n, x in here.items():
            compare(make(x.npu()), want[n])


def test_writes_to_an_argument() -> None:
    x, w, _ = values()
    want = x.cpu() + 1

    def write(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * w

    got = compiled(write)(x, w)
    compare(x, want)
    compare(got, want * w.cpu())


def test_results_do_not_share_memory_with_arguments() -> None:
    x, *_ = values()
    first, second = compiled(lambda x: (x.reshape(4, 8).clone(), x + 0))(x)
    x.zero_()
    assert first.cpu().any() and second.cpu().any()


def test_an_operator_that_is_not_there_is_refused_by_name() -> None:
    from torchair.ge._ge_graph import GeGraph

    made = GeGraph(name="foreign")
    for name, kind in (("a", "HcomAllGather"), ("b", "AnotherOfMine")):
        op = made.op.add()
        op.name, op.type = name, kind
    with pytest.raises(NotImplementedError) as error:
        made._executor.load(made, {})
    assert str(error.value) == (
        "torchair: the graph foreign has the operators AnotherOfMine, HcomAllGather of the engine, "
        'which the virtual NPU does not have. Try torch.compile(backend="aot_eager"), which runs '
        "any graph."
    )


def test_a_form_that_is_not_there_is_refused_by_name() -> None:
    from torchair.ge._ge_graph import GeGraph

    made = GeGraph(name="mirrored")
    op = made.op.add()
    op.name, op.type = "Pad_1", "PadV3"
    op.attr["mode"].s = b"reflect"
    with pytest.raises(NotImplementedError) as error:
        made._executor.load(made, {})
    assert str(error.value) == (
        "torchair: the graph mirrored has the operator PadV3 of the engine (Pad_1) with mode "
        "'reflect', but the virtual NPU has it with 'constant' alone. "
        'Try torch.compile(backend="aot_eager"), which runs any graph.'
    )
