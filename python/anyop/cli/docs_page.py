# SPDX-License-Identifier: Apache-2.0
"""The page of an operator: all of it is made of its signature and of the comment above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyop.cli import docs_calls, docs_example
from anyop.cli.docs_signature import Form, dtypes, forms, laid_out, type_and_shape
from anyop.cli.listing import summary

NAME = r"[a-z_]\w*"
EXPLAINED = re.compile(rf"  ({NAME}(?:, {NAME})*)  *(?<=  )(?![=<>])(?=\S)")
LABEL = re.compile(r"^(Numerics|Source)  +")


@dataclass
class Comment:
    """What the comment above a signature says, by what it is about."""

    definition: list[tuple[str, str]] = field(default_factory=list)  # (code or text, ...)
    of: dict[str, str] = field(default_factory=dict)  # by the name of a parameter or result
    numerics: str = ""
    source: str = ""


@dataclass(frozen=True)
class Beside:
    """What a page has beside what the operator knows of itself."""

    tolerance: str = ""
    times: Sequence[str] = ()  # lines of Markdown
    link: Callable[[str], str] = lambda _source: ""  # to a source file; "" is no link
    gradient_of: str = ""  # the operator whose gradient this one is
    pages: frozenset[str] = frozenset()  # the operators that have one


def read(doc: str, names: set[str]) -> Comment:
    """The comment in parts. Lines `  name  text` explain a parameter or a result."""
    comment, block, explained = Comment(), [], ""
    label = ""
    for line in [*doc.splitlines()[1:], ""]:
        found = EXPLAINED.match(line)
        if match := LABEL.match(line):
            label = match[1].lower()
            setattr(comment, label, line[match.end() :])
        elif label and line.startswith("  "):
            setattr(comment, label, f"{getattr(comment, label)} {line.strip()}")
        elif found and all(n in names for n in found[1].split(", ")):
            explained = found[1]
            for name in explained.split(", "):
                comment.of[name] = line[found.end() :]
        elif explained and re.match(r"   +\S", line):
            for name in explained.split(", "):
                comment.of[name] += " " + line.strip()
        else:
            explained = label = ""
            if line.strip():
                block.append(line)
                continue
        if block and not line.strip():
            comment.definition += _pieces(block)
            block = []
    return comment


def _pieces(block: Sequence[str]) -> list[tuple[str, str]]:
    """Lines that are set in are code, the others a text."""
    pieces: list[tuple[str, str]] = []
    for line in block:
        kind = "code" if line.startswith(" ") else "text"
        if pieces and pieces[-1][0] == kind:
            join = "\n" if kind == "code" else " "
            pieces[-1] = (kind, pieces[-1][1] + join + line.removeprefix("  "))
        else:
            pieces.append((kind, line.removeprefix("  ")))
    return pieces


def escaped(text: str) -> str:
    """Plain text as Markdown: what would be read as a sign of it is shown."""
    text = re.sub(r"([\\`*_\[\]#|])", r"\\\1", text)
    return text.replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """In a table: a bar would end the cell."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def page(spec: dict[str, Any], beside: Beside | None = None) -> str:
    beside = beside or Beside()
    first, found = summary(spec), forms(str(spec["signature"]))
    names = {n for f in found for n in (*f.parameters, *f.results)}
    comment = read(str(spec["doc"]), names)
    parts = [f"# {spec['name']}", escaped(first[:1].upper() + first[1:])]
    parts += ["## Signature", _block(laid_out(str(spec["signature"])), "text")]
    parts += definition(comment)
    parts += _tables(spec, found, comment)
    parts += examples(spec)
    parts += ["## Numerics", escaped(comment.numerics)] if comment.numerics else []
    parts += [f"Tolerance of its tests: {beside.tolerance}"] if beside.tolerance else []
    parts += ["## Gradient", gradient(spec, beside)]
    parts += ["## Kernels", "\n".join(kernels(spec))]
    parts += ["## Time", *beside.times] if beside.times else []
    parts += _sources(spec, comment, beside)
    return "\n\n".join(p for p in parts if p) + "\n"


def _block(text: str, language: str = "") -> str:
    return f"```{language}\n{text}\n```"


def definition(comment: Comment) -> list[str]:
    pieces = comment.definition
    shown = [_block(text, "text") if kind == "code" else escaped(text) for kind, text in pieces]
    return ["## Definition", *shown] if shown else []


def _tables(spec: dict[str, Any], found: Sequence[Form], comment: Comment) -> list[str]:
    of = {p["name"]: p for p in spec["params"]}
    rows = ["| parameter | type | shape | meaning | default |", "|---|---|---|---|---|"]
    for name in found[0].parameters:
        cells = _cells(name, [f.parameters[name] for f in found], comment)
        rows.append(f"{cells} {_default(of[name])} |")
    parts = ["## Parameters", "\n".join(rows)]
    choices = {name: choice for f in reversed(found) for name, choice in dtypes(f).items()}
    if choices:
        told = (f"`{name}` is {_or(choice.split(' | '))}" for name, choice in choices.items())
        parts.append("; ".join(told) + ".")
    if found[0].results:
        rows = ["| result | type | shape | meaning |", "|---|---|---|---|"]
        rows += [_cells(name, [f.results[name] for f in found], comment)
                 for name in found[0].results]  # fmt: skip
        parts += ["## Results", "\n".join(rows)]
    return parts


def _or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _cells(name: str, said: Sequence[str], comment: Comment) -> str:
    """Name, types and shapes of all forms, each once, and meaning."""
    pairs = [type_and_shape(text) for text in said]
    kinds = " or ".join(dict.fromkeys(code(kind) for kind, _ in pairs))
    shapes = " or ".join(dict.fromkeys(code(shape) for _, shape in pairs if shape))
    meaning = _meaning(said[0], comment.of.get(name, ""))
    return f"| `{name}` | {kinds} | {shapes} | {meaning} |"


def _meaning(said: str, told: str) -> str:
    """What the comment says, and what the type says in signs."""
    after = said.partition("]")[2] if "[" in said else ""
    parts = [escaped(told)] if told else []
    if match := re.search(r" over ([\w |]+)$", said):
        names = match[1].split(" | ")
        parts.append("may take the memory of " + " or ".join(f"`{n}`" for n in names))
    if match := re.search(r" below (\w+)$", after):
        parts.append(f"entries are less than `{match[1]}`")
    if match := re.search(r" offsets (\w+)$", after):
        parts.append(f"offsets: begin with 0, rise to `{match[1]}` at most")
    if said.startswith("mut "):
        parts.append("is written")
    return "; ".join(parts)


def _default(parameter: dict[str, Any]) -> str:
    if parameter["default"]:
        return code(str(parameter["default"]))
    return "absent" if parameter["optional"] else "-"


def examples(spec: dict[str, Any]) -> list[str]:
    """A call in each host; none for an operator of which no small call is found."""
    made = docs_example.example(spec)
    if made is None:
        return []
    parts = ["## Example"]
    for host in docs_calls.hosts(made):
        language = "cpp" if host == "C++" else "python"
        parts += [f"### {host}", _block(docs_calls.program(made, host).rstrip(), language)]
    return parts


def gradient(spec: dict[str, Any], beside: Beside) -> str:
    if beside.gradient_of:
        return f"It is the gradient of {_linked(beside.gradient_of, beside)}."
    made = spec.get("gradient")
    if not made:
        return "It has none: a backward pass through it is an error that names it."
    names = [f"`{n}`" for n in made["targets"]]
    return f"{_linked(made['op'], beside)} computes it: by {', '.join(names)}."


def _linked(name: str, beside: Beside) -> str:
    return f"[{escaped(name)}]({name}.md)" if name in beside.pages else f"`{name}`"


def kernels(spec: dict[str, Any]) -> list[str]:
    if spec["means"] and not spec["kernels"]:
        calls = spec["means"].replace("; ", "\n")
        return ["It has no kernel: it is these calls.", "", _block(calls)]
    lines = ["The first one that the processor has and that takes the call is run.", ""]
    lines += ["| kernel | takes | needs |", "|---|---|---|"]
    for kernel in spec["kernels"]:
        if kernel["state"] == "not built":
            lines.append(f"| `{kernel['name']}` | not built for this machine | |")
            continue
        when = code(str(kernel["when"])) if kernel["when"] else "every call"
        needs = str(kernel["needs"]).replace(",", ", ") or "-"
        lines.append(f"| `{kernel['name']}` | {when} | {escaped(needs)} |")
    if spec["means"]:
        calls = spec["means"].replace("; ", "\n")
        lines += ["", "Where none takes the call, it is these calls.", "", _block(calls)]
    return lines


def _sources(spec: dict[str, Any], comment: Comment, beside: Beside) -> list[str]:
    parts = ["## Source"]
    if comment.source:
        parts.append(f"Formula and behaviour: {escaped(comment.source)}")
    if file := str(spec.get("source") or ""):
        link = beside.link(file)
        parts.append(f"Code: [{escaped(file)}]({link})" if link else f"Code: `{file}`")
    return parts if len(parts) > 1 else []
