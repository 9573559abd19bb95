# SPDX-License-Identifier: Apache-2.0
"""What Python modules import, and which of it they import late on purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from house_rules.tree import Tree

# (module, what it imports late): why the two know each other. Everything else forms no circle.
LATE: dict[tuple[str, str], str] = {
    ("anyop._hosts", "anyop.torch"): "starts the host once torch is imported",
    ("anyop._hosts", "anyop.jax"): "starts the host once JAX is imported",
    ("anyop._hosts", "anyop.mindspore"): "starts the host once mindspore is imported",
}


@dataclass(frozen=True)
class Import:
    """One module that another imports."""

    line: int
    target: str  # "anyop.torch._route.fast"
    name: str  # what is taken out of it, "": the module itself
    is_late: bool  # in a function, or for types only


def module_name(file: str) -> str:
    """python/anyop/cli/__init__.py: anyop.cli"""
    name = file.removesuffix(".py").removesuffix("/__init__")
    for folder in ("python/", "tools/"):
        name = name.removeprefix(folder)
    return name.replace("/", ".")


def imports(tree: Tree, file: str, outside: bool = False) -> list[Import]:
    """The project's modules that a file imports, by name too; `outside`: the other modules."""
    known = _modules(tree)
    return [i for i in _all_imports(tree, file) if (i.target in known) != outside]


@lru_cache(maxsize=1)
def _modules(tree: Tree) -> frozenset[str]:
    return frozenset(module_name(f.removesuffix("i")) for f in tree.named(".py", ".pyi"))


@lru_cache(maxsize=2000)
def _all_imports(tree: Tree, file: str) -> list[Import]:
    return list(_walk(tree.python(file), _package(file), _modules(tree), False))


def _package(file: str) -> list[str]:
    parts = module_name(file).split(".")
    return parts if file.endswith("/__init__.py") else parts[:-1]


def _walk(
    node: ast.AST, package: list[str], known: frozenset[str], is_late: bool
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from _imported(child, package, known, is_late)
        elif isinstance(child, ast.Call):
            if (target := _dynamic(child)) is not None:
                yield Import(child.lineno, target, "", is_late)
            yield from _walk(child, package, known, is_late)
        else:
            is_later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from _walk(child, package, known, is_late or is_later)


def _imported(
    node: ast.Import | ast.ImportFrom, package: list[str], known: frozenset[str], is_late: bool
) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(node.lineno, alias.name, "", is_late)
        return
    base = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*base, *filter(None, [node.module])])
    for alias in node.names:
        whole = f"{module}.{alias.name}"
        target, name = (whole, "") if whole in known else (module, alias.name)
        yield Import(node.lineno, target, name, is_late)


def _dynamic(call: ast.Call) -> str | None:
    """What importlib.import_module imports, where it is written there."""
    is_import = isinstance(call.func, ast.Attribute) and call.func.attr == "import_module"
    if is_import and call.args and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value)
    return None
