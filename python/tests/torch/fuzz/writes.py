# SPDX-License-Identifier: Apache-2.0
"""Statements that write into tensors: the program's own, its arguments and views of either."""

from __future__ import annotations

import torch

from fuzz.grammar import statement
from fuzz.scope import WHOLES, Refused, Scope, joined
from fuzz.views import index


def target(s: Scope, rank: int = 0) -> str:
    """What is written, rather an argument or a view of one."""
    outer = {s[n].untyped_storage().data_ptr() for n in s.names if n[0] == "x"}
    if s.often(0.5):
        return s.pick(lambda t: t.dim() >= rank and t.untyped_storage().data_ptr() in outer)
    return s.pick(lambda t: t.dim() >= rank)


def source(s: Scope, x: str, numbers: bool = True) -> str:
    """Something that x can be written from."""
    t = s[x]
    found = s.all(lambda o: _fits(o, t))
    if numbers and (s.often(0.2) or not found):
        return str(s.one_of(0, 1, 2, -1, 3) if not t.is_floating_point() else s.one_of(0.5, -2, 1))
    if not found:
        raise Refused
    return s.choice(found)


def _fits(o: torch.Tensor, t: torch.Tensor) -> bool:
    try:
        return torch.broadcast_shapes(o.shape, t.shape) == t.shape
    except RuntimeError:
        return False


@statement(5)
def update(s: Scope) -> str:
    x = target(s)
    if s[x].dtype == torch.bool:
        return f"{x}.{s.one_of('logical_not_()', 'fill_(True)', 'zero_()', f'logical_or_({x})')}"
    name = s.one_of("add_", "mul_", "sub_", "add_", "mul_", "maximum", "copy_")
    y = source(s, x)
    if name == "copy_" and y not in s.names:
        return f"{x}.fill_({y})"
    if name == "maximum":
        return f"torch.maximum({x}, {x}, out={x})" if y not in s.names else f"{x}.copy_({y})"
    alpha = ", alpha=2" if name in ("add_", "sub_") and s.often(0.1) else ""
    return f"{x}.{name}({y}{alpha})"


@statement(3)
def update_alone(s: Scope) -> str:
    x = target(s)
    ways = [
        "zero_()",
        "neg_()",
        f"fill_({s.one_of(2, -1, 0)})",
        "abs_()",
        f"clamp_(-1, {s.one_of(1, 2)})",
        "copy_({x}.clone())",
        "relu_()",
        "square_()",
    ]
    if s[x].is_floating_point():
        ways += ["tanh_()", "sigmoid_()", "mul_(0.5)", "sub_({x}.mean())", "div_(2)", "exp_()"]
    if s[x].dim() >= 2:
        ways += ["tril_()", "triu_(1)", "t_()" if s[x].dim() == 2 else "transpose_(0, 1)"]
    if s[x].dim():
        ways += ["unsqueeze_(0)", "squeeze_(0)", "cumsum_(0)"]
    return f"{x}." + s.choice(ways).replace("{x}", x)


@statement(5)
def assign(s: Scope) -> str:
    """x[i] = y, x[i] += y."""
    x = target(s, 1)
    at = index(s, x)
    sign = s.one_of("=", "=", "+=", "*=")
    if s.often(0.6):
        found = s.all(lambda o: o.dim() <= s[x].dim())
        y = s.choice(found) if found else "1"
        if s.often(0.3) and y in s.names:
            y = f"{y}[{index(s, y)}]"
        return f"{x}[{at}] {sign} {y}"
    return f"{x}[{at}] {sign} {s.one_of(0, 1, 2)}"


@statement(3)
def assign_mask(s: Scope) -> str:
    x = target(s, 1)
    masks = s.all(
        lambda o: o.dtype == torch.bool and o.dim() > 0 and o.shape == s[x].shape[: o.dim()]
    )
    mask = s.choice(masks) if masks and s.often(0.6) else f"{x} > {s.one_of(0, 1)}"
    if s.often(0.5):
        return f"{x}[{mask}] = {s.one_of(0, 1, 2)}"
    if s.often(0.3):
        return f"{x}.masked_scatter_({mask}, {source(s, x, False)})"
    return f"{x}.masked_fill_({mask}, {s.one_of(0, 1, -1)})"


def _are_places(t: torch.Tensor, low: int, n: int) -> bool:
    return t.numel() > 0 and int(t.min()) >= low and int(t.max()) < n


def indices(s: Scope, n: int, shape: tuple[int, ...] = (), negative: bool = True) -> str:
    """A tensor of places below n: one that there is, or a new one."""
    low = -n if negative else 0
    found = s.all(
        lambda o: (
            o.dtype in (torch.int64, torch.int32)
            and _are_places(o, low, n)
            and (not shape or o.shape == shape)
        )
    )
    found = [f for f in found if all(_are_places(c[f], low, n) for c in s.calls)]
    if found and s.often(0.5):
        return s.choice(found)
    many = shape or (s.one_of(1, 2, 2, 3),)
    count = 1
    for k in many:
        count *= k
    if len(many) == 1 and count <= n and s.often(0.25):
        return f"torch.arange({count})" + (
            f" + {s.rng.randint(0, n - count)}" if s.often(0.5) else ""
        )
    rows = [s.rng.randrange(low, n) for _ in range(count)]
    made = f"torch.tensor({rows})"
    return made if len(many) == 1 else f"{made}.reshape({joined(many)})"


def fixed_dim(s: Scope, x: str) -> tuple[int, int]:
    d = s.dim(x)
    if s.varies(x, d) or not s[x].shape[d]:
        raise Refused
    return d, s[x].shape[d]


@statement(4)
def assign_places(s: Scope) -> str:
    """x[places] = y and x[:, places] = y."""
    x = target(s, 1)
    d = s.rng.randrange(s[x].dim())
    if s.varies(x, d) or not s[x].shape[d]:
        raise Refused
    at = joined([*[":"] * d, indices(s, s[x].shape[d])])
    sign = s.one_of("=", "=", "+=")
    found = s.all(lambda o: o.dim() <= s[x].dim())
    y = s.choice(found) if found and s.often(0.6) else s.one_of("1", "2", f"{x}[{at}] * 2")
    return f"{x}[{at}] {sign} {y}"


@statement(3)
def put(s: Scope) -> str:
    x = target(s, 1)
    d, n = fixed_dim(s, x)
    if d < 0:
        d += s[x].dim()
    places = indices(s, n, (s.one_of(1, 2),), s.often(0.3))
    shape = [*s.sizes(x)]
    with s.mode():
        k = eval(places, s.calls[0]).numel()
    shape[d] = str(k)
    y = (
        f"torch.ones({joined(shape)}, dtype={s[x].dtype})"
        if s.often(0.5)
        else (f"{x}.narrow({d}, 0, {k})" if k <= n else f"{x}.new_full(({joined(shape)},), 2)")
    )
    y = f"{y}.clone()" if s.often(0.3) else y
    colons = joined([*["None"] * d, places])
    how = s.one_of(
        f"index_copy_({d}, {places}, {y})",
        f"index_add_({d}, {places}, {y})",
        f"index_fill_({d}, {places}, 2)",
        f"index_put_(({places},), {y}, accumulate=True)"
        if d == 0
        else f"index_put_(({colons},), {y})",
    )
    return f"{x}.{how}"


@statement(2)
def scatter(s: Scope) -> str:
    x = target(s, 1)
    d, n = fixed_dim(s, x)
    t = s[x]
    shape = tuple(max(1, k - s.one_of(0, 0, 1)) for k in t.shape)
    if t.numel() > 24 or not s.is_static(x):
        raise Refused
    places = indices(s, n, shape, negative=False)
    y = source(s, x, numbers=False)
    how = s.one_of(
        f"scatter_({d}, {places}, {y})",
        f"scatter_add_({d}, {places}, {y})",
        f"scatter_({d}, {places}, 1)",
        f"scatter_reduce_({d}, {places}, {y}, 'amax')",
    )
    return f"{x}.{how}"


@statement(3)
def overlapping(s: Scope) -> str:
    """What is written and what it is written from share memory."""
    x = target(s, 1)
    t = s[x]
    ways = [
        f"{x}.copy_({x}.flip(0))",
        f"{x}[1:] = {x}[:-1]",
        f"{x}[:-1] += {x}[1:]",
        f"{x}[1:].copy_({x}[:-1].clone())",
        f"{x}.add_({x}[0])",
        f"{x}.copy_({x})",
    ]
    if t.dim() == 2 and t.shape[0] == t.shape[1]:
        ways += [f"{x}.copy_({x}.t())", f"{x} += {x}.t()", f"{x}.t().mul_({x})"]
    if t.dim() >= 2 and s.is_static(x):
        other = joined(reversed(t.shape))
        ways += [
            f"{x}.copy_({x}.view(-1).view({joined(t.shape)}))",
            f"{x}.view({other}).add_({x}.reshape({other}))",
            f"{x}.copy_({x}.reshape({other}).permute({joined(reversed(range(t.dim())))}))",
        ]
    return s.choice(ways)


@statement(2)
def into(s: Scope) -> str:
    """out= of torch's operators and of ours."""
    x = target(s)
    y = source(s, x, numbers=False)
    if s[x].dtype in (torch.float32, torch.bfloat16) and s[x].dim() and s.often(0.4):
        return s.one_of(
            f"torch.ops.anyop.rms_norm.out({y}, None, out={x})",
            f"torch.ops.anyop.softmax.out({y}, out={x})",
            f"torch.ops.anyop.softmax_({x})",
            f"torch.ops.anyop.rms_norm_({x})",
            f"torch.ops.anyop.sigmoid_({x})",
        )
    return s.one_of(
        f"torch.add({y}, {x}, out={x})", f"torch.mul({x}, {y}, out={x})", f"torch.neg({y}, out={x})"
    )


@statement(2)
def cache_row(s: Scope) -> str:
    """One row of a cache, at a place that is a number or a tensor."""
    x = s.pick(lambda t: t.dim() >= 2 and t.shape[0] > 1)
    if s.varies(x, 0):
        raise Refused
    n = s[x].shape[0]
    found = s.all(lambda o: o.dim() == 0 and o.dtype in WHOLES)
    at = s.choice(found) if found and s.often(0.5) else str(s.rng.randrange(-n, n))
    return f"{x}[{at}] = {x}[{s.rng.randrange(n)}] * 2"
