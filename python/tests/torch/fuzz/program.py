# SPDX-License-Identifier: Apache-2.0
"""A torch program as text, with arguments for some calls of it."""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

_NAME = re.compile(r"\b[xkv]\d+\b")
_MADE = re.compile(r"^\s*((?:v\d+, )*v\d+),? = ", re.M)
_numbers = count()

HEAD = """\
import anyop
import torch
import torch.nn.functional as F
"""


def uses(text: str) -> set[str]:
    return set(_NAME.findall(text))


def makes(text: str) -> set[str]:
    return {name for row in _MADE.findall(text) for name in row.split(", ")}


@dataclass(frozen=True)
class Program:
    """arguments: statements that make x0, x1, ...; they read `g`, a generator, and `n`, a size.

    buffers: those of them that are buffers of a module. between: what happens to these between
    calls ("keep", "write", "move"); in training they are parameters. k0, k1, ... are arguments that
    are numbers. is_packed: whether all arguments are passed in one list. leaves: expressions that
    are returned, held by `form`.
    grad: "no_grad", "inference", "plain" or "train". sizes: n of each call.
    """

    seed: int
    arguments: tuple[str, ...]
    buffers: tuple[str, ...]
    body: tuple[str, ...]
    leaves: tuple[str, ...]
    form: str = "tuple"
    between: str = "keep"
    grad: str = "no_grad"
    dynamic: bool = False
    sizes: tuple[int, ...] = (4,)
    is_packed: bool = False

    @property
    def names(self) -> list[str]:
        """Of all arguments, in order."""
        return sorted({n for a in self.arguments for n in _made(a)})

    def result(self) -> str:
        leaves = list(self.leaves) or ["None"]
        if self.form == "single" and len(leaves) == 1:
            return leaves[0]
        if self.form == "dict":
            return "{" + ", ".join(f'"r{i}": {leaf}' for i, leaf in enumerate(leaves)) + "}"
        if self.form == "nested" and len(leaves) > 1:
            rest = ", ".join(leaves[2:])
            return f'({leaves[0]}, [{leaves[1]}], {{"rest": ({rest}{"," if rest else ""})}})'
        if self.form == "list":
            return f"[{', '.join(leaves)}]"
        return f"({', '.join(leaves)},)"

    def source(self) -> str:
        passed = [name for name in self.names if name not in self.buffers]
        lines = [HEAD, "", *self.holder(), "def arguments(call):"]
        lines.append(f"    g = torch.Generator().manual_seed({self.seed} * 8 + call)")
        lines.append(f"    n = {self.sizes!r}[call]")
        lines += [f"    {line}" for a in self.arguments for line in a.split("\n")]
        lines += [f"    return {{{', '.join(f'{n!r}: {n}' for n in self.names)}}}", "", ""]
        lines.append("class Program(torch.nn.Module):")
        lines += ["    def __init__(self, given):", "        super().__init__()"]
        lines += [f'        hold(self, "{n}", given["{n}"])' for n in self.buffers]
        if self.is_packed:
            lines += ["", "    def forward(self, given):", f"        [{', '.join(passed)}] = given"]
        else:
            lines += ["", f"    def forward({', '.join(['self', *passed])}):"]
        lines += [f"        {n} = self.{n}" for n in self.buffers]
        lines += [f"        {line}" for s in self.body for line in s.split("\n")]
        lines.append(f"        return {self.result()}")
        return "\n".join(lines) + "\n"

    def holder(self) -> list[str]:
        if not self.buffers:
            return []
        is_weight = "t.is_floating_point() and t._base is None" if self.grad == "train" else "False"
        return [
            "def hold(module, name, t):",
            f"    if {is_weight}:",
            "        return module.register_parameter(name, torch.nn.Parameter(t))",
            "    module.register_buffer(name, t)",
            "",
            "",
        ]

    def names_and_code(self) -> dict[str, Any]:
        """The names of the source, executed; a debugger and Dynamo see its lines."""
        text, file = self.source(), f"fuzzed_{next(_numbers)}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names: dict[str, Any] = {"__name__": file[:-3]}
        exec(compile(text, file, "exec"), names)
        return names

    def without_unused_arguments(self) -> Program:
        """Drops arguments that neither the program nor another argument reads."""
        kept, buffers = list(self.arguments), self.buffers
        read = uses("\n".join((*self.body, *self.leaves)))
        for text in reversed(self.arguments):
            if not _made(text) & read and len(kept) > 1:
                kept.remove(text)
                buffers = tuple(b for b in buffers if b not in _made(text))
            else:
                read |= uses(text)
        return replace(self, arguments=tuple(kept), buffers=buffers)


def _made(argument: str) -> set[str]:
    return set(re.findall(r"^([xk]\d+) = ", argument, re.M))
