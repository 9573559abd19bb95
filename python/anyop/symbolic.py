# SPDX-License-Identifier: Apache-2.0
"""Result types of an operator over a host's own integers: ints, symbolic ones, unknown ones.

The core evaluates the signature, as it does for every call, and asks the host to compute where one
of two numbers is not Python's own. Concrete calls are refused with the core's own texts; this is
for sizes that it cannot hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyop import _anyop


class _Unknown:
    """A value that is not known yet. Everything that is computed from it is unknown, too."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN = _Unknown()


@dataclass
class TensorType:
    """dtype: "bf16". shape: sizes of any integer type, UNKNOWN among them; None: unknown rank."""

    dtype: str
    shape: tuple[Any, ...] | None


@dataclass
class Assertion:
    """A condition that the host must assert: neither true nor false for all sizes."""

    holds: Any
    text: str


@dataclass
class Inference:
    """What a call returns, and what must hold for it. form: the number of the form taken."""

    form: int
    results: list[TensorType]
    assertions: list[Assertion] = field(default_factory=list)


class Host:
    """How a host computes with its integers. Subclass where Python's operators do not do.

    At least one operand is the host's own. An operation returns a number, a bool, one more object
    of the host's, or UNKNOWN where the host cannot tell: a host whose comparisons are False both
    where they do not hold and where nobody knows (JAX's `d == 64`) must tell these apart here.
    """

    binary: dict[str, Callable[[Any, Any], Any]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "/": operator.truediv,
        "%": operator.mod,
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        # Of symbols: Python's own `and`, `or` and `not` would ask for their truth.
        "and": operator.and_,
        "or": operator.or_,
        "min": min,
        "max": max,
        "ceil_div": lambda a, b: -(-a // b),
    }

    def compute(self, op: str, a: Any, b: Any) -> Any:
        return self.binary[op](a, b)

    def negate(self, a: Any) -> Any:
        """not a, of a symbolic truth value."""
        return ~a

    def same(self, a: Any, b: Any) -> bool:
        """Whether a size needs no assertion to equal another one."""
        return a is b


def infer(op: Any, args: Sequence[Any], host: Host | None = None) -> Inference:
    """The results of a call, as types over the host's integers, and what the host must assert.

    op: an operator, its name, or the text of a signature. args: one per parameter: a TensorType (a
    list of them for a tensor list), a number, a bool, a word, the name of a dtype, a list, None for
    an absent argument, UNKNOWN for a value that is not known. Raises ValueError for what is surely
    wrong.
    """
    form, results, assertions = _anyop.infer(op, args, host or Host(), UNKNOWN)
    return Inference(
        form,
        [TensorType(dtype, shape) for dtype, shape in results],
        [Assertion(holds, text) for holds, text in assertions],
    )


def choose_form(op: Any, args: Sequence[Any]) -> int:
    """The first form that takes these words and ranks. Raises ValueError where none does."""
    return _anyop.choose_form(op, args, UNKNOWN)
