# SPDX-License-Identifier: Apache-2.0
"""What is wrong between parts of sources that are right one by one: names that differ, kernels
that take memory which nobody gives, compositions that go round in a circle. `check_sources` runs it
after tools/check_ops.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from anyop._packages import tool

_BIND = re.compile(r"Bind<\s*&\s*(?P<function>\w+)")

_CONTIGUOUS = re.compile(r"AreContiguous<\s*&\s*(?P<function>\w+)")
# The last word of a parameter that has no name is its type.
_TYPES = ("float", "double", "bool", "int64_t", "string_view", "Tensor")


def findings(checker: Any) -> Iterator[Any]:
    """What is wrong in the sources that a `check_ops.Checker` has read."""
    yield from _workspaces(checker)
    yield from _of_ascend(checker)
    if checker.is_whole:
        yield from _names(checker)
        yield from _circles(checker)


def _signature(source: Any, item: Any) -> tuple[str, int] | None:
    """The name that an operator's signature gives it, and where; None where a macro makes it."""
    text = source.texts(item, "signature", is_whole=False)
    name = re.match(r"\s*(\w+)", text[0]) if text else None
    return (name[1], text[1][name.start(1)]) if text and name else None


def _names(checker: Any) -> Iterator[Any]:
    """An operator's variable, signature, file and folder have one name."""
    gradients = {
        text[0] for source, item in checker.all("Op") if (text := source.texts(item, "gradient"))
    }
    folders: dict[Any, list[tuple[Any, Any]]] = {}
    for source in checker.sources:
        ops = [item for item in source.objects if item.kind == "Op"]
        for item in ops:
            name = _signature(source, item)
            if name and name[0] != item.name:
                text = f"the signature calls the operator '{name[0]}', but its variable is "
                yield source.finding(name[1], f"{text}`Op {item.name}`. Rename one of them.")
        if ops and source.path.stem not in [item.name for item in ops]:
            text = f"operator {ops[0].name} is in {source.path.name}, but must be in a file of its "
            yield source.finding(ops[0].at, f"{text}name. Try {ops[0].name}.cc.")
        folders.setdefault(source.path.parent, []).extend(
            (source, item) for item in ops if item.name not in gradients
        )
    for folder, own in folders.items():
        # A folder of several operators has the name of what they have in common.
        if len(own) == 1 and folder.name not in (own[0][1].name, "ops", ""):
            source, item = own[0]
            text = f"operator {item.name} is alone in the folder {folder.name}, but must be in one "
            yield source.finding(item.at, f"{text}of its name. Rename the folder to {item.name}.")


def _workspaces(checker: Any) -> Iterator[Any]:
    """Kernels that take workspace without saying how much: they would get the address 0."""
    for source, item in checker.all("Kernel"):
        bind = _BIND.search(source.masked, *item.body)
        found = checker.function(source, bind["function"]) if bind else None
        if not found or source.has(item, "workspace"):
            continue
        where, at = found
        begin = where.masked.find("{", at)
        use = re.compile(r"\.Workspace<").search(where.masked, begin, _end(where.masked, begin))
        if use:
            yield where.finding(use.start() + 1, f"kernel {item.name} takes workspace, but its "
                                ".workspace does not say how many bytes. Try .workspace = "
                                '"4 * threads * d".')  # fmt: skip


def _of_ascend(checker: Any) -> Iterator[Any]:
    """Kernels in AscendC have the signature's names: tensors are all of one type, so that nothing
    else tells which is which.
    """
    check_ops = tool("check_ops")
    for source, item in checker.all("Kernel"):
        contract = checker.contracts.get(checker.operator_of(source, item) or "")
        if source.path.name not in check_ops.ASCEND_FILES or not contract:
            continue
        signature = check_ops.shown(contract)
        bind = _BIND.search(source.masked, *item.body)
        if not bind and not source.has(item, "run"):
            text = f"kernel {item.name} has no .run, so that nothing launches it. Try "
            yield source.finding(item.at, f"{text}.run = anyop::ascend::Bind<&Run>(). {signature}")
        if not bind:
            continue
        asked = _CONTIGUOUS.search(source.masked, *item.body)
        if asked and asked["function"] != bind["function"]:
            text = f"kernel {item.name} asks for the gaps of the tensors of `{asked['function']}`, "
            tried = f"but runs `{bind['function']}`. Try AreContiguous<&{bind['function']}>."
            yield source.finding(asked.start("function"), text + tried)
        found = checker.function(source, bind["function"])
        if found and not any(checker.compare("", *found, contract)):
            yield from _names_of(item.name, found, contract, signature)
    for source in checker.sources:
        if source.path.name in check_ops.ASCEND_FILES:
            yield from _text_of_ascend(source)


def _text_of_ascend(source: Any) -> Iterator[Any]:
    """Mistakes that a compiler tells in other words, at a line of some header."""
    launched = re.search(r"<<<", source.masked)
    if launched:
        yield source.finding(launched.start(), "kernels of operators are launched by "
            "anyop::ascend::Launch(ctx, {.blocks = n}, kernel, arguments...), which both the "
            "virtual NPU and chips have. Write that in place of <<<...>>>.")  # fmt: skip
    first = re.search(r'^[ \t]*#include [<"](?P<file>anyop/\w+\.h)', source.text, re.M)
    if first and first["file"] != "anyop/ascend.h":
        text = f"{first['file']} is included before anyop/ascend.h, which names this file's "
        yield source.finding(first.start("file"), f"{text}kernels. Include anyop/ascend.h first.")


def _names_of(
    kernel: str, found: tuple[Any, int], contract: Any, signature: str
) -> Iterator[Any]:
    check_ops, (source, at) = tool("check_ops"), found
    values = contract["params"] + contract["results"]
    names = [value["name"] for value in values]
    own = list(check_ops.split(source.masked, at + 1, check_ops.closing(source.masked, at)))[1:]
    if len(own) != len(names):
        return  # told as it is
    for (place, text), name, value in zip(own, names, values, strict=True):
        given = re.search(r"[\s&*>](\w+)(?:\s*\[\[\w+\]\])?$", text)
        if not given or given[1] in (name, *_TYPES):
            continue
        where = place + given.start(1)
        if given[1] in names:
            text = f"kernel {kernel} takes '{given[1]}' where the signature has '{name}'. "
            order = "Parameters come in the order of the signature. "
            yield source.finding(where, text + order + signature)
            return
        if value.get("kind", "tensor") == "tensor" and not _have_a_word(given[1], name):
            text = f"kernel {kernel} takes a tensor '{given[1]}', but the signature has none of "
            yield source.finding(where, f"{text}this name; here it has '{name}'. {signature}")


def _have_a_word(given: str, name: str) -> bool:
    """'slots' and 'slot_mapping' have: words whose first three letters are the same."""
    own, other = ({w[:3] for w in text.split("_") if len(w) > 2} for text in (given, name))
    return bool(own & other)


def _end(masked: str, begin: int) -> int:
    """Behind the brace that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(masked)):
        depth += (masked[i] == "{") - (masked[i] == "}")
        if depth == 0:
            return i + 1
    return len(masked)


def _circles(checker: Any) -> Iterator[Any]:
    """.means that comes back to its operator, directly or by others'."""
    calls: dict[str, set[str]] = {}
    places: dict[str, tuple[Any, int]] = {}
    for source, item in checker.all("Op"):
        text = source.texts(item, "means", is_whole=False)
        if text:
            calls[item.name] = set(re.findall(r"(?:\w+\.)?(\w+)\(", text[0]))
            places[item.name] = (source, text[1][0])
    for name, (source, at) in places.items():
        way, found = [name], set()
        while way:
            here = way.pop()
            if name in calls.get(here, ()):
                text = f".means of {name} comes back to {name}, by {here}, but must end with "
                yield source.finding(
                    at, f"{text}operators that have kernels. Write one of them without the other."
                )
                break
            found.add(here)
            way += [op for op in calls.get(here, ()) if op in calls and op not in found]
