# SPDX-License-Identifier: Apache-2.0
"""A framework's tensors made known to every operator."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from anyop import _anyop
from anyop.hosting.facts import Operator

Elsewhere = Callable[[Operator, tuple[Any, ...], Any], Any]

_operator = functools.cache(Operator)


def register(record: Any, elsewhere: Elsewhere | None = None) -> str:
    """Makes a framework's tensors arguments of every operator, and returns the framework's name.

    record     a capsule called ANYOP_PYTHON_HOST, which holds what `anyop/python_host.h` describes
    elsewhere  elsewhere(op, args, out) makes a call that the framework must see, because a tensor's
               view said so (a gradient is needed, the call is traced): args has a value per
               parameter, out is what the caller gave for the results, or None. It returns what the
               operator returns, a tuple where there are several results. It may call
               `op.function` with tensors that the framework need not see.

    Once for each framework: a host stays for as long as the process.

    Errors, InvalidArgument: the record lacks a field, or the framework has a host already.
    """
    if elsewhere is None:
        return _anyop.register_host(record, None)
    chosen = elsewhere

    def by_name(name: str, args: tuple[Any, ...], out: Any) -> Any:
        return chosen(_operator(name), args, out)

    return _anyop.register_host(record, by_name)
