# SPDX-License-Identifier: Apache-2.0
"""Schemas, Meta functions and converters in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from anyop.ascend.lint.functions import CONVERTER, META, Parameter, Registered
from anyop.ascend.lint.names import Function, Names, last_name
from anyop.ascend.lint.results import of_python
from anyop.ascend.lint.schema import NO_LITERAL, NONE_GIVEN, Place

_FAKES = ("register_fake", "impl_abstract", "register_meta")
_CUSTOM = ("custom_op", "triton_op")
_REGISTER = "register_fx_node_ge_converter"


class Module:
    """A file of Python. libraries: names of torch.library.Library objects, with their namespace and
    dispatch key.
    """

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.tree = ast.parse(text)
        self.names = Names(self.tree)
        self.functions = self.names.functions
        self.known: dict[str, int] = {}
        self.libraries: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._library(node.targets, node.value)
            if isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if isinstance(item.context_expr, ast.Call) and item.optional_vars:
                        self._library([item.optional_vars], item.context_expr)

    def _library(self, targets: list[ast.expr], call: ast.Call) -> None:
        if last_name(call.func) != "Library":
            return
        words = texts(call, ("ns", "kind", "dispatch_key"))
        for target in targets:
            self.libraries[ast.unparse(target)] = (
                words.get("ns", ""),
                words.get("dispatch_key", ""),
            )

    def place(self, node: ast.AST) -> Place:
        return Place(self.file, getattr(node, "lineno", 0))

    def calls(self) -> Iterator[ast.Call]:
        yield from (n for n in ast.walk(self.tree) if isinstance(n, ast.Call))

    def schemas(self) -> Iterator[tuple[str, str, Place]]:
        """Namespace, schema and place; "" for the schema of an operator that has none in text."""
        for call in self.calls():
            name = last_name(call.func)
            owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            words = texts(call, ("first", "second"))
            if name == "define" and owner in self.libraries:
                yield self.libraries[owner][0], words.get("first", ""), self.place(call)
            elif name == "define" and "::" in words.get("first", ""):
                space, _, operator = words["first"].partition("::")
                yield space, operator + words.get("second", ""), self.place(call)
            elif name in _CUSTOM and "::" in words.get("first", ""):
                space, _, operator = words["first"].partition("::")
                yield space, operator + words.get("schema", ""), self.place(call)

    def wrappers(self) -> dict[str, int]:
        """Functions of this file that register converters: the number of the parameter that is the
        operator.
        """
        return self.names.wrappers(_REGISTER)

    def registered(self, known: dict[str, int]) -> Iterator[Registered]:
        """known: what `wrappers` gives of all files."""
        self.known = known
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call):
                        yield from self._of(decorator, node)
                    elif last_name(decorator) in _FAKES and isinstance(decorator, ast.Attribute):
                        own = self._custom_op(last_name(decorator.value))
                        yield from (self._made(META, *path, node) for path in own)
            elif isinstance(node, ast.Call):
                yield from self._called(node)

    def _custom_op(self, function: str) -> list[tuple[str, str, str]]:
        """The operator that a function is made one of, for @function.register_fake."""
        found = []
        for decorator in getattr(self.functions.get(function), "decorator_list", ()):
            if isinstance(decorator, ast.Call) and last_name(decorator.func) in _CUSTOM:
                space, _, name = texts(decorator, ("first",)).get("first", "").partition("::")
                found.append((space, name, "default"))
        return found

    def _called(self, call: ast.Call) -> Iterator[Registered]:
        """register(...)(function), and library.impl("name", function, "Meta")."""
        if isinstance(call.func, ast.Call):
            if call.args:
                yield from self._of_value(call.func, call.args[0])
        elif len(call.args) > 1 and last_name(call.func) in ("impl", *_FAKES):
            yield from self._of_value(call, call.args[1])

    def _of_value(self, call: ast.Call, value: ast.expr) -> Iterator[Registered]:
        found = self.names.function(value)
        if found:
            function, by_position, by_name = found
            for made in self._of(call, function):
                kept = bound(made.parameters or (), by_position, by_name)
                yield replace(made, parameters=kept)

    def _of(self, call: ast.Call, function: Function) -> Iterator[Registered]:
        name = last_name(call.func)
        given_operator = self.names.passed(call, _REGISTER, self.known)
        if given_operator:
            operator = operator_of(self.names.meant(given_operator[0]))
            if operator:
                yield self._made(CONVERTER, *operator, function)
            return
        owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        words = [a.value for a in call.args if isinstance(a, ast.Constant)]
        given = [w for w in words if isinstance(w, str)]
        if call.args and isinstance(call.args[0], ast.Name) and call.args[0].id in self.libraries:
            owner = call.args[0].id  # torch.library.impl(library, "name", "Meta")
        space, key = self.libraries.get(owner, ("", ""))
        if name == "impl" and given:
            key = given[1] if len(given) > 1 else key or keyword(call, "dispatch_key")
        if not given or not (name in _FAKES or (name == "impl" and key == "Meta")):
            return
        path = given[0] if "::" in given[0] else f"{space}::{given[0]}"
        space, _, operator_name = path.partition("::")
        stem, _, overload = operator_name.partition(".")
        yield self._made(META, space, stem, overload or "default", function)

    def _made(
        self, role: str, space: str, name: str, overload: str, function: Function
    ) -> Registered:
        arguments = function.args
        results = of_python(function)
        return Registered(
            role, space, name, overload, self.place(function), parameters(arguments),
            takes_any=bool(arguments.vararg or arguments.kwarg), writes=written(function),
            returns=returns(function), key="Meta" if role == META else "", results=results,
        )  # fmt: skip


def operator_of(node: ast.expr) -> tuple[str, str, str] | None:
    """Of torch.ops.SPACE.NAME or torch.ops.SPACE.NAME.OVERLOAD."""
    words = ast.unparse(node).split(".")
    if words[:2] != ["torch", "ops"] or not 4 <= len(words) <= 5:
        return None
    return words[2], words[3], words[4] if len(words) == 5 else "default"


def keyword(call: ast.Call, name: str) -> str:
    """The argument of this name, if it is a constant; else ""."""
    found = next((k.value for k in call.keywords if k.arg == name), None)
    return str(found.value) if isinstance(found, ast.Constant) else ""


def texts(call: ast.Call, names: tuple[str, ...]) -> dict[str, str]:
    """The arguments of a call that are strings, those without a name by `names`."""
    given = dict(zip(names, call.args, strict=False))
    given.update({k.arg: k.value for k in call.keywords if k.arg})
    constant = {n: v.value for n, v in given.items() if isinstance(v, ast.Constant)}
    return {n: v for n, v in constant.items() if isinstance(v, str)}


def parameters(arguments: ast.arguments) -> tuple[Parameter, ...]:
    """Without *args and **kwargs."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = len(positional) - len(arguments.defaults)
    given = [None] * missing + list(arguments.defaults)
    own = [Parameter(a.arg, _value(d)) for a, d in zip(positional, given, strict=True)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return (*own, *(Parameter(a.arg, _value(d), True) for a, d in named))


def bound(
    given: tuple[Parameter, ...], by_position: int, by_name: dict[str, ast.expr]
) -> tuple[Parameter, ...]:
    """What functools.partial leaves of a function's parameters."""
    return tuple(
        Parameter(p.name, _value(by_name[p.name]), True) if p.name in by_name else p
        for p in given[by_position:]
    )


def _value(node: ast.expr | None) -> Any:
    if node is None:
        return NONE_GIVEN
    try:
        return ast.literal_eval(node)
    except ValueError:
        return NO_LITERAL


def written(function: Function) -> dict[str, int]:
    """Parameters that the function's text writes to: x[...] = y, x += y, x.copy_(y)."""
    names = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    found: dict[str, int] = {}

    def add(node: ast.expr) -> None:
        root = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(root, ast.Name) and root.id in names:
            found.setdefault(root.id, node.lineno)

    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    add(target)
        elif isinstance(node, ast.AugAssign):
            add(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            # torch's methods with _ at their end write to the tensor, but for requires_grad_.
            name = node.func.attr
            if name.endswith("_") and not name.startswith("_") and name != "requires_grad_":
                add(node.func.value)
    return found


def returns(function: Function) -> bool:
    """Whether it gives a value; a function that always raises has none to give."""
    if isinstance(function, ast.Lambda):
        return True
    nodes = list(ast.walk(function))
    if any(isinstance(n, ast.Return) and n.value is not None for n in nodes):
        return True
    return isinstance(function.body[-1], ast.Raise)
