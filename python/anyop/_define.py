# SPDX-License-Identifier: Apache-2.0
"""Operators written in Python: `anyop.define`."""

from __future__ import annotations

import inspect
import json
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyop import _anyop, _hosts
from anyop._accept import Acceptor, name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

_CALLERS = ""  # in place of a host's name: the function takes the tensors of whoever calls
_defined: dict[str, Function] = {}  # by full name: what the first definition bound
_lock = threading.RLock()


def define(
    signature: str,
    function: Function | None = None,
    *,
    library: str = "user",
    gradient: str = "",
    numpy: Function | None = None,
    torch: Function | None = None,
    flops: str = "",
    bytes: str = "",
    **hosts: Function,
) -> Any:
    """Makes a Python function an operator of `library`, and returns the operator.

        @anyop.define("twice(x: T[...]) -> (y: T[...]) where T in f32 | f64")
        def twice(x):
            return x + x

    It is an operator like those in C++: the signature checks arguments and allocates results,
    `anyop.explain`, counters and policies know it, and torch has it as `torch.ops.<library>.twice`,
    with a fake and, where `gradient` names an operator, autograd.

    The function takes the parameters of the signature, in order: NumPy arrays from a caller with
    NumPy arrays, torch tensors from a caller with those; `numpy=` and `torch=` (and any other host
    by its module's name) give a function that always takes that kind, whoever calls. Nothing is
    copied for it. It returns the results, in order, of exactly the promised dtypes and shapes, and
    they are copied to the caller's; where it has a parameter `out`, it may write there itself. It
    changes nothing but `mut` arguments, and keeps no argument beyond its call. It is not called
    where there is nothing to write.

    gradient      an operator of the same library that is defined already; names wire it, as in C++
    flops, bytes  costs, as expressions of the signature's language

    What the function raises reaches a caller in Python as it is. Defining the same contract again
    changes nothing and returns the first operator (with a RuntimeWarning if the function differs).

    Errors, InvalidArgument: the signature does not parse; another contract has the name; the
    library is `anyop`; the function does not take the signature's parameters; the gradient is not
    defined or does not fit.
    """

    def make(function: Function | None) -> Function:
        for host in hosts:
            if host not in _anyop.hosts():
                known = [*inspect.signature(define).parameters, *_anyop.hosts()]
                raise _anyop.WrongType(
                    f"define: unknown argument '{host}'.{_anyop.did_you_mean(host, known)}"
                )
        own = {"numpy": numpy, "torch": torch, **hosts}
        functions = [(f, host) for host, f in own.items() if f is not None]
        if function is not None:
            functions.insert(0, (function, _CALLERS))
        return _define(signature, library, gradient, flops, bytes, functions)

    if function is None and numpy is None and torch is None and not hosts:
        return make
    return make(function)


def _define(
    signature: str,
    library: str,
    gradient: str,
    flops: str,
    bytes: str,
    functions: list[tuple[Function, str]],
) -> Function:
    contract = json.loads(_anyop.parse(signature))
    name = f"{library}.{contract['name']}"
    _check_library(name, library)
    _check_gradient(name, library, gradient)
    rows = [(f, host, _takes_out(name, f, contract["params"])) for f, host in functions]
    first = functions[0][0]
    file, line = _place(first)
    # Together: of threads that define one name at once, `_defined` holds whose function was bound.
    with _lock:
        operator, is_new = _anyop.define(
            library, signature, gradient, flops, bytes,
            inspect.getdoc(first) or "", file, f"{Path(file).name}:{line}",
            rows, Acceptor(name, [r["name"] for r in contract["results"]]),
        )  # fmt: skip
        if is_new:
            _defined[name] = first
    if is_new:
        _hosts.operators_changed()
    elif not _is_same(first, _defined.get(name)):
        warnings.warn(
            f"{name} is defined already, with the same signature: the function at {file}, line "
            f"{line}, is not bound. Try another name, or a new process.",
            RuntimeWarning,
            stacklevel=4,
        )
    return operator


def _check_library(name: str, library: str) -> None:
    if library == "anyop":
        raise _anyop.InvalidArgument(
            f"{name}: the library anyop holds built-in operators only. Try library='user'."
        )
    if not library.isidentifier():
        raise _anyop.InvalidArgument(
            f"{name}: the library is {_anyop.show(library)}, but must be a name: letters, digits "
            "and _."
        )


def _check_gradient(name: str, library: str, gradient: str) -> None:
    if gradient and f"{library}.{gradient}" not in _anyop.functions():
        names = list(_anyop.functions())
        known = [n.partition(".")[2] for n in names if n.startswith(f"{library}.")]
        raise _anyop.InvalidArgument(
            f"{name}: its gradient is '{gradient}', but the library {library} has no such operator "
            f"yet.{_anyop.did_you_mean(gradient, known)} Try defining the gradient first."
        )


def _takes_out(name: str, function: Function, params: list[dict[str, Any]]) -> bool:
    """Whether the function has a parameter `out`. It must take all others by position."""
    try:
        own = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise _anyop.InvalidArgument(
            f"{name}: the parameters of {_anyop.show(function)} cannot be read. Try a def around "
            "it."
        ) from None
    out = own.pop("out", None)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [p["name"] for p in params]
    if list(own) != wanted or any(p.kind not in kinds for p in own.values()):
        empty = inspect.Parameter.empty
        shown = ", ".join(str(p.replace(annotation=empty, default=empty)) for p in own.values())
        raise _anyop.InvalidArgument(
            f"{name}: {name_of(function)}({shown}) must take the parameters of the signature, in "
            f"order: ({', '.join(wanted)})."
        )
    for param in params:
        _check_default(name, function, own[param["name"]], param)
    return out is not None


def _check_default(
    name: str, function: Function, own: inspect.Parameter, param: dict[str, Any]
) -> None:
    if own.default is inspect.Parameter.empty:
        return
    # As the contract has it, which is JSON: tuples are lists there, and dtypes their names.
    default = list(own.default) if isinstance(own.default, tuple) else own.default
    if param["kind"] == "dtype" and default is not None:
        default = _anyop.dtype_name(default)
    implied = {"default": None} if param.get("optional") else {}
    promised = {**implied, **param}
    if "default" in promised and default == promised["default"]:
        return
    says = f"has {promised['default']!r}" if "default" in promised else "has none"
    raise _anyop.InvalidArgument(
        f"{name}: {name_of(function)}() has the default {own.name}={own.default!r}, but the "
        f"signature, whose defaults hold, {says}. Leave it out of the function."
    )


def _place(function: Function) -> tuple[str, int]:
    """File and line of a function, for messages."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return f"<{type(function).__name__}>", 0
    return code.co_filename, code.co_firstlineno


# By their code: a module that runs twice makes two objects of one function.
def _is_same(function: Function, other: Function | None) -> bool:
    code = getattr(function, "__code__", function)
    return code == getattr(other, "__code__", other)
