# SPDX-License-Identifier: Apache-2.0
"""What the names of a Python file stand for: imports under another name, assignments, functions
that pass an argument on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.Lambda
_DEEPEST = 16  # steps from a name to what it stands for; circles end there


class Names:
    """Of one file. Names are looked up without scopes: the file's last assignment counts."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self._meant: dict[str, ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        self._meant[alias.asname] = _path(alias.name)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._meant[alias.asname or alias.name] = _path(f"{node.module}.{alias.name}")
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assigned(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and node.value:
                self._assigned(node.target, node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._meant[target.id] = value

    def meant(self, node: ast.expr, deep: int = 0) -> ast.expr:
        """The expression with the names at its root replaced: of add = ops.x.add, where ops is
        torch.ops, torch.ops.x.add.
        """
        if isinstance(node, ast.Name) and node.id in self._meant and deep < _DEEPEST:
            found = self._meant[node.id]
            own_root = found
            while isinstance(own_root, ast.Attribute):
                own_root = own_root.value
            if isinstance(own_root, ast.Name) and own_root.id == node.id:
                return found  # from reg import reg
            return self.meant(found, deep + 1)
        if isinstance(node, ast.Attribute):
            return ast.Attribute(self.meant(node.value, deep), node.attr, ast.Load())
        if isinstance(node, ast.Call) and last_name(node.func) == "getattr" and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return ast.Attribute(self.meant(node.args[0], deep), name.value, ast.Load())
        return node

    def passed(self, call: ast.Call, name: str, known: dict[str, int]) -> list[ast.expr]:
        """The first argument that a call gives to the function `name`: itself, by partial, or by a
        function that passes a parameter of its own on. known: such functions of other files, with
        the number of that parameter.
        """
        function = self.meant(call.func)
        if last_name(function) == name:
            return call.args[:1]
        if isinstance(function, ast.Call) and last_name(function.func) == "partial":
            bound = function.args
            if bound and last_name(self.meant(bound[0])) == name:
                return [*bound[1:], *call.args][:1]
        at = {**known, **self.wrappers(name)}.get(last_name(function))
        return [] if at is None else call.args[at : at + 1]

    def wrappers(self, name: str) -> dict[str, int]:
        """Functions that call `name` with a parameter of their own, with its number."""
        found: dict[str, int] = {}
        for own, function in self.functions.items():
            parameters = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
            for node in ast.walk(function):
                if not isinstance(node, ast.Call) or last_name(self.meant(node.func)) != name:
                    continue
                given = node.args[0] if node.args else None
                if isinstance(given, ast.Name) and given.id in parameters:
                    found[own] = parameters.index(given.id)
        return found

    def function(self, node: ast.expr) -> tuple[Function, int, dict[str, ast.expr]] | None:
        """The function that an expression gives, and what functools.partial binds of it: so many
        arguments by position, and those by name.
        """
        if isinstance(node, ast.Lambda):
            return node, 0, {}
        if isinstance(node, ast.Name) and node.id in self.functions:
            return self.functions[node.id], 0, {}
        meant = self.meant(node)
        if isinstance(meant, ast.Lambda):
            return meant, 0, {}
        if isinstance(meant, ast.Name) and meant.id in self.functions:
            return self.functions[meant.id], 0, {}
        if not isinstance(meant, ast.Call) or not meant.args:
            return None
        wrapper = last_name(self.meant(meant.func))
        inner = (
            self.function(meant.args[0]) if wrapper in ("partial", "cache", "lru_cache") else None
        )
        if inner is None or wrapper != "partial":
            return inner
        names = {k.arg: k.value for k in meant.keywords if k.arg}
        return inner[0], inner[1] + len(meant.args) - 1, {**inner[2], **names}


def _path(text: str) -> ast.expr:
    first, *others = text.split(".")
    node: ast.expr = ast.Name(first, ast.Load())
    for word in others:
        node = ast.Attribute(node, word, ast.Load())
    return node


def last_name(node: ast.expr) -> str:
    """Of a.b.c the c; "" where no name ends it."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """What a function's text holds, without the functions in it."""
    todo: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else [*function.body]
    while todo:
        node = todo.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(node)
