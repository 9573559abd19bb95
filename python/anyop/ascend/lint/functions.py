# SPDX-License-Identifier: Apache-2.0
"""Functions that a package registers for operators, as both readers give them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from anyop.ascend.lint.schema import NONE_GIVEN, Place

CONVERTER, META, KERNEL = "converter", "Meta function", "implementation"


@dataclass(frozen=True)
class Parameter:
    """Of a function. default: a value, NONE_GIVEN or NO_LITERAL (schema.py)."""

    name: str
    default: Any = NONE_GIVEN
    keyword_only: bool = False


@dataclass(frozen=True)
class Result:
    """What a return gives: so many values; is_sequence: as a tuple or list that the text shows;
    is_list: as one whose length it does not; parameter: the function's own one.
    """

    line: int
    count: int
    is_sequence: bool = False
    is_list: bool = False
    parameter: str = ""


@dataclass(frozen=True)
class Registered:
    """A function for an operator. parameters: None where they were not found; writes: those that
    it writes to, with the line of it; returns: whether any of its returns has a value.
    """

    role: str
    space: str
    name: str
    overload: str
    place: Place
    parameters: tuple[Parameter, ...] | None = None
    takes_any: bool = False  # *args or **kwargs
    writes: dict[str, int] = field(default_factory=dict)
    returns: bool = True
    results: tuple[Result, ...] = ()  # of those returns whose text says it
    is_python: bool = True
    key: str = ""  # of the dispatcher

    @property
    def operator(self) -> str:
        return f"{self.space}::{self.name}"

    @property
    def full(self) -> str:
        return self.operator + ("" if self.overload == "default" else f".{self.overload}")
