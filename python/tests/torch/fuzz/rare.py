# SPDX-License-Identifier: Apache-2.0
"""Statements of other kinds: sizes as numbers, memory formats, contexts, data-dependent sizes."""

from __future__ import annotations

import torch

from fuzz.grammar import STATEMENTS, statement
from fuzz.scope import Refused, Scope, joined


@statement(3)
def sized(s: Scope) -> str:
    """Computes with sizes."""
    x = s.pick(lambda t: t.dim() >= 1)
    n, m = (f"{x}.shape[{s.dim(x)}]" for _ in range(2))
    y = s.pick(lambda t: t.dim() >= 1)
    return f"{s.new()} = " + s.one_of(
        f"{x} * {n}",
        f"{x}.sum() / {x}.numel()",
        f"torch.arange({n} + {m})",
        f"{x} + {n} * 0.5",
        f"{y}.new_zeros({n}, {m})",
        f"torch.arange({n}, {n} * 2)",
        f"{y}[: {n}]",
        f"{y}[{n} // 2 :]",
        f"{x} * ({n} ** -0.5)",
        f"torch.arange({n}) % {m}",
        f"{y}[-{n} :]",
        f"{x} / {n}",
        f"torch.ones({n}).cumsum(0) - 1",
        f"{x} * min({n}, {m})",
        f"torch.full(({n},), {m})",
    )


@statement(1.5)
def formats(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() == 4)
    return f"{s.new()} = " + s.one_of(
        f"{x}.contiguous(memory_format=torch.channels_last)",
        f"{x}.clone(memory_format=torch.contiguous_format)",
        f"torch.empty_like({x}, memory_format=torch.contiguous_format).copy_({x})",
        f"{x}.to(torch.float32, memory_format=torch.channels_last)",
        f"{x}.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)",
    )


@statement(2)
def convolution(s: Scope) -> str:
    x = s.pick_float(
        3,
        lambda t: (
            t.dim() <= 4 and t.dtype == torch.float32 and t.shape[-1] >= 2 and t.shape[-2] >= 2
        ),
    )
    d = s[x].dim() - 2
    channels = s.size(x, 1)
    ones = joined(["1"] * (d - 1) + ["2"])
    return f"{s.new()} = " + s.one_of(
        f"F.conv{d}d({x}, torch.ones(3, {channels}, {ones}), padding={s.one_of(0, 1)})",
        f"F.conv{d}d({x}, torch.ones({channels}, 1, {ones}), groups={channels})",
        f"F.max_pool{d}d({x}, {s.one_of(1, 2)})",
        f"F.avg_pool{d}d({x}, 2)",
        f"F.interpolate({x}, scale_factor=2)",
        f"F.group_norm({x}, 1)",
    )


@statement(1.5)
def sums_of_products(s: Scope) -> str:
    x = s.pick_float(2, lambda t: t.dim() <= 3)
    other = s.choice(s.all(lambda o: o.dtype == s[x].dtype and o.shape == s[x].shape))
    form = (
        "ij,ij->i ij,kj->ik ij,ij-> ij,ik->jk"
        if s[x].dim() == 2
        else ("bij,bij->b bij,bkj->bik bij,bij->ij bij,bik->bjk bij,bkj->kbi")
    )
    return f"{s.new()} = torch.einsum('{s.choice(form.split())}', {x}, {other})"


@statement(1.5)
def complex_numbers(s: Scope) -> str:
    x = s.pick_float(1, lambda t: t.dtype == torch.float32 and t.shape[-1] % 2 == 0)
    y = s.new()
    return (
        f"{y} = torch.view_as_complex({x}.reshape({x}.shape[:-1] + (-1, 2)))\n"
        f"{y} = torch.view_as_real({y} * {s.one_of('1j', '2.0', y + '.conj()', y)})"
        f"{s.one_of('.flatten(-2)', '')}"
    )


@statement(0.5)
def by_data(s: Scope) -> str:
    """Sizes and branches that only values tell: graphs break here."""
    x = s.pick(lambda t: t.numel() > 0)
    return f"{s.new()} = " + s.one_of(
        f"{x}[{x} > 0]",
        f"{x}.nonzero()",
        f"{x} * {x}.sum().item()",
        f"{x}.unique()",
        f"{x} * int({x}.numel() > 2)",
        f"{x} + 1 if {x}.sum() > 0 else {x} * 2",
    )


def _simple(s: Scope) -> str:
    names = ("binary", "product", "reduce", "unary", "attention", "rms_norm", "update", "cast")
    return STATEMENTS[s.choice(names)][1](s)


@statement(1.5)
def within(s: Scope) -> str:
    """Statements in another context."""
    context = s.one_of(
        "torch.autocast('cpu', dtype=torch.bfloat16)",
        "torch.no_grad()",
        "torch.autocast('cpu', dtype=torch.float16)",
        "torch.enable_grad()",
    )
    lines = _simple(s).replace("\n", "\n    ")
    return f"with {context}:\n    {lines}"


@statement(1)
def loop(s: Scope) -> str:
    """The same a few times, each on what the last made."""
    x = s.pick_float(1)
    y = s.new()
    step = s.one_of(
        f"{y} = {y} * 0.5 + {x}",
        f"{y} = torch.softmax({y}, -1)",
        f"{y} = {y} + {y}.mean()",
        f"{y} = {y}.clone()\n    {y}[..., i] = i",
        f"{y} = F.silu({y}) * {x}",
        f"{y} = torch.cat([{y}, {x}], -1)",
    )
    if s[x].shape[-1] < 2:
        raise Refused
    return f"{y} = {x}\nfor i in range(2):\n    {step}"
