# SPDX-License-Identifier: Apache-2.0
"""A Python function as a torch operator by its type hints, as vLLM registers its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.library import Library, infer_schema

from anyop import _anyop

Function = Callable[..., Any]

# Operators live as long as the library that they were defined in.
_library = Library("user", "FRAGMENT")


def direct_register_custom_op(
    op_name: str,
    op_func: Function,
    mutates_args: Sequence[str] | None = None,
    fake_impl: Function | None = None,
    target_lib: Library | None = None,
    dispatch_key: str | None = "CPU",
    tags: Sequence[torch.Tag] = (),
) -> Any:
    """Registers `op_func` as `torch.ops.<library>.<op_name>`, and returns that.

    The schema comes from the type hints (torch.library.infer_schema). Without the checks and the
    autograd of `torch.library.custom_op`, a call costs a fraction; `anyop.define` makes operators
    that also have anyop's checks, shapes and hosts.

    mutates_args  names of the tensor arguments that op_func writes; none by default
    fake_impl     gives results of the right shapes for torch.compile and export; it takes the same
                  parameters with the same defaults, because torch leaves out arguments that have
                  their default
    target_lib    the torch library, which must stay alive; by default one of ours, `user`
    dispatch_key  for which tensors op_func is; None means CPU
    tags          of the operator

    Nothing is registered when it raises InvalidArgument (a ValueError): a hint is missing or of a
    type that torch has not, mutates_args names no tensor argument, the name is taken, fake_impl
    contradicts op_func or is no function, op_func returns and writes nothing, the dispatch key is
    unknown or leaves no room for fake_impl, a tag is none of torch's.
    """
    library = _library if target_lib is None else target_lib
    name = _plain_name(op_name, library.ns)
    full = f"{library.ns}::{name}"
    _check_functions(full, op_func, fake_impl)
    mutated = _checked_names(full, op_func, mutates_args)
    key = _checked_key(full, dispatch_key, fake_impl)
    tags = _checked_tags(full, tags)
    try:
        schema = infer_schema(op_func, mutates_args=mutated)
    except (ValueError, AttributeError) as error:
        raise _refusal(full, f"torch finds no schema for {_name(op_func)}: {error}") from None
    if schema.endswith("-> ()") and not mutated:
        raise _refusal(
            full,
            f"{_name(op_func)} returns nothing and writes nothing, so compilers leave out its "
            "calls. Try naming what it writes in mutates_args",
        )
    if fake_impl is not None:
        _check_fake(full, op_func, fake_impl, mutated, schema)
    if hasattr(getattr(torch.ops, library.ns), name):
        raise _refusal(full, f"an operator of this name is registered already: {_known(full)}")

    def register(where: Library, name: str) -> None:
        where.define(name + schema, tags=tags)
        where.impl(name, op_func, dispatch_key=key)
        if fake_impl is not None:
            where._register_fake(name, fake_impl)

    # torch cannot undo a definition in a library that stays alive. So a trial library, which is
    # destroyed, shows first whether torch accepts everything.
    trial = Library(library.ns, "FRAGMENT")
    try:
        register(trial, f"{name}_on_trial")
    except Exception as error:
        text = str(error).replace(f"{name}_on_trial", name)
        raise _refusal(full, f"torch refuses to register it: {text}") from None
    finally:
        trial._destroy()
    register(library, name)
    return getattr(getattr(torch.ops, library.ns), name)


def _refusal(full: str, text: str) -> Exception:
    end = "" if text.endswith(("?", ".")) else "."
    return _anyop.InvalidArgument(f"{full}: {text}{end}")


def _name(function: Function) -> str:
    return f"{getattr(function, '__name__', type(function).__name__)}()"


def _known(full: str) -> str:
    return "; ".join(str(s) for s in torch._C._jit_get_schemas_for_operator(full))


def _plain_name(op_name: str, namespace: str) -> str:
    own, _, name = op_name.rpartition("::")
    if own not in ("", namespace):
        raise _refusal(op_name, f"the library's name is {namespace}. Try '{namespace}::{name}'")
    if not name.isidentifier():
        raise _refusal(op_name, "an operator's name has letters, digits and _ only")
    return name


def _check_functions(full: str, op_func: Function, fake_impl: Function | None) -> None:
    functions = {"op_func": op_func, **({} if fake_impl is None else {"fake_impl": fake_impl})}
    for parameter, given in functions.items():
        try:
            inspect.signature(given)
        except (TypeError, ValueError):  # no callable, or a builtin whose parameters are unknown
            raise _refusal(
                full, f"{parameter} is {_shown(given)}, but must be a Python function"
            ) from None


def _checked_key(full: str, key: str | None, fake_impl: Function | None) -> str:
    key = key or "CPU"
    if not isinstance(key, str) or torch._C._parse_dispatch_key(key) is None:
        raise _refusal(full, f"torch has no dispatch key {key!r}. Try 'CPU'")
    if fake_impl is not None and key in ("CompositeImplicitAutograd", "Undefined"):
        raise _refusal(
            full,
            f"fake_impl is given, but a {key} function runs on fake tensors itself, so torch "
            "takes no other for them. Try fake_impl=None",
        )
    return key


def _checked_tags(full: str, tags: Sequence[torch.Tag]) -> tuple[torch.Tag, ...]:
    given = tags if isinstance(tags, list | tuple | set | frozenset) else (tags,)
    for tag in given:
        if not isinstance(tag, torch.Tag):
            raise _refusal(
                full,
                f"tags holds {_shown(tag)}, but each must be one of torch's. "
                "Try torch.Tag.pt2_compliant_tag",
            )
    return tuple(given)


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


def _checked_names(
    full: str, op_func: Function, mutates_args: Sequence[str] | None
) -> tuple[str, ...]:
    if isinstance(mutates_args, str):
        raise _refusal(
            full,
            f"mutates_args is {mutates_args!r}, but must be a list of names. "
            f"Try [{mutates_args!r}]",
        )
    names = tuple(mutates_args or ())
    known = list(inspect.signature(op_func).parameters)
    for name in names:
        if name not in known:
            hint = _anyop.did_you_mean(str(name), known)
            raise _refusal(
                full,
                f"mutates_args names {name!r}, but {_name(op_func)} has the parameters "
                f"({', '.join(known)}).{hint or ' Leave it out'}",
            )
    if len(set(names)) < len(names):
        raise _refusal(full, f"mutates_args names an argument twice: {list(names)}")
    return names


def _check_fake(
    full: str, op_func: Function, fake_impl: Function, mutated: tuple[str, ...], schema: str
) -> None:
    """Whether every call of op_func is also one of fake_impl, with the same values."""
    wanted, fake = inspect.signature(op_func), inspect.signature(fake_impl)
    kinds = {p.kind for p in fake.parameters.values()}
    # A function of *args and **kwargs takes every call.
    if inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds:
        return
    for name in wanted.parameters:
        if name in fake.parameters:
            _check_one(full, op_func, wanted.parameters[name], fake.parameters[name])
    if set(wanted.parameters) != set(fake.parameters) or _in_order(wanted) != _in_order(fake):
        raise _refusal(
            full,
            f"fake_impl takes ({', '.join(fake.parameters)}), but must take the parameters of "
            f"{_name(op_func)}: ({', '.join(wanted.parameters)})",
        )
    try:
        fake_schema = infer_schema(fake_impl, mutates_args=mutated)
    except (ValueError, AttributeError):
        return  # without hints there is no more to compare
    if _content(fake_schema) != _content(schema):
        raise _refusal(full, f"fake_impl is {fake_schema}, but {_name(op_func)} is {schema}")


def _check_one(
    full: str, op_func: Function, wanted: inspect.Parameter, fake: inspect.Parameter
) -> None:
    if wanted.default is not fake.default and wanted.default != fake.default:
        raise _refusal(
            full,
            f"in fake_impl {wanted.name} has {_default(fake)}, but in {_name(op_func)} it has "
            f"{_default(wanted)}",
        )
    if wanted.kind != fake.kind:
        raise _refusal(
            full,
            f"in fake_impl {wanted.name} is {fake.kind.description}, but in {_name(op_func)} it is "
            f"{wanted.kind.description}",
        )


def _in_order(signature: inspect.Signature) -> list[str]:
    """The parameters before the first that goes by name alone: their order counts."""
    by_name = inspect.Parameter.KEYWORD_ONLY
    return [name for name, p in signature.parameters.items() if p.kind is not by_name]


def _content(schema: str) -> tuple[set[tuple[str, str, str, str]], list[str]]:
    """What a schema says of each argument, in whatever order, and of the results."""
    parsed = torch._C.parse_schema(f"f{schema}")
    arguments = {
        (a.name, str(a.type), repr(a.default_value), str(a.alias_info is not None))
        for a in parsed.arguments
    }
    return arguments, [str(r.type) for r in parsed.returns]


def _default(parameter: inspect.Parameter) -> str:
    no = parameter.default is inspect.Parameter.empty
    return "no default" if no else f"the default {parameter.default!r}"
