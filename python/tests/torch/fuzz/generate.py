# SPDX-License-Identifier: Apache-2.0
"""Programs of a seed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any

import torch

from fuzz import patterns, rare, values, views, writes  # noqa: F401
from fuzz.grammar import STATEMENTS
from fuzz.program import Program, uses
from fuzz.scope import FLOATS, WHOLES, Refused, Scope, joined
from fuzz.session import _GRAD, is_trained


def _shape(rng: random.Random, dims: list[str]) -> list[str]:
    """A part of the program's dimensions, some of them 1."""
    rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
    shape = dims[len(dims) - rank :] if rng.random() < 0.7 else rng.choices(dims, k=rank)
    return [n if rng.random() < 0.9 else "1" for n in shape]


def _fresh(rng: random.Random, name: str, shape: list[str]) -> str:
    sizes = f"({joined(shape)}{',' if len(shape) == 1 else ''})"
    kind = rng.random()
    if kind < 0.12:
        dtype = rng.choice(WHOLES[:3])
        return f"{name} = torch.randint(0, 4, {sizes}, generator=g).to({dtype})"
    if kind < 0.18:
        return f"{name} = torch.rand({sizes}, generator=g) > 0.4"
    dtype = rng.choice([*FLOATS[:1] * 5, *FLOATS[1:2] * 2, *FLOATS])
    return f"{name} = torch.randn({sizes}, generator=g).to({dtype})"


def _laid_out(rng: random.Random, text: str, name: str, rank: int) -> str:
    """The same type in memory that is not in order."""
    if rank < 1 or rng.random() < 0.65:
        return text
    ways = [
        f"{name} = torch.cat([{name}, {name}], -1)[..., ::2]",
        f"{name} = torch.cat([{name}, {name}])[{name}.shape[0]:]",
        f"{name} = {name}[:1].expand_as({name})",
    ]
    if rank >= 2:
        ways += [f"{name} = {name}.mT.contiguous().mT"] * 2
    return f"{text}\n{rng.choice(ways)}"


def _view(rng: random.Random, name: str, base: str, rank: int) -> str:
    """An argument that shares memory with another."""
    ways = [f"{name} = {base}", f"{name} = {base}[...]", f"{name} = {base}.view({base}.shape)"]
    if rank >= 1:
        ways += [f"{name} = {base}[1:]", f"{name} = {base}[:1]", f"{name} = {base}.reshape(-1)[:2]"]
    if rank >= 2:
        ways += [f"{name} = {base}.mT", f"{name} = {base}[:, -1]"]
    return rng.choice(ways)


def arguments(rng: random.Random, is_varying: bool) -> list[str]:
    dims = [
        str(rng.choice([1, 2, 2, 3, 4])),
        str(rng.choice([2, 3, 4])),
        str(rng.choice([1, 2, 3, 4, 4, 6])),
        str(rng.choice([4, 8, 6, 2, 1, 5])),
    ]
    if is_varying:
        dims[rng.choice([1, 2, 2])] = "n"
    made, ranks = [], []
    for i in range(rng.choice([1, 2, 2, 3, 3, 4])):
        name = f"x{i}"
        if i and rng.random() < 0.15:
            k = rng.randrange(i)
            made.append(_view(rng, name, f"x{k}", ranks[k]))
            ranks.append(0)
            continue
        shape = _shape(rng, dims)
        if rng.random() < 0.02 and shape:
            shape[rng.randrange(len(shape))] = "0"
        made.append(_laid_out(rng, _fresh(rng, name, shape), name, len(shape)))
        ranks.append(len(shape))
    for i in range(rng.choice([0, 0, 0, 1, 2])):
        made.append(
            f"k{i} = {rng.choice(['2', 'call', '0.5 + call', '3 - call', 'call > 0', '1.5'])}"
        )
    return made


def _conditions(s: Scope) -> str:
    x = s.pick()
    conditions = [
        f"{x}.is_contiguous()",
        f"{x}.numel() > {s[x].numel()}",
        f"{x}.dtype == torch.float32",
        f"{x}.dim() == 2",
        f"not {x}.is_contiguous()",
    ]
    if s[x].dim():
        conditions += [
            f"{x}.stride({s.dim(x)}) == 1",
            f"{x}.shape[0] == {s[x].shape[0]}",
            f"{x}.stride() == {tuple(s[x].stride())}",
        ]
    return s.choice(conditions)


def _statement(s: Scope, kinds: dict[str, float]) -> str:
    name = s.rng.choices([*kinds], [*kinds.values()])[0]
    return STATEMENTS[name][1](s)


def _branched(s: Scope, kinds: dict[str, float]) -> str:
    """A statement that is one of two, by what is known before there are values."""
    condition = _conditions(s)
    if s.often(0.06):
        x = s.pick(lambda t: t.numel() > 0)
        condition = f"bool({x}.sum() > 0)"
    branches = []
    number = s.number
    for _ in range(2):
        s.number = number
        text = _statement(s, kinds)
        branches.append(text.replace("\n", "\n    "))
    return f"if {condition}:\n    {branches[0]}\nelse:\n    {branches[1]}"


def _leaves(s: Scope) -> list[str]:
    read = uses("\n".join(text.partition(" = ")[2] or text for text in s.body))
    ends = [name for name in s.names if name not in read and name[0] == "v"]
    made = s.rng.sample(ends, min(len(ends), s.choice([1, 2, 3])))
    for _ in range(s.choice([0 if made else 1, 1, 1, 2])):
        made.append(s.pick() if s.often(0.75) else s.choice(s.names))
    if s.often(0.12):
        made.append(s.choice(made))
    if s.often(0.15):
        x = s.pick()
        made.append(
            s.one_of(
                "None",
                "3",
                f"{x}.dim()",
                f"{x}.shape",
                f"{x}.numel()",
                "2.5",
                "'word'",
                f"{x}.is_contiguous()",
                f"{x}.stride()",
                f"{x}.dtype",
            )
        )
    if s.often(0.2):
        x = s.pick(lambda t: t.dim() >= 1)
        made.append(
            s.one_of(
                f"{x}[0:1]",
                f"{x}.mT" if s[x].dim() > 1 else x,
                f"{x}[None]",
                f"{x}.view(-1)" if s[x].is_contiguous() else x,
            )
        )
    return made


def program(seed: int, focus: Sequence[str] = ()) -> Program:
    """focus: statements that are to be frequent."""
    rng = random.Random(seed)
    is_varying = rng.random() < 0.25
    sizes: tuple[int, ...] = rng.choice([(4,), (4,), (3, 3), (4, 4, 4)])
    if is_varying:
        sizes = rng.choice([(4, 6, 3), (5, 3), (2, 6), (3, 1), (6, 2, 2)])
    made = arguments(rng, is_varying)
    grad = rng.choice(["no_grad", "no_grad", "plain", "inference", "train"])
    shell = Program(seed, tuple(made), (), (), ("x0",), grad=grad, dynamic=is_varying, sizes=sizes)
    s = Scope(rng, *_starts(shell))
    s.make_first = lambda: _starts(shell)[0]
    weights = {name: w * rng.choice([0.2, 0.5, 1, 1, 3]) for name, (w, _) in STATEMENTS.items()}
    weights |= {name: 50.0 / len(focus) for name in focus}
    wanted, tries = rng.choice([2, 4, 6, 8, 12]), 0
    while len(s.body) < wanted and tries < 80:
        tries += 1
        with contextlib.suppress(Refused):
            number = s.number
            made_text = _branched(s, weights) if rng.random() < 0.06 else _statement(s, weights)
            if not s.run(made_text):
                s.number = number
    buffers = (
        tuple(n for n in shell.names if n[0] == "x" and rng.random() < 0.5)
        if rng.random() < 0.4
        else ()
    )
    leaves: list[str] = []
    with contextlib.suppress(Refused):
        leaves = _leaves(s)
    return Program(
        seed,
        tuple(made),
        buffers,
        tuple(s.body),
        tuple(leaves),
        form=rng.choice(["tuple", "single", "dict", "nested", "list"]),
        between=rng.choice(["keep", "write", "move"]),
        grad=grad,
        dynamic=is_varying,
        sizes=sizes,
        is_packed=rng.random() < 0.1,
    )


def _starts(shell: Program) -> tuple[list[dict[str, torch.Tensor]], Any]:
    names: dict[str, Any] = shell.names_and_code()
    made = []
    for call in range(len(shell.sizes)):
        given = names["arguments"](call)
        if shell.grad == "train":
            for t in filter(is_trained, given.values()):
                t.requires_grad_()
        made.append(given)
    return made, _GRAD[shell.grad]
