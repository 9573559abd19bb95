# SPDX-License-Identifier: Apache-2.0
"""Replaces layers of vLLM by ours, in each process, and by operators of a user's own."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

import anyop
from anyop import _anyop
from anyop.vllm import _layers, _native, _others, _providers, _tables

LAYERS = "vllm.model_executor.layers"
ENTRY_POINTS = "anyop.vllm"  # of packages that call `replace`


class Replacement(NamedTuple):
    """What takes the place of a layer, or of an operator of vLLM IR."""

    layer: str
    switch: str  # what custom_ops calls it; of an operator of IR, what ir_op_priority calls it
    operators: tuple[str, ...]  # their full names; none for a function in Python
    by: str  # anyop, or the function that was given to `replace`


class _State:
    """What this process has registered."""

    made: list[Replacement] | None = None
    users: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {}  # noqa: RUF012


def vllm_version() -> tuple[int, ...]:
    text = str(importlib.import_module("vllm").__version__).split("+")[0]
    return tuple(int(part) for part in text.split(".")[:3] if part.isdigit())


def register() -> list[Replacement]:
    """Registers the provider of vLLM IR and every layer of the table, then users' own, once.

    InvalidArgument names what the installed vLLM lacks, or an entry point that fails.
    """
    if _State.made is not None:
        return _State.made
    has_ir = importlib.util.find_spec("vllm.ir") is not None
    rows = _tables.rows(vllm_version(), has_ir)
    misfits: list[str] = []
    made = [r for row in rows if row.operator and (r := _register_row(row, misfits))]
    if misfits:
        installed = importlib.import_module("vllm").__version__
        raise _anyop.InvalidArgument(
            f"anyop.vllm: vLLM {installed} has other layers than the table of anyop says: "
            f"{'; '.join(misfits)}. Install a version of vLLM that `anyop doctor` lists."
        )
    if has_ir:
        made += register_providers()
    _State.made = made
    _load_entry_points()
    return made


def register_providers() -> list[Replacement]:
    """The provider of vLLM IR alone, once; for who sets priorities before layers are made."""
    registry = importlib.import_module("vllm.ir.op").IrOp.registry
    importlib.import_module("vllm.ir.ops")
    _providers.provide(registry)
    return [
        Replacement(name, name, (f"anyop.{ours}",), "anyop") for name, ours in _tables.IR.items()
    ]


def _load_entry_points() -> None:
    """vLLM goes on without a plug-in that cannot be imported; who asked for an operator of their
    own must not get another one.
    """
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()()
        except Exception as error:
            package = point.dist.name if point.dist else "?"
            raise _anyop.InvalidArgument(
                f"anyop.vllm: the entry point {point.name} = {point.value} of {package} raised "
                f"{type(error).__name__}: {error}, but must run, as the engine would serve without "
                f"it. Mend it, or uninstall {package}."
            ) from error


# ---- classes --------------------------------------------------------------------------------


def _register_row(row: _tables.Row, misfits: list[str]) -> Replacement | None:
    module = importlib.import_module(f"{LAYERS}.{row.module}")
    base = getattr(module, row.layer, None)
    if base is None:
        hint = _anyop.did_you_mean(row.layer, [n for n, v in vars(module).items() if _is_class(v)])
        nearest = f" ({hint.strip()})" if hint else ""
        misfits.append(f"{module.__name__} has no class {row.layer}{nearest}")
        return None
    ours = _make(base, row, misfits)
    if row.layer not in _State.users:
        _install(base, ours)
    made: Replacement = ours._anyop  # type: ignore[attr-defined]
    return made


def _is_class(value: Any) -> bool:
    return isinstance(value, type)


def is_ours(cls: type) -> bool:
    return "_anyop" in vars(cls)


def _make(base: type, row: _tables.Row, misfits: list[str]) -> type:
    op = getattr(anyop, row.operator)
    if row.call == "embedding":
        return _embedding_class(base, row, op)
    is_custom_op = hasattr(base, "forward_native")
    native = _native_call(row.layer, is_custom_op, base)
    if row.call:
        forward = getattr(_layers, row.call)(op, native)
    else:
        has_arguments = bool(row.attributes or row.constants)
        forward = _layers.activation(op, native, row.operator, has_arguments)
    theirs = base.forward_native if is_custom_op else base.forward  # type: ignore[attr-defined]
    wanted, got = _parameters(theirs), _parameters(forward)
    if wanted != got:
        misfits.append(f"{row.layer} is called with ({', '.join(wanted)}), not ({', '.join(got)})")
    return _custom_op(base, row, forward) if is_custom_op else _plain(base, row, forward)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def _native_call(layer: str, is_custom_op: bool, base: Any) -> Callable[..., Any]:
    def native(self: Any, why: str, *arguments: Any) -> Any:
        _native.note(layer, why)
        if is_custom_op:
            return self.forward_native(*arguments)
        return base.forward(self, *arguments)

    return native


def _class(base: Any, members: Mapping[str, Any], operators: Iterable[str], by: str) -> type:
    switch = str(members.get("name", getattr(base, "name", "")))
    made = Replacement(base.__name__, switch, tuple(operators), by)
    text = f"{base.__name__} of vLLM, computed by {', '.join(operators) or by}."
    of_all = {"_anyop": made, "__module__": __name__, "__doc__": text}
    return type(f"Anyop{base.__name__}", (base,), {**of_all, **members})


def _class_of_row(base: Any, row: _tables.Row, members: Mapping[str, Any]) -> type:
    operators = [f"anyop.{name}" for name in (row.operator, *row.also)]
    return _class(base, members, operators, "anyop")


def _arguments(layer: Any, row: _tables.Row) -> dict[str, Any]:
    """The operator's further arguments, from what this layer is."""
    for name in row.attributes.values():
        if not hasattr(layer, name):
            hint = _anyop.did_you_mean(name, [n for n in vars(layer) if not n.startswith("_")])
            raise _anyop.InvalidArgument(
                f"anyop.vllm.replace: {row.layer} has no attribute '{name}', but "
                f"{row.operator} is called with it.{hint}"
            )
    return {**row.constants, **{k: getattr(layer, v) for k, v in row.attributes.items()}}


def _custom_op(base: Any, row: _tables.Row, forward: Callable[..., Any]) -> type:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        if row.attributes or row.constants:
            self._anyop_arguments = _arguments(self, row)
        # Chosen again: some layers of vLLM choose their native code for every CPU.
        if self._enforce_enable or self.enabled():
            self._forward_method = self.forward_cpu

    members = {"__init__": init, "forward_cpu": forward, "forward_oot": forward}
    return _class_of_row(base, row, members)


def _switch_of(layer: Any, name: str, is_on_in_none: bool) -> bool:
    """As CustomOp.enabled, for layers that vLLM has no switch for, counted as vLLM counts."""
    config = importlib.import_module("vllm.config").get_cached_compilation_config()
    base = "all" in config.custom_ops or is_on_in_none
    is_on: bool = (base or f"+{name}" in config.custom_ops) and f"-{name}" not in config.custom_ops
    (config.enabled_custom_ops if is_on else config.disabled_custom_ops).update([name])
    return is_on


def _plain(base: Any, row: _tables.Row, forward: Callable[..., Any]) -> type:
    """A module that no registry of vLLM's knows: as if it were a CustomOp of its family."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        if not _switch_of(self, "rotary_embedding", is_on_in_none=False):
            self.forward = base.forward.__get__(self)

    members = {"__init__": init, "forward": forward, "name": "rotary_embedding"}
    return _class_of_row(base, row, members)


def _embedding_class(base: Any, row: _tables.Row, op: Any) -> type:
    """The layer's method is replaced rather than its forward, which knows of shards."""
    method = importlib.import_module(base.__module__).UnquantizedEmbeddingMethod

    def native(self: Any, why: str, *arguments: Any) -> Any:
        _native.note(row.layer, why)
        return method.embedding(self, *arguments)

    embedding = _layers.embedding(op, native)
    ours = type("AnyopEmbeddingMethod", (method,), {"embedding": embedding})

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        is_plain = type(self.quant_method) is method
        if _switch_of(self, base.name, is_on_in_none=True) and is_plain:
            self.quant_method = ours()

    return _class_of_row(base, row, {"__init__": init, "_anyop_method": ours})


def _install(base: Any, ours: type) -> None:
    """Takes the place of `base` in vLLM's registry, unless another plug-in has it."""
    _others.share(_give_way)
    oot = importlib.import_module("vllm.model_executor.custom_op")
    name = base.__name__
    if not hasattr(base, "forward_native") and not issubclass(base, oot.PluggableLayer):
        # get_rope looks the class up by its name in this package.
        package = sys.modules[base.__module__.rpartition(".")[0]]
        if not is_ours(getattr(package, name)):
            setattr(package, name, ours)
        return
    if name not in oot.op_registry_oot:
        # register_oot writes the class's name over the switch's: custom_ops=["-silu_and_mul"] would
        # be ignored then.
        switch = base.name
        oot.CustomOp.register_oot(_decorated_op_cls=ours, name=name)
        ours.name = switch  # type: ignore[attr-defined]


def _give_way(name: str, theirs: type) -> None:
    """Another package registers a class for a name: ours leaves, a user's own is an error."""
    oot = importlib.import_module("vllm.model_executor.custom_op")
    there = oot.op_registry_oot.get(name)
    if there is None or is_ours(theirs) or not is_ours(there):
        return
    if name in _State.users:
        raise _anyop.InvalidArgument(
            f"anyop.vllm: {theirs.__module__}.{theirs.__qualname__} is to replace {name}, but "
            f"{_name_of(_State.users[name][0])} does already, by anyop.vllm.replace. Uninstall one "
            "of the two packages."
        )
    del oot.op_registry_oot[name]


# ---- replace --------------------------------------------------------------------------------


def replace(layer: str | type, function: Callable[..., Any], **attributes: str) -> None:
    """A layer of vLLM is computed by `function` in every model that is loaded from now on.

        def register():                                  # entry point of the group anyop.vllm
            anyop.vllm.replace("SiluAndMul", my_ops.my_silu)
            anyop.vllm.replace("GeluAndMul", my_ops.my_gelu, approximate="approximate")

    layer       a class of vLLM's layers, or its name; subclasses are not meant
    function    an operator, or any function of tensors; called with what the layer is called with
    attributes  further arguments of the function: its parameter, and the layer's attribute

    vLLM's switches stay: custom_ops=["-silu_and_mul"] brings vLLM's own code back. Call it in each
    process, as entry points are. Equal calls may be repeated.

    Errors: InvalidArgument for a class that vLLM does not have, with the nearest name, and for one
    that was replaced otherwise; WrongType for what cannot be called.
    """
    if not callable(function):
        raise _anyop.WrongType(
            f"anyop.vllm.replace: function is {type(function).__name__} {function!r}, but must be "
            f"an operator or a function of tensors."
        )
    base = layer if isinstance(layer, type) else _find_class(layer)
    name = base.__name__
    given = (function, dict(attributes))
    if name in _State.users:
        if _State.users[name] != given:
            raise _anyop.InvalidArgument(
                f"anyop.vllm.replace: {name} is to be {_name_of(function)}, but is replaced by "
                f"{_name_of(_State.users[name][0])} already. Uninstall one of the two packages."
            )
        return
    oot = importlib.import_module("vllm.model_executor.custom_op")
    there = oot.op_registry_oot.get(name)
    if there is not None and not is_ours(there):
        raise _anyop.InvalidArgument(
            f"anyop.vllm.replace: {name} is to be {_name_of(function)}, but another plug-in of "
            f"vLLM's replaced it by {there.__module__}.{there.__qualname__}. Uninstall one of them."
        )
    _State.users[name] = given
    oot.op_registry_oot.pop(name, None)
    _install(base, _user_class(base, function, attributes))


def _name_of(function: Any) -> str:
    if operator := operator_name(function):
        return operator
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"


def users() -> list[str]:
    """The layers that `replace` was called for."""
    return list(_State.users)


def identity() -> list[str]:
    """What tells the layers of this process from those of another: each with what replaces it."""
    made = {one.layer: one.operators for one in register()}
    made |= {layer: (_name_of(function),) for layer, (function, _) in _State.users.items()}
    return [
        " ".join([layer, *(f"{name} {_contract(name)}".rstrip() for name in names)])
        for layer, names in sorted(made.items())
    ]


def _contract(name: str) -> str:
    """The hash of an operator's contract; "" for another function."""
    try:
        return str(json.loads(_anyop.info_json(name))["hash"])
    except _anyop.Error:
        return ""


def operator_name(function: Any) -> str:
    """The full name of an operator; "" for other functions."""
    try:
        return str(json.loads(_anyop.info_json(function))["name"])
    except (_anyop.Error, TypeError):
        return ""


def _user_class(base: Any, function: Callable[..., Any], attributes: dict[str, str]) -> type:
    row = _tables.Row(base.__name__, base.__module__, _name_of(function), attributes)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, **self._anyop_arguments)

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        self._anyop_arguments = _arguments(self, row)
        if hasattr(self, "_forward_method"):
            if self._enforce_enable or self.enabled():
                self._forward_method = self.forward_cpu
        elif not _switch_of(self, self.name, is_on_in_none=True):
            self.forward = base.forward.__get__(self)

    members = {"__init__": init, "forward": forward}
    if hasattr(base, "forward_native"):
        members = {"__init__": init, "forward_cpu": forward, "forward_oot": forward}
    operators = [name for name in (operator_name(function),) if name]
    return _class(base, members, operators, _name_of(function))


def _subclasses(cls: Any) -> Iterator[Any]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _known() -> dict[str, Any]:
    """By name: the classes that vLLM lets others replace, of modules that are imported."""
    oot = importlib.import_module("vllm.model_executor.custom_op")
    found = [*_subclasses(oot.CustomOp), *_subclasses(oot.PluggableLayer)]
    return {cls.__name__: cls for cls in found if not is_ours(cls)}


def _import_homes(name: str) -> None:
    """Imports the modules of vLLM that define a class of this name, or one with this switch. They
    are found by their text, so that no other module is imported.
    """
    package = importlib.import_module("vllm.model_executor")
    root = Path(package.__path__[0])
    for file in sorted(root.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if f"\nclass {name}(" in text or f'.register("{name}"' in text:
            words = file.relative_to(root).with_suffix("").parts
            with suppress(ImportError):  # for another device
                importlib.import_module(".".join((package.__name__, *words)))


def _find_class(name: str) -> Any:
    for row in _tables.rows(vllm_version(), has_ir=False):
        importlib.import_module(f"{LAYERS}.{row.module}")
    importlib.import_module(f"{LAYERS}.linear")
    if name not in _known():
        _import_homes(name)
    known = _known()
    if name in known:
        return known[name]
    installed = importlib.import_module("vllm").__version__
    switches = {getattr(c, "name", ""): n for n, c in reversed(known.items())}
    hint = _anyop.did_you_mean(name, list(known))
    if name in switches:
        hint = f" '{name}' is how custom_ops calls {switches[name]}: give the class."
    raise _anyop.InvalidArgument(
        f"anyop.vllm.replace: layer is '{name}', but vLLM {installed} has no class of that name "
        f"that it lets others replace.{hint}"
    )
