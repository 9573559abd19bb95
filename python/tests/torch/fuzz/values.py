# SPDX-License-Identifier: Apache-2.0
"""Statements that compute: elementwise, reductions, products, choices, casts."""

from __future__ import annotations

import torch

from fuzz.grammar import statement
from fuzz.scope import FLOATS, WHOLES, Refused, Scope, joined
from fuzz.writes import fixed_dim, indices

_UNARY = """
    neg abs exp tanh sigmoid cos sin relu square sign floor round erf log1p isnan reciprocal sqrt
    rsqrt trunc isfinite logical_not
""".split()  # noqa: SIM905


def broadcastable(s: Scope, x: str) -> str:
    """Another tensor that x can be computed with."""

    def fits(o: torch.Tensor) -> bool:
        try:
            return len(torch.broadcast_shapes(o.shape, s[x].shape)) <= 5
        except RuntimeError:
            return False

    return s.choice(s.all(fits))


@statement(9)
def binary(s: Scope) -> str:
    x = s.pick()
    y = (
        broadcastable(s, x)
        if s.often(0.75)
        else s.one_of(2, 1.0, 0.5, -1, 3, 1, 0.3, "1e-6", True, *s.numbers, *s.numbers)
    )
    if y in s.names and s.often(0.3):
        x, y = y, x
    sign = s.one_of("+", "*", "-", "+", "*", "-", "/", "+", "*", "//", "%")
    if s.often(0.08):
        return f"{s.new()} = torch.{s.one_of('add', 'sub')}({x}, {y}, alpha={s.one_of(2, 3)})"
    if y not in s.names and s.often(0.3):
        return f"{s.new()} = {y} {sign} {x}"
    return f"{s.new()} = {x} {sign} {y}"


@statement(3)
def alike(s: Scope) -> str:
    """What changes no value: it must be a tensor of its own all the same."""
    x = s.pick()
    return f"{s.new()} = {x} {s.one_of('* 1.0', '* 1', '+ 0', '- 0', '/ 1', '+ 0.0', '** 1')}"


@statement(5)
def unary(s: Scope) -> str:
    x = s.pick()
    if s.often(0.35):
        act = s.one_of(
            "silu", "gelu", "relu", "softplus", "leaky_relu", "hardtanh", "elu", "logsigmoid"
        )
        kind = ", approximate='tanh'" if act == "gelu" and s.often(0.5) else ""
        return f"{s.new()} = F.{act}({x}{kind})"
    if s.often(0.2):
        return f"{s.new()} = {x}.pow({s.one_of(2, 3, 0.5, 1, 0)})"
    return f"{s.new()} = {x}.{s.choice(_UNARY)}()"


@statement(4)
def compare(s: Scope) -> str:
    x = s.pick()
    y = broadcastable(s, x) if s.often(0.6) else s.one_of(0, 1, 0.5)
    sign = s.one_of(">", "<=", "==", "!=", ">=", "<")
    if s[x].dtype == torch.bool and s.often(0.6):
        other = y if y in s.names else x
        return f"{s.new()} = {s.one_of('~', '')}{x} {s.one_of('&', '|', '^')} {other}"
    return f"{s.new()} = {x} {sign} {y}"


@statement(3)
def where(s: Scope) -> str:
    x = s.pick()
    mask = f"{x} > {s.one_of(0, 1)}"
    masks = s.all(lambda o: o.dtype == torch.bool)
    if masks and s.often(0.6):
        mask = s.choice(masks)
    y = broadcastable(s, x) if s.often(0.5) else s.one_of(0, 1, "float('-inf')")
    ways = [f"torch.where({mask}, {x}, {y})", f"{x}.masked_fill({mask}, {s.one_of(0, 1)})"]
    if y in s.names:
        ways += [
            f"torch.maximum({x}, {y})",
            f"torch.minimum({x}, {y})",
            f"torch.lerp({x}, {y}, 0.5)",
            f"torch.addcmul({x}, {x}, {y})",
        ]
    return f"{s.new()} = {s.choice(ways)}"


@statement(4)
def cast(s: Scope) -> str:
    x = s.pick()
    to = s.choice([*FLOATS, *FLOATS, *WHOLES, torch.bool])
    copy = ", copy=True" if s.often(0.1) else ""
    way = s.one_of(
        f"to({to}{copy})",
        f"to({to}{copy})",
        f"type_as({s.pick()})",
        "float()",
        "clone()",
        "contiguous()",
    )
    return f"{s.new()} = {x}.{way}"


@statement(6)
def reduce(s: Scope) -> str:
    x = s.pick(lambda t: t.numel() > 0)
    name = s.one_of(
        "sum",
        "mean",
        "amax",
        "amin",
        "sum",
        "mean",
        "any",
        "all",
        "argmax",
        "argmin",
        "var",
        "prod",
        "logsumexp",
        "norm",
        "std",
        "max",
        "min",
    )
    if name in ("max", "min"):
        part = s.one_of("values", "indices")
        return f"{s.new()} = {x}.{name}({s.dim(x)}, keepdim={s.often(0.5)}).{part}"
    given: list[str] = []
    if s.often(0.8) or name in ("logsumexp",):
        d = str(s.dim(x))
        if s.often(0.2) and name in ("sum", "mean", "amax") and s[x].dim() > 1:
            d = str(tuple(s.rng.sample(range(s[x].dim()), 2)))
        given = [f"dim={d}", f"keepdim={s.often(0.6)}"]
    if name in ("sum", "mean", "prod") and s.often(0.25):
        given.append(f"dtype={s.choice(FLOATS)}")
    return f"{s.new()} = {x}.{name}({joined(given)})"


@statement(4)
def along(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1 and t.numel() > 0)
    d = s.dim(x) if s.often(0.5) else -1
    if s[x].is_floating_point() and s.often(0.6):
        dtype = f", dtype={s.choice(FLOATS)}" if s.often(0.2) else ""
        how = s.one_of("torch.softmax", "torch.softmax", "F.log_softmax")
        return f"{s.new()} = {how}({x}, {d}{dtype})"
    return f"{s.new()} = {x}.{s.one_of('cumsum', 'cumprod', 'cumsum')}({d})"


@statement(3)
def order(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1 and t.numel() > 0)
    d = s.dim(x)
    k = s.rng.randint(0, min(s[x].shape[d], 3)) if not s.varies(x, d) else 1
    how = s.one_of(
        f"topk({k}, {d})",
        f"topk({k}, {d}, largest=False)",
        f"sort({d}, stable=True)",
        f"sort({d}, descending=True, stable=True)",
        f"cummax({d})",
        f"topk({k})",
    )
    if s.often(0.5):
        return f"{s.new()}, {s.new()} = {x}.{how}"
    return f"{s.new()} = {x}.{how}[{s.one_of(0, 1)}]"


@statement(2)
def nans(s: Scope) -> str:
    x = s.pick_float(1)
    return f"{s.new()} = {x} * torch.where({x} > 1, float('{s.one_of('nan', 'inf', '-inf')}'), 1)"


def _wide(s: Scope) -> str:
    return s.pick(lambda t: t.is_floating_point() and t.dim() >= 1 and t.dtype in FLOATS)


@statement(6)
def product(s: Scope) -> str:
    x = _wide(s)
    t = s[x]
    same = s.all(lambda o: o.dtype == t.dtype and o.dim() >= 1)
    pairs = [(y, form) for y in same for form in (f"{y}", f"{y}.mT") if _multiplies(t, s[y], form)]
    if not pairs:
        raise Refused
    y, form = s.choice(pairs)
    o = s[y]
    if form.endswith("mT") and o.dim() == 2 and s.often(0.5):
        bias = s.all(lambda b: b.dtype == t.dtype and b.shape == o.shape[:1])
        given = [x, y, s.choice(bias)] if bias and s.often(0.6) else [x, y]
        return f"{s.new()} = F.linear({joined(given)})"
    if t.dim() == o.dim() == 3 and s.often(0.5) and t.shape[0] == o.shape[0]:
        return f"{s.new()} = torch.bmm({x}, {form})"
    if t.dim() == o.dim() == 2 and s.often(0.4):
        bias = s.all(lambda b: b.dtype == t.dtype and b.dim() <= 2)
        more = f", beta={s.one_of(1, 2, 0)}, alpha={s.one_of(1, 0.5)}" if s.often(0.3) else ""
        return (
            f"{s.new()} = torch.addmm({s.choice(bias)}, {x}, {form}{more})"
            if bias
            else (f"{s.new()} = torch.mm({x}, {form})")
        )
    return f"{s.new()} = {x} @ {form}"


def _multiplies(t: torch.Tensor, o: torch.Tensor, form: str) -> bool:
    if form.endswith("mT"):
        if o.dim() < 2:
            return False
        o = o.mT
    try:
        return (t @ o).numel() <= 4096
    except RuntimeError:
        return False


@statement(3)
def look_up(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1 and t.shape[0] > 0)
    d, n = fixed_dim(s, x)
    i = indices(s, n, negative=False)
    ways = [
        f"{x}.index_select({d}, {i})",
        f"{x}[{joined([*[':'] * (d % s[x].dim()), indices(s, n)])}]",
    ]
    if s[x].dim() == 2 and d % 2 == 0:
        pad = f", padding_idx={s.rng.randrange(n)}" if s.often(0.2) else ""
        ways += [f"F.embedding({i}, {x}{pad})"] * 3
    if s[x].dim() == 1:
        ways += [f"{x}.gather(0, {i})", f"{x}.take({i})"]
    return f"{s.new()} = {s.choice(ways)}"


@statement(2)
def gather(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1 and 0 < t.numel() <= 24)
    d = s.dim(x)
    if not s.is_static(x):
        raise Refused
    return f"{s.new()} = {x}.gather({d}, {x}.argsort({d}, stable=True))"


@statement(3)
def constant(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    size = s.size(x, s.dim(x))
    shape = joined([f"{x}.shape" if not s.is_static(x) else tuple(s[x].shape)])
    dtype = s.choice([*FLOATS, *WHOLES[:2]])
    n = s.one_of(2, 3, 5)
    return f"{s.new()} = " + s.one_of(
        f"torch.arange({size})",
        f"torch.zeros({shape}, dtype={dtype})",
        f"torch.ones_like({x})",
        f"torch.full({shape}, 2, dtype={dtype})",
        f"torch.zeros_like({x}, dtype={dtype})",
        f"{x}.new_zeros({size})",
        f"torch.eye({size})",
        f"torch.tensor([1, 0, {n}], dtype={dtype})",
        f"torch.linspace(0, 1, {n})",
        f"torch.ones({size}, {size}, dtype=torch.bool).tril()",
        f"torch.tensor({n})",
        f"torch.empty_like({x}).copy_({x})",
    )


@statement(0.7)
def chance(s: Scope) -> str:
    x = s.pick_float()
    return f"{s.new()} = " + s.one_of(
        f"F.dropout({x}, 0.5, True)",
        f"torch.rand_like({x})",
        f"{x} + torch.randn({x}.shape)",
        f"torch.bernoulli({x}.sigmoid())",
    )
