# SPDX-License-Identifier: Apache-2.0
"""Type stubs of operators, from their signatures: `python -m anyop._stubs OUT [LIBRARY FILE]` or
`anyop stubs`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import anyop

HEADER = """# SPDX-License-Identifier: Apache-2.0
# Made by `anyop stubs`; do not edit.
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

import numpy
import torch  # unresolved, and so Any, where torch is not installed

from anyop._anyop import Traced

# All tensors of a call come from one host, which also makes the results.
_Array = TypeVar("_Array", numpy.ndarray[Any, Any], torch.Tensor, Traced)
"""
TYPES = {
    "tensor": "_Array",
    "tensors": "Sequence[_Array]",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "dtype": "Any",
    "ints": "Sequence[int]",
    "floats": "Sequence[float]",
}


def stubs(library: str) -> str:
    """The text of a module's stub: the module's own functions, then the operators."""
    parts = [HEADER]
    if library == "anyop":
        parts.append(module_stub(Path(anyop.__file__).read_text(encoding="utf-8")))
    for spec in anyop.specs():
        if spec["library"] == library:
            parts.append(function_stub(spec))
    return "\n".join(parts)


def module_stub(source: str) -> str:
    """A module without its bodies."""
    kept: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            if not node.name.startswith("__"):
                kept.append(ast.unparse(without_body(node)))
        elif isinstance(node, ast.ClassDef):
            kept.append(ast.unparse(class_without_bodies(node)))
        elif isinstance(node, ast.If):  # TYPE_CHECKING
            kept += [ast.unparse(inner) for inner in node.body]
        elif isinstance(node, ast.Import):
            kept.append(ast.unparse(node))
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = ", ".join(f"{a.name} as {a.name}" for a in node.names)
            kept.append(f"from {node.module} import {names}")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            kept.append(
                f"{name}: Libraries" if name == "ops" else f"{name} = {ast.unparse(node.value)}"
            )
    return "\n".join(kept) + "\n"


def without_body(node: ast.FunctionDef) -> ast.FunctionDef:
    node.body = [ast.Expr(ast.Constant(...))]
    return node


def class_without_bodies(node: ast.ClassDef) -> ast.ClassDef:
    node.body = [
        without_body(item) if isinstance(item, ast.FunctionDef) else item
        for item in node.body
        if isinstance(item, ast.FunctionDef | ast.AnnAssign)
    ]
    return node


def function_stub(spec: dict[str, Any]) -> str:
    name = spec["name"].rpartition(".")[2]
    results = spec["results"]
    keywords = ["policy: str | None = None"]
    if results:
        keywords.insert(0, f"out: {out_type(len(results))} = None")
    # Without a tensor that must be there, nothing in the call's types may say what comes back.
    takes_like = not any(p["kind"] == "tensor" and not p["optional"] for p in spec["params"])
    if takes_like:
        keywords.append("like: Any = None")
    head, returned = "", "None" if not results else "Any" if takes_like else "_Array"
    if len(results) > 1:
        returned = f"{name}_results[{'Any' if takes_like else '_Array'}]"
        head = f"class {name}_results(NamedTuple, Generic[_Array]):\n" + "".join(
            field(r["name"], r["optional"]) for r in results
        )
    return head + "".join(
        f"{mark}def {name}(\n    {arguments},\n) -> {returned}: ...\n"
        for mark, arguments in forms(
            spec["params"], anyop.contract(spec["name"])["facts"]["by_keyword"], keywords
        )
    )


def forms(
    params: list[dict[str, Any]], early: list[int], keywords: list[str]
) -> list[tuple[str, str]]:
    """Decorator and arguments of each form of a function. There are two where only a call by
    keyword can leave out the parameters in `early`: in Python no parameter without a default may
    follow one with it. Parameters before the first of `early` stand by place in both forms.
    """

    def form(*parts: str) -> str:
        return ",\n    ".join([*parts, *keywords])

    given = [parameter(p, not p["required"] and i not in early) for i, p in enumerate(params)]
    if not early:
        return [("", form(*given, "*"))]
    first = early[0]
    named = [parameter(p, not p["required"]) for p in params[first:]]
    return [("@overload\n", form(*given, "*")), ("@overload\n", form(*given[:first], "*", *named))]


def field(name: str, is_optional: bool) -> str:
    """One of several results. It may have the name of a tuple's method, such as `count`, which mypy
    refuses without the comment.
    """
    over = "  # type: ignore[assignment]" if hasattr(tuple, name) else ""
    return f"    {name}: _Array{' | None' if is_optional else ''}{over}\n"


def out_type(n: int) -> str:
    if n == 1:
        return "_Array | None"
    return f"tuple[{', '.join(['_Array | bool | None'] * n)}] | None"


def parameter(p: dict[str, Any], has_default: bool) -> str:
    text = f"{p['name']}: "
    if p["kind"] == "word":
        text += f"Literal[{', '.join(repr(w) for w in p['words'])}]"
    else:
        text += TYPES[p["kind"]]
    if p["optional"]:
        text += " | None"
    return text + (" = ..." if has_default else "")


if __name__ == "__main__":
    out, library, *files = [*sys.argv[1:], "anyop"] if len(sys.argv) == 2 else sys.argv[1:]
    try:
        for file in files:  # where the library is not installed
            anyop.load(file)
        text = stubs(library)
    except anyop.Error as error:
        sys.exit(str(error))  # whole, as it may have several lines
    Path(out).write_text(text, encoding="utf-8")
