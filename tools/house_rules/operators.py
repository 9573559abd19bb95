# SPDX-License-Identifier: Apache-2.0
"""Rules about names of operators: only an operator's folder knows that it exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from house_rules.texts import LONGEST_FILE
from house_rules.tree import CODE, CPP, Breach, Tree, comments, docstrings, is_test, line_of

DEFINED = re.compile(r"^extern constinit const Op (\w+)\s*\{", re.M)
LOOSE = re.compile(r"^\s*(?:constexpr|const|static)[\w ]* (Op|Reference) (\w+)\{", re.M)
# What may name operators: examples and documents of them, and the rows of vLLM's names.
MAY_NAME = (
    "ops/", "examples/", "docs/", "python/anyop/template/", "tools/goals.py",
    "tools/call_cost_worker.py",
    "tools/house_rules/operators.py", "python/anyop/vllm/", "bindings/vllm/",
)  # fmt: skip
# What benches of whole calls measure, because every framework has it.
BENCHES, MEASURED = "python/anyop/bench/commands/", "add"
# What comments of shared code take for examples: the pattern of CONTRIBUTING.md, and a sum.
EXAMPLES = ("rms_norm", "add")
SHARED = ("src/", "include/", "bindings/", "optest/", "programs/", "python/anyop/")
TABLES = "python/anyop/torch/patterns/"
PLUGIN = "bindings/mindspore/plugin.cc"  # what rows, which name operators, are written with
# Words that only look like operators' names, and what they mean there.
OTHER_MEANINGS = {
    "python/anyop/_graph/traced.py add": "a sum of sizes",
    "python/anyop/_graph/traced.py mul": "a product of sizes",
    "python/anyop/torch/graph_engine/layout.py add": "how a scatter joins values",
    "python/anyop/torch/graph_engine/layout.py mul": "how a scatter joins values",
    "python/anyop/torch/nn/_rotary.py linear": "a kind of rope",
}
SAMPLES = "ops/samples.txt"
STATEMENT = re.compile(r"\bCall\b[^;{]*")  # Call a("add"), b("mul");
CALLED = re.compile(r'\w\("(?:anyop\.)?(\w+)"')
# Dictionaries of patterns/ whose values are operators.
ROWS = ("REGULAR", "BINARY", "OPERATORS")


def operators(tree: Tree) -> dict[str, str]:
    """Operator name to its folder."""
    found = {}
    for name, text in tree.texts(".cc", below="ops/"):
        for match in DEFINED.finditer(text):
            found[match[1]] = name.split("/")[1]
    return found


def operator_elsewhere(tree: Tree) -> Iterator[Breach]:
    """Nothing outside an operator's folder refers to it; compositions (.means) may."""
    homes = operators(tree)
    if not homes:
        return
    word = "|".join(sorted(homes, key=len, reverse=True))
    unseen = {m for m in OTHER_MEANINGS if m.split()[0] in tree.files}
    for name in tree.named(*CODE):
        if is_test(name) or name == PLUGIN or name.startswith(TABLES):
            continue
        if name.startswith(MAY_NAME) and not name.startswith("ops/common/"):
            continue
        found = _in_python(tree, name, word) if name.endswith(".py") else _in_cpp(tree, name, word)
        for line, operator in found:
            if (meaning := f"{name} {operator}") in OTHER_MEANINGS:
                unseen.discard(meaning)
                continue
            if name.startswith(BENCHES) and operator == MEASURED:
                continue
            home = homes[operator]
            yield Breach(name, line, f"names the operator {operator}, which only ops/{home}/ may")
    for name, operator in map(str.split, sorted(unseen)):
        yield Breach(name, 0, f"does not hold '{operator}' any more: see OTHER_MEANINGS")


def operator_in_comment(tree: Tree) -> Iterator[Breach]:
    """Comments of shared code take few operators for examples, so that none looks special there."""
    words = sorted(set(operators(tree)) - set(EXAMPLES), key=len, reverse=True)
    if not words:
        return
    # A name without _ is an English word where "anyop." does not stand before it.
    alone = "|".join(word for word in words if "_" in word) or "(?!)"
    named = re.compile(rf"\banyop\.({'|'.join(words)})\b|\b({alone})\b")
    for name in tree.named(*CPP, ".py", below=SHARED):
        if is_test(name) or name.startswith((*MAY_NAME, TABLES)):
            continue
        for comment in comments(tree, name):
            for match in named.finditer(comment.text):
                line = comment.line + comment.text.count("\n", 0, match.start())
                operator = match[1] or match[2]
                yield Breach(name, line, f"names {operator} for an example: try {EXAMPLES[0]}")


def _in_cpp(tree: Tree, name: str, word: str) -> Iterator[tuple[int, str]]:
    code = tree.cpp(name).code if name.endswith(CPP) else tree.text(name) or ""
    pattern = rf"\banyop\.(?P<a>{word})\b|\bops::(?P<b>{word})\b|\bops/(?P<c>{word})/"
    if not name.startswith("ops/"):  # a word of a parameter may be an operator's name
        pattern += rf'|"(?:anyop\.)?(?P<d>{word})"'
    for match in re.finditer(pattern, code):
        yield line_of(code, match), next(g for g in match.groups() if g)


def _in_python(tree: Tree, name: str, word: str) -> Iterator[tuple[int, str]]:
    documents = {id(d) for d in docstrings(tree, name)}
    whole = re.compile(rf"(?:anyop\.)?({word})")
    part = re.compile(rf"\banyop\.({word})\b|\bops/({word})/")
    for node in tree.nodes(name):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documents:
                continue
            match = whole.fullmatch(node.value) or part.search(node.value)
            if match:
                yield node.lineno, next(g for g in match.groups() if g)
        elif isinstance(node, ast.Attribute) and re.fullmatch(word, node.attr):
            if (last := node.value) and getattr(last, "attr", getattr(last, "id", "")) == "anyop":
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module in ("anyop", "anyop.ops"):
            for alias in node.names:
                if re.fullmatch(word, alias.name):
                    yield node.lineno, alias.name


def dead_row(tree: Tree) -> Iterator[Breach]:
    """What a framework's names are translated to is an operator."""
    homes = operators(tree)
    for name in tree.named(".py", below=TABLES):
        for line, operator in _rows(tree.nodes(name)):
            if operator not in homes:
                yield Breach(name, line, f"names the operator {operator}, which is not there")


def _rows(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "operator" and isinstance(node.args[0], ast.Constant):
                yield node.lineno, str(node.args[0].value)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch.ops.anyop":
            yield node.lineno, node.attr
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id in ROWS for t in targets):
                yield from _values(node.value)


def _values(node: ast.expr) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Dict):
        for value in node.values:
            yield from _values(value)
    elif isinstance(node, ast.Constant):
        yield node.lineno, str(node.value)


def loose_operator(tree: Tree) -> Iterator[Breach]:
    """An operator is written so that the build finds it, and its folder holds one."""
    homes = set(operators(tree).values()) | {"common"}
    for name in tree.named(".cc", below="ops/"):
        if (folder := name.split("/")[1]) not in homes:
            homes.add(folder)
            yield Breach(name, 0, f"ops/{folder} defines no operator")
    for name in tree.named(".cc", below="ops/"):
        code = tree.cpp(name).code
        for match in LOOSE.finditer(code):
            why = f"{match[2]} must be 'extern constinit const {match[1]}'"
            yield Breach(name, line_of(code, match, 1), why)


def lone_header(tree: Tree) -> Iterator[Breach]:
    """What an operator's cpu.cc alone includes of its folder stands in it."""
    readers: dict[str, set[str]] = {}
    for name in tree.named(*CPP):
        for _, path, is_quoted in tree.cpp(name).includes:
            if is_quoted and path.startswith("ops/"):
                readers.setdefault(path, set()).add(name)
    for name in tree.named(".h", below="ops/"):
        cpu = f"{name.rpartition('/')[0]}/cpu.cc"
        if name.startswith("ops/common/") or readers.get(name) != {cpu}:
            continue
        length = sum((tree.text(file) or "").count("\n") for file in (name, cpu))
        if length <= LONGEST_FILE:
            yield Breach(name, 0, f"is included by {cpu} alone: write it there")


def sample(tree: Tree) -> Iterator[Breach]:
    """A sample of operators is there, with the operators that its tests call."""
    homes = operators(tree)
    lines = (tree.text(SAMPLES) or "").split("\n") if SAMPLES in tree.files else []
    for number, line in enumerate(lines, 1):
        title, _, listed = line.partition(":")
        names = set(listed.split()) if re.fullmatch(r"\w+", title) else set()
        for name in sorted(names - set(homes.values())):
            if not tree.named(".cc", below=f"ops/{name}/"):
                yield Breach(SAMPLES, number, f"{title} names ops/{name}, which is not there")
        tests = [(f, t) for n in names for f, t in tree.texts("test.cc", below=f"ops/{n}/")]
        for file, text in tests:
            statements = " ".join(STATEMENT.findall(text))
            for called in set(CALLED.findall(statements)) & set(homes):
                if homes[called] not in names:
                    why = f"{title} lacks ops/{homes[called]}, which {file} calls"
                    yield Breach(SAMPLES, number, why)


RULES = (operator_elsewhere, operator_in_comment, dead_row, loose_operator, lone_header, sample)
