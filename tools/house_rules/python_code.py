# SPDX-License-Identifier: Apache-2.0
"""Rules about Python that ruff and mypy do not know: names, lengths, documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from house_rules.tree import NAMED_BY_OTHERS, Breach, Tree

LONGEST_FUNCTION = 60
MOST_PARAMETERS = 7
CHECK, LONGEST_CHECK = "tools/check.py", 40  # minutes
FUNCTION = re.compile(r"_{0,2}[a-z][a-z0-9_]*")
CLASS = re.compile(r"_?[A-Z][A-Za-z0-9]*")
ARGUMENT = re.compile(r"_{0,2}[a-z0-9_]*")
# Words that say nothing of what a thing does.
EMPTY_WORDS = re.compile(r"Manager|Helper|Util(?:s|ity|ities)?(?![a-z])|Impl(?![a-z])|Base$")
EMPTY_PARTS = {"manager", "helper", "helpers", "util", "utils", "utility", "impl"}
FREE = ("python/tests/", "python/anyop/torch/patterns/")  # in how many arguments they take
AS_NUMPY = {"T"}  # a property that everybody knows by this name
# What people who use anyop import. Commands are documented by their help, converters by their rows.
PUBLIC = "python/anyop/"
INTERNAL = (
    "python/anyop/cli/", "python/anyop/bench/commands/", "python/anyop/template/",
    "python/anyop/torch/patterns/",
)  # fmt: skip

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def _functions(tree: Tree) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """File, function, and whether it is a method."""
    for name in tree.named(".py"):
        methods = {
            id(child) for node in tree.nodes(name) if isinstance(node, ast.ClassDef)
            for child in node.body
        }  # fmt: skip
        for node in tree.nodes(name):
            if isinstance(node, Function):
                yield name, node, id(node) in methods


def function_length(tree: Tree) -> Iterator[Breach]:
    """Functions are short, documentation not counted."""
    for name, node, _ in _functions(tree):
        first = node.body[0]
        if ast.get_docstring(node) is not None and len(node.body) > 1:
            first = node.body[1]
        lines = (node.end_lineno or 0) - first.lineno + 1
        if lines > LONGEST_FUNCTION:
            why = f"{node.name} has {lines} lines, but at most {LONGEST_FUNCTION}. Split it."
            yield Breach(name, node.lineno, why)


def parameters(tree: Tree) -> Iterator[Breach]:
    """Functions take few arguments by position.

    Those of decorated ones (commands) are chosen elsewhere; a constructor's are its fields, a
    test's its fixtures.
    """
    for name, node, is_method in _functions(tree):
        if node.decorator_list or node.name == "__init__" or name.startswith(FREE):
            continue
        most = MOST_PARAMETERS + is_method
        if (count := len(node.args.posonlyargs + node.args.args)) > most:
            why = f"{node.name} takes {count} arguments by position, but at most {most}"
            yield Breach(name, node.lineno, why)


def names(tree: Tree) -> Iterator[Breach]:
    """snake_case for functions and arguments, CamelCase for classes, words that say something."""
    for name in tree.named(".py"):
        if name.startswith(NAMED_BY_OTHERS):
            continue
        for node in tree.nodes(name):
            if isinstance(node, Function):
                yield from _function_names(name, node)
            elif isinstance(node, ast.ClassDef):
                if not CLASS.fullmatch(node.name):
                    why = f"the class {node.name} is not written in CamelCase"
                    yield Breach(name, node.lineno, why)
                if match := EMPTY_WORDS.search(node.name):
                    why = f"the class {node.name} holds the empty word {match[0]}"
                    yield Breach(name, node.lineno, why)


def _function_names(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Breach]:
    if not FUNCTION.fullmatch(node.name) and node.name not in AS_NUMPY:
        yield Breach(file, node.lineno, f"the function {node.name} is not written in snake_case")
    if empty := EMPTY_PARTS.intersection(node.name.split("_")):
        why = f"the function {node.name} holds the empty word {min(empty)}"
        yield Breach(file, node.lineno, why)
    arguments = node.args
    for argument in (
        *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
        *filter(None, (arguments.vararg, arguments.kwarg)),
    ):  # fmt: skip
        if not ARGUMENT.fullmatch(argument.arg):
            why = f"the argument {argument.arg} of {node.name} is not written in snake_case"
            yield Breach(file, argument.lineno, why)


def docstring(tree: Tree) -> Iterator[Breach]:
    """What users import is documented: public classes and functions of public modules."""
    for name in tree.named(".py", below=PUBLIC):
        inner = name[len(PUBLIC) :].replace("__init__.py", "").replace("__main__.py", "")
        if name.startswith(INTERNAL) or any(p.startswith("_") for p in inner.split("/")):
            continue
        for node in tree.python(name).body:
            if not isinstance(node, (*Function, ast.ClassDef)) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None:
                yield Breach(name, node.lineno, f"{node.name} is public, but has no docstring")


def budgets(tree: Tree) -> Iterator[Breach]:
    """The steps of ./check may take 40 minutes together, and each says what it buys."""
    if CHECK not in tree.files:
        return
    lines = (tree.text(CHECK) or "").split("\n")
    for node in tree.python(CHECK).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
            continue
        if [t.id for t in node.targets if isinstance(t, ast.Name)] != ["BUDGETS"]:
            continue
        minutes = sum(ast.literal_eval(value) for value in node.value.values)
        if minutes > LONGEST_CHECK:
            why = f"BUDGETS are {minutes:g} minutes, but at most {LONGEST_CHECK}"
            yield Breach(CHECK, node.lineno, f"{why}. Leave more to --all.")
        for value in node.value.values:
            if "  # " not in lines[value.lineno - 1]:
                yield Breach(CHECK, value.lineno, "a budget without its reason beside it")
        names = tuple(ast.literal_eval(key) for key in node.value.keys if key is not None)
        yield from _without_budget(tree, names)


def _without_budget(tree: Tree, names: tuple[str, ...]) -> Iterator[Breach]:
    """Steps that run tests, which grow; a step may stand below one that its name begins with."""
    for call in ast.walk(tree.python(CHECK)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if call.func.id not in ("pytest", "ctest") or len(call.args) < 2:
            continue
        title = call.args[1]
        if isinstance(title, ast.Constant) and not str(title.value).startswith(names):
            yield Breach(CHECK, call.lineno, f'the step "{title.value}" has no budget in BUDGETS')


RULES = (function_length, parameters, names, docstring, budgets)
