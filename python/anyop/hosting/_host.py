# SPDX-License-Identifier: Apache-2.0
"""A framework's tensors made known to every operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from anyop import _anyop
from anyop.hosting.facts import Operator

Elsewhere = Callable[[Operator, tuple[Any, ...], Any], Any]
Bound = Callable[[_anyop.BoundCall, tuple[Any, ...], Any], Any]

_operator = functools.cache(Operator)


def register(record: Any, elsewhere: Elsewhere | None = None, *, bound: Bound | None = None) -> str:
    """Makes a framework's tensors arguments of every operator, and returns the framework's name.

    record     a capsule called ANYOP_PYTHON_HOST, which holds what `anyop/python_host.h` describes
    elsewhere  elsewhere(op, args, out) makes a call that the framework must see, because a tensor's
               view said so (a gradient is needed, the call is traced): args has a value per
               parameter, out is what the caller gave for the results, or None. It returns what the
               operator returns, a tuple where there are several results. It may call
               `op.function` with tensors that the framework need not see.
    bound      in place of elsewhere, for a framework that sees every call (`sees_calls` of the
               record) and keeps calls as texts: bound(call, tensors, out) is given the bound call,
               whose arguments are converted and checked already, and a tensor for each of its
               inputs. The tensors have `dtype`, which NumPy or `to_dtype` of a record knows. It
               returns what `elsewhere` returns.

    Once for each framework: a host stays for as long as the process.

    Errors, InvalidArgument: the record lacks a field, the framework has a host already, or bound
    is given for a framework that does not see every call.
    """
    if elsewhere is None:
        return _anyop.register_host(record, None, bound)
    chosen = elsewhere

    def by_name(name: str, args: tuple[Any, ...], out: Any) -> Any:
        return chosen(_operator(name), args, out)

    return _anyop.register_host(record, by_name, bound)
