# SPDX-License-Identifier: Apache-2.0
"""Statements that make views, and those that put tensors together."""

from __future__ import annotations

from fuzz.grammar import statement
from fuzz.scope import Refused, Scope, joined


def factors(s: Scope, n: int) -> list[int]:
    """Sizes whose product is n."""
    made: list[int] = []
    while n > 1 and len(made) < 4:
        d = s.choice([d for d in range(1, n + 1) if n % d == 0])
        made.append(d)
        n //= d
    return [*made, n] if n > 1 or not made else made


@statement(5)
def reshape(s: Scope) -> str:
    x = s.pick(lambda t: t.numel() > 0)
    t, how = s[x], s.one_of("view", "reshape", "reshape")
    if not s.is_static(x):
        return f"{s.new()} = {x}.{how}({reshape_of_varying(s, x)})"
    shape = factors(s, t.numel())
    s.rng.shuffle(shape)
    shape.insert(s.rng.randrange(len(shape) + 1), 1) if s.often(0.15) else None
    if s.often(0.3):
        shape[s.rng.randrange(len(shape))] = -1
    return f"{s.new()} = {x}.{how}({joined(shape)})"


def reshape_of_varying(s: Scope, x: str) -> str:
    rank = s[x].dim()
    if rank < 1:
        raise Refused
    sizes, d = s.sizes(x), s.rng.randrange(rank)
    if rank == 1 or s.often(0.2):
        return "-1"
    if s.often(0.5):
        return joined([*sizes[:d], "-1", *sizes[d + 2 :]]) if d + 1 < rank else "-1"
    n = s[x].shape[d]
    if s.varies(x, d):
        return joined([*sizes[:d], sizes[d], 1, *sizes[d + 1 :]])
    parts = factors(s, n)
    return joined([*sizes[:d], *parts, *sizes[d + 1 :]])


@statement(4)
def permute(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 2)
    rank = s[x].dim()
    order = s.rng.sample(range(rank), rank)
    ways = [
        f"permute({joined(order)})",
        f"transpose({s.dim(x)}, {s.dim(x)})",
        "mT",
        f"movedim({s.dim(x)}, {s.dim(x)})",
    ]
    return f"{s.new()} = {x}.{s.choice([*ways, 't()'] if rank == 2 else ways)}"


@statement(3)
def ones(s: Scope) -> str:
    x = s.pick()
    rank = s[x].dim()
    if s.often(0.5):
        return f"{s.new()} = {x}.unsqueeze({s.rng.randrange(-rank - 1, rank + 1)})"
    one = [d for d in range(rank) if s[x].shape[d] == 1]
    if s.often(0.3) or not one:
        return f"{s.new()} = {x}.squeeze()" if s.often(0.3) else f"{s.new()} = {x}[None]"
    return f"{s.new()} = {x}.squeeze({s.choice(one)})"


@statement(3)
def expand(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() <= 4)
    sizes: list[object] = [
        s.one_of(2, 3, -1) if s[x].shape[d] == 1 and not s.varies(x, d) else s.one_of(-1, size)
        for d, size in enumerate(s.sizes(x))
    ]
    if s.often(0.4):
        sizes.insert(0, s.one_of(1, 2, 3))
    return f"{s.new()} = {x}.expand({joined(sizes)})" if sizes else f"{s.new()} = {x}.expand(2)"


def a_slice(s: Scope, n: int) -> str:
    begin = s.choice(["", "", "0", "1", "2", str(-n), str(1 - n), "-2", "-1"])
    end = s.choice(["", "", "", "-1", "99", str(n), str(max(n - 1, 0)), "1"])
    step = s.choice(["", "", "", ":2", ":3", ":1"])
    return f"{begin}:{end}{step}"


def index(s: Scope, x: str) -> str:
    """Slices, numbers, None and ... for some dimensions of x."""
    rank = s[x].dim()
    if not rank:
        return s.one_of("None", "...", "()")
    many = []
    for d in range(s.rng.randint(1, rank)):
        n = s[x].shape[d]
        kinds = [a_slice(s, n)] * 3 + [":"] * 2
        if n and not s.varies(x, d):
            kinds.append(str(s.rng.randrange(-n, n)))
        many.append(s.choice(kinds))
    if s.often(0.15):
        many.insert(s.rng.randrange(len(many) + 1), "None")
    if s.often(0.15) and len(many) <= rank:
        return joined(["...", *many])
    return joined(many)


@statement(6)
def slice_(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    return f"{s.new()} = {x}[{index(s, x)}]"


@statement(2)
def narrow(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    d = s.dim(x)
    n = s[x].shape[d]
    if not n or s.varies(x, d):
        raise Refused
    begin = s.rng.randrange(n)
    ways = [
        f"narrow({d}, {begin}, {s.rng.randint(1, n - begin)})",
        f"select({d}, {begin - n})",
        f"unfold({d}, {min(n, 2)}, {s.one_of(1, 2)})",
    ]
    return f"{s.new()} = {x}.{s.choice(ways)}"


@statement(3)
def split(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1 and t.numel() > 0)
    d = s.dim(x)
    n = s[x].shape[d]
    if s.varies(x, d) or n > 6:
        raise Refused
    at = s.rng.randint(1, n)
    how, many = s.choice(
        [
            (f"unbind({d})", n),
            (f"chunk({at}, {d})", -(-n // -(-n // at))),
            (f"split({at}, {d})", -(-n // at)),
            (f"split([{at}, {n - at}], {d})", 2),
            (f"tensor_split({at}, {d})", at),
        ]
    )
    return f"{joined(s.new() for _ in range(many))}, = {x}.{how}"


@statement(2)
def strided(s: Scope) -> str:
    x = s.pick(lambda t: t.numel() >= 4)
    t = s[x]
    if not s.is_static(x):
        raise Refused
    n = t.untyped_storage().nbytes() // t.element_size()
    shape = s.one_of((2, 2), (2, 3), (3,), (2, 1, 2), (4,), (2, 4))
    strides = [s.choice([1, 1, 2, 3, 0, 4, 6]) for _ in shape]
    last = sum((k - 1) * p for k, p in zip(shape, strides, strict=True))
    if last >= n:
        raise Refused
    offset = f", {s.rng.randrange(n - last)}" if s.often(0.5) else ""
    return f"{s.new()} = {x}.as_strided({shape}, {tuple(strides)}{offset})"


@statement(2)
def diagonal(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 2)
    a, b = s.rng.sample(range(s[x].dim()), 2)
    return f"{s.new()} = {x}.diagonal({s.one_of(0, 1, -1)}, {a}, {b})"


@statement(2)
def same(s: Scope) -> str:
    """The tensor itself, or all of it by another name."""
    x = s.pick()
    ways = [
        "",
        ".detach()",
        ".contiguous()",
        f".view_as({x})",
        f".to({s[x].dtype})",
        "[...]",
        ".view(-1)",
        ".expand_as({x})",
        ".flatten()",
        ".ravel()",
        f".reshape({x}.shape)",
    ]
    return f"{s.new()} = {x}{s.choice(ways)}"


@statement(1)
def bits(s: Scope) -> str:
    """The same memory as another dtype."""
    x = s.pick(lambda t: t.dim() >= 1 and t.element_size() in (2, 4, 8))
    to = {
        2: ("int16", "bfloat16", "float16"),
        4: ("int32", "float32", "bfloat16"),
        8: ("int64", "float64", "float32", "int32"),
    }[s[x].element_size()]
    return f"{s.new()} = {x}.view(torch.{s.choice(to)})"


@statement(4)
def together(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    t, d = s[x], s.dim(x)
    others = s.all(
        lambda o: (
            o.dim() == t.dim()
            and all(o.shape[i] == t.shape[i] for i in range(t.dim()) if i != d % t.dim())
        )
    )
    parts = [x, *s.rng.choices(others, k=s.one_of(1, 1, 2))]
    if s.often(0.3) and all(s[p].shape == t.shape for p in parts):
        return f"{s.new()} = torch.stack([{joined(parts)}], {d})"
    return f"{s.new()} = torch.cat([{joined(parts)}], {d})"


@statement(3)
def moved(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    d = s.dim(x)
    ways = [
        f"flip({d})",
        f"roll(1, {d})",
        f"roll({s.one_of(2, -1)})",
        f"repeat({joined([2] * s[x].dim())})",
        f"repeat_interleave(2, {d})",
        "clone()",
        "contiguous()",
        "tile(2)",
    ]
    if s[x].dim() >= 2:
        ways += [f"tril({s.one_of(0, 1, -1)})", "triu()", "rot90()"]
    return f"{s.new()} = {x}.{s.choice(ways)}"


@statement(2)
def padded(s: Scope) -> str:
    x = s.pick(lambda t: t.dim() >= 1)
    many = [s.one_of(0, 1, 2, -1) for _ in range(2 * s.rng.randint(1, min(2, s[x].dim())))]
    return f"{s.new()} = F.pad({x}, ({joined(many)}), value={s.one_of(0, 1)})"
