# SPDX-License-Identifier: Apache-2.0
"""What the lowering recognises, and what only looks like it: norms, rotations, attention."""

from __future__ import annotations

import torch

from fuzz.grammar import statement
from fuzz.scope import FLOATS, Refused, Scope, joined

_ANYOP = (torch.float32, torch.bfloat16, torch.float16)


def row_for(s: Scope, x: str, whole: bool = False) -> str:
    """Weights of a norm: [d], [1], [1, d], x's own shape."""
    t, d = s[x], s.size(x, -1)
    last = t.shape[-1]
    found = s.all(
        lambda o: (
            o.is_floating_point()
            and o.dim() >= 1
            and o.shape[-1] in ((last,) if whole else (last, 1))
            and (not whole or (o.dim() == 1 and o.dtype == t.dtype))
        )
    )
    found = [f for f in found if all(c[f].shape[-1] in (1, c[x].shape[-1]) for c in s.calls)]
    if found and s.often(0.8):
        return s.choice(found)
    return f"torch.ones({d}, dtype={t.dtype})"


@statement(5)
def rms_norm(s: Scope) -> str:
    x = s.pick_float(1, lambda t: t.numel() > 0)
    wide, d = s.choice([torch.float32, torch.float32, torch.float64, s[x].dtype]), -1
    if s.often(0.1):
        d = s.dim(x)
    h, y = s.new(), s.new()
    eps = s.one_of("1e-6", "1e-5", "0.1", "0", f"{x}.shape[-1]", "torch.tensor(1e-5)")
    square = s.one_of(f"{h}.pow(2)", f"{h} * {h}", f"{h}.square()", f"{h} ** 2", f"{h}.pow(2)")
    dtype = f", dtype={s.choice(FLOATS)}" if s.often(0.15) else ""
    mean = f"({square}).mean({d}, keepdim={s.often(0.9)}{dtype})"
    root = s.one_of(
        f"torch.rsqrt({mean} + {eps})",
        f"torch.rsqrt({mean} + {eps})",
        f"1 / torch.sqrt({mean} + {eps})",
    )
    w = row_for(s, x)
    last = s.one_of(
        f"{y} = {w} * {y}.to({x}.dtype)",
        f"{y} = ({y} * (1.0 + {w}.float())).to({x}.dtype)",
        f"{y} = {y} * {w}",
        f"{y} = {y}.to({x}.dtype)",
        f"{y} = ({w} + 0.5) * {y}",
        f"{y} = ({w} * {y}).to({x}.dtype)",
    )
    cast = s.one_of(f"{h} = {x}.to({wide})", f"{h} = {x}")
    return f"{cast}\n{y} = {h} * {root}\n{last}"


@statement(3)
def layer_norm(s: Scope) -> str:
    x = s.pick_float(1, lambda t: t.numel() > 0)
    d, y = s.size(x, -1), s.new()
    if s.often(0.5):
        w, b = (s.one_of("None", row_for(s, x, True)) for _ in range(2))
        return f"{y} = F.layer_norm({x}, ({d},), {w}, {b}, {s.one_of('1e-5', '0.1')})"
    if s.often(0.5):
        w = s.one_of("None", row_for(s, x, True))
        return f"{y} = F.rms_norm({x}, ({d},), {w}, {s.one_of('1e-5', 'None', '0.1')})"
    h = s.new()
    return (
        f"{h} = {x} - {x}.mean(-1, keepdim=True)\n"
        f"{y} = {h} * torch.rsqrt({h}.pow(2).mean(-1, keepdim=True) + 1e-5) * {row_for(s, x)}"
    )


def _table(s: Scope, x: str, width: str) -> str:
    """cos and sin of a rotation, made in the program: [.., t, width]."""
    t = s.size(x, s.one_of(-2, -2, -2, 1))
    dtype = s.one_of(s[x].dtype, s[x].dtype, torch.float32)
    n = s.new()
    many = s.one_of("angles", "angles", "angles[None]", "angles[None, None]")
    return (
        f"{n} = torch.arange({t})[:, None].float() * torch.linspace(0.1, 1, {width})[None]\n"
        f"{n} = torch.cat(({n}, {n}), -1){many[6:]}.to({dtype})"
    )


@statement(5)
def rope(s: Scope) -> str:
    x = s.pick_float(2, lambda t: t.shape[-1] % 2 == 0 and t.shape[-1] > 0)
    if s.varies(x, -1):
        raise Refused
    half, y = s[x].shape[-1] // 2, s.new()
    table = _table(s, x, str(half))
    n = table.partition(" ")[0]
    cos, sin = s.one_of((f"{n}.cos()", f"{n}.sin()"), (f"{n}.cos()", f"{n}.sin()"), (n, n))
    if s.often(0.2):
        rows = s.all(lambda o: o.shape[-2:] == s[x].shape[-2:] and o.is_floating_point())
        if rows:
            cos, sin = s.choice(rows), s.choice(rows)
    turn = s.one_of(
        f"torch.cat((-{x}[..., {half}:], {x}[..., :{half}]), -1)",
        f"torch.cat((-{x}[..., {half}:], {x}[..., :{half}]), dim=-1)",
        f"torch.cat((-{x}.chunk(2, -1)[1], {x}.chunk(2, -1)[0]), -1)",
        f"torch.stack((-{x}[..., 1::2], {x}[..., ::2]), -1).flatten(-2)",
        f"torch.cat(({x}[..., {half}:], -{x}[..., :{half}]), -1)",
    )
    return f"{table}\n{y} = {x} * {cos} + {turn} * {sin}"


def _heads(s: Scope) -> tuple[str, str, str]:
    """Queries, keys and values [b, h, t, d]: what there is, or views of it."""
    q = s.pick(
        lambda t: (
            t.is_floating_point()
            and 2 <= t.dim() <= 4
            and 0 < t.shape[-1] <= 16
            and t.numel() <= 512
        )
    )
    t = s[q]
    found = s.all(
        lambda o: (
            o.dtype == t.dtype
            and o.dim() == t.dim()
            and o.shape[-1] == t.shape[-1]
            and o.shape[:-2] == t.shape[:-2]
            and o.shape[-2] > 0
        )
    )
    found = [f for f in found if all(c[f].shape[-1] == c[q].shape[-1] for c in s.calls)]
    k = s.choice(found)
    values = [v for v in found if s[v].shape == s[k].shape]
    return q, k, s.choice(values)


def _mask(s: Scope, q: str, k: str) -> str:
    """A mask made in the program, for q's and k's lengths."""
    a, b = f"{q}.shape[-2]", f"{k}.shape[-2]"
    if s.is_static(q) and s.is_static(k):
        a, b = str(s[q].shape[-2]), str(s[k].shape[-2])
    rows, cols = f"torch.arange({a})", f"torch.arange({b})"
    shift = s.one_of("", "", f" + {b} - {a}", " + 1")
    past = f"{cols}[None, :] <= {rows}[:, None]{shift}"
    made = s.one_of(
        past,
        past,
        f"({past}) & ({cols}[None, :] > {rows}[:, None] - {s.one_of(1, 2, 3)})",
        f"torch.ones({a}, {b}, dtype=torch.bool).tril({s.one_of(0, 1)})",
        f"{cols}[None, :] < {s.one_of(2, 3)}",
        f"{cols} < {s.one_of(1, 2)}",
        f"torch.zeros({a}, {b}, dtype=torch.bool).logical_not()",
    )
    if s.often(0.35):
        low = s.one_of("float('-inf')", "torch.finfo(torch.float32).min", "-1e4")
        made = f"torch.zeros({a}, {b}, dtype={s[q].dtype}).masked_fill(~({made}), {low})"
    return f"({made})" + "[None]" * (s.one_of(0, 0, 1, 2) if s[q].dim() == 4 else 0)


@statement(6)
def attention(s: Scope) -> str:
    q, k, v = _heads(s)
    given = [q, k, v]
    lines = ""
    if s.often(0.3):
        given.append("is_causal=True")
    elif s.often(0.75):
        n = s.new()
        fits = s.all(lambda o: _is_mask(o, s[q], s[k]))
        mask = s.choice(fits) if fits and s.often(0.4) else _mask(s, q, k)
        lines = f"{n} = {mask}\n"
        given.append(f"attn_mask={n}")
    if s.often(0.2):
        given.append("scale=0.3")
    if s.often(0.15) and s[q].dim() >= 3:
        given[1:3] = [f"{k}[..., :1, :, :]", f"{v}[..., :1, :, :]", "enable_gqa=True"][:2]
        given.append("enable_gqa=True")
    return f"{lines}{s.new()} = F.scaled_dot_product_attention({joined(given)})"


def _is_mask(o: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> bool:
    if o.dtype not in (torch.bool, q.dtype) or o.dim() < 1:
        return False
    shape = (*q.shape[:-1], k.shape[-2])
    try:
        return torch.broadcast_shapes(o.shape, shape) == shape
    except RuntimeError:
        return False


@statement(3)
def attention_by_hand(s: Scope) -> str:
    q, k, v = _heads(s)
    n, y = s.new(), s.new()
    lines = [f"{n} = {q} @ {k}.mT * {s.one_of(0.3, 1.0, 0.5)}"]
    if s.often(0.5):
        low = s.one_of("-1e4", "float('-inf')")
        lines.append(f"{n} = {n}.masked_fill(~({_mask_of_bools(s, q, k)}), {low})")
    kind = s.one_of("", "", ", dtype=torch.float32")
    lines.append(f"{n} = torch.softmax({n}, -1{kind}).to({q}.dtype)")
    return "\n".join([*lines, f"{y} = {n} @ {v}"])


def _mask_of_bools(s: Scope, q: str, k: str) -> str:
    return f"torch.ones({q}.shape[-2], {k}.shape[-2], dtype=torch.bool).tril({s.one_of(0, 1)})"


@statement(4)
def of_anyop(s: Scope) -> str:
    x = s.pick(lambda t: t.dtype in _ANYOP and t.dim() >= 1 and t.numel() > 0)
    d = s[x].shape[-1]
    w = row_for(s, x, True)
    ways = [
        f"anyop.rms_norm({x}, {w}, 1e-5)",
        f"anyop.softmax({x})",
        f"anyop.sigmoid({x})",
        f"torch.ops.anyop.rms_norm({x}, {w})",
        f"anyop.gelu({x}, 'tanh')",
        f"anyop.argmax({x})",
        f"anyop.layer_norm({x}, {w}, None)",
        f"anyop.add({x}, {w})",
        f"anyop.mul({x}, {x})",
        f"anyop.cast({x}, '{s.one_of('bf16', 'f32', 'f16')}')",
        f"anyop.top_k({x}, 1)[0]",
        f"anyop.add_rms_norm({x}, {x}, {w})[{s.one_of(0, 1)}]",
    ]
    if d % 2 == 0:
        ways.append(f"anyop.silu_and_mul({x})")
    return f"{s.new()} = {s.choice(ways)}"


@statement(3)
def glu(s: Scope) -> str:
    x = s.pick_float(1, lambda t: t.shape[-1] > 0)
    y = s.choice(s.all(lambda o: o.shape == s[x].shape and o.is_floating_point()))
    n = f"0.7978845608 * ({x} + 0.044715 * {x}.pow(3.0))"
    return f"{s.new()} = " + s.one_of(
        f"F.silu({x}) * {y}",
        f"F.gelu({x}, approximate='tanh') * {y}",
        f"{x} * torch.sigmoid({x}) * {y}",
        f"0.5 * {x} * (1.0 + torch.tanh({n}))",
        f"{x} * torch.sigmoid(1.702 * {x})",
        f"{x} + {y} * 1.0",
    )
