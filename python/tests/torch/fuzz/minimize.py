# SPDX-License-Identifier: Apache-2.0
"""The shortest program that still fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.program import Program, makes, uses

Fails = Callable[[Program], bool]


def minimized(program: Program, fails: Fails, rounds: int = 6) -> Program:
    """fails: whether a program fails as the first one did."""
    for _ in range(rounds):
        before = program
        for candidate in _shorter_arguments(program):
            program = candidate if fails(candidate) else program
        program = _fewer_statements(program, fails)
        at = len(program.leaves)
        while at > 0:
            at -= 1
            fewer = program.leaves[:at] + program.leaves[at + 1 :]
            candidate = replace(program, leaves=fewer)
            program = candidate if fails(candidate) else program
        candidate = program.without_unused_arguments()
        if candidate != program and fails(candidate):
            program = candidate
        if program == before:
            break
    return program


def _fewer_statements(program: Program, fails: Fails) -> Program:
    """Halves first, then quarters, then one by one."""
    many = len(program.body) // 2
    while many > 1:
        for begin in range(0, len(program.body), many):
            kept = program.body[:begin] + program.body[begin + many :]
            candidate = _closed(replace(program, body=kept))
            if candidate != program and fails(candidate):
                program = candidate
                break
        else:
            many //= 2
        many = min(many, len(program.body) // 2)
    at = len(program.body)
    while at > 0:
        at -= 1
        program = next(filter(fails, _without(program, at)), program)
        at = min(at, len(program.body))
    return program


def _closed(program: Program) -> Program:
    """Without what reads names that nothing makes any more."""
    known, body = set(program.names), []
    for text in program.body:
        if uses(text) - makes(text) <= known:
            known |= makes(text)
            body.append(text)
    leaves = tuple(leaf for leaf in program.leaves if uses(leaf) <= known)
    return replace(program, body=tuple(body), leaves=leaves)


def _shorter_arguments(program: Program) -> Iterator[Program]:
    if len(program.sizes) > 1:
        yield replace(program, sizes=program.sizes[:1])
        yield replace(program, sizes=program.sizes[:2])
    if program.dynamic:
        yield replace(program, dynamic=False)
    if program.grad != "no_grad":
        yield replace(program, grad="no_grad")
    if program.form not in ("tuple", "single"):
        yield replace(program, form="tuple")
    if program.is_packed:
        yield replace(program, is_packed=False)
    if program.buffers:
        yield replace(program, buffers=())


def _without(program: Program, at: int) -> Iterator[Program]:
    """Programs in which one statement is less."""
    text = program.body[at]
    made = makes(text)
    gone, body = set(made), list(program.body[:at])
    for later in program.body[at + 1 :]:
        if uses(later) & gone:
            gone |= makes(later)
        else:
            body.append(later)
    leaves = tuple(leaf for leaf in program.leaves if not uses(leaf) & gone)
    yield replace(program, body=tuple(body), leaves=leaves)
    for branch in _branches(text):
        yield replace(program, body=(*program.body[:at], branch, *program.body[at + 1 :]))
    used = sorted(uses(text.partition(" = ")[2]) - made)
    if len(made) == 1 and "\n" not in text:
        for name in used:  # the statement's result becomes its argument
            rest = [re.sub(rf"\b{next(iter(made))}\b", name, t) for t in program.body[at + 1 :]]
            kept = [re.sub(rf"\b{next(iter(made))}\b", name, t) for t in program.leaves]
            yield replace(program, body=(*program.body[:at], *rest), leaves=tuple(kept))


def _branches(text: str) -> Iterator[str]:
    """The branches of an if statement, and the alternatives of a conditional expression."""
    if text.startswith("if "):
        _, _, rest = text.partition(":\n")
        for part in rest.split("\nelse:\n"):
            yield re.sub(r"^    ", "", part, flags=re.M)
