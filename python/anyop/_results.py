# SPDX-License-Identifier: Apache-2.0
"""Named tuples: what an operator of several results returns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

from anyop import _anyop


def named(
    operator: str, fields: Sequence[str], restore: Callable[[str, tuple[Any, ...]], Any]
) -> type[Any]:
    """The type `<operator>_results`. restore(operator, values) makes a tuple of it again: where one
    is unpickled, the operator is looked up, as types that are made at run time have no module.
    """
    library, _, name = operator.rpartition(".")
    is_builtin = library == "anyop"
    make: Any = namedtuple
    made = make(f"{name}_results", fields, module="anyop" if is_builtin else "anyop.ops")
    if not is_builtin:
        made.__qualname__ = f"{library}.{name}_results"
    made.__reduce__ = lambda self: (restore, (operator, tuple(self)))
    kind: type[Any] = made
    return kind


def type_of(operator: str, fields: Sequence[str]) -> type[Any]:
    """What calls of the operator return; `_anyop.result_type` keeps it."""
    return named(operator, fields, restored)


def restored(operator: str, values: tuple[Any, ...]) -> Any:
    """Unpickles the results of a call."""
    function = _anyop.functions().get(operator)
    if function is None:
        raise _anyop.NotAvailable(
            f"{operator}: results of it are unpickled, but no library is loaded that has the "
            "operator. Try loading its library first."
        )
    kind = _anyop.result_type(function)
    fields = kind._fields if kind else ("a tensor",)
    if kind is None or len(fields) != len(values):
        raise _anyop.InvalidArgument(
            f"{operator}: {len(values)} results of it are unpickled, but it has {len(fields)} "
            f"({', '.join(fields)}). Try the library that they were made with."
        )
    return kind._make(values)


def find(attribute: str) -> type[Any] | None:
    """The type behind "my_ops.scale_results"; None for any other name."""
    operator = attribute.removesuffix("_results")
    function = None if operator == attribute else _anyop.functions().get(operator)
    return None if function is None else _anyop.result_type(function)
