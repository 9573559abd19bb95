# SPDX-License-Identifier: Apache-2.0
"""Reads the C++ files of operators and says in sentences what the compiler would say in pages, or
not at all: a kernel in no list, an `Op` without `extern`, a file that no instruction set builds.

Needs only Python's standard library, because builds of packages run it without anyop. Where anyop
is there, it hands in `Language`, and signatures and kernels' parameters are looked at too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from kernel_files import ASCEND_FILES, ASCEND_KERNEL, KERNEL, closing, mask  # beside this file

LITERAL = re.compile(
    r'R"(?P<tag>[^()\s\\]{0,16})\((?P<raw>.*?)\)(?P=tag)"|"(?P<text>(?:\\.|[^"\\\n])*)"', re.S
)
BETWEEN = re.compile(r"(?:\s+|//[^\n]*)*")
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
OBJECT = re.compile(
    r"^(?P<head>[ \t]*(?:[\w:]+[ \t]+)*)(?P<kind>Op|Kernel|Reference)[ \t]+(?P<name>\w+)[ \t]*"
    r"(?P<open>\{|=)",
    re.M,
)
DECLARED = re.compile(
    r"^[ \t]*extern\s+const\s+Kernel\s+(?P<name>\w+)(?P<weak>\s*\[\[gnu::weak\]\])?\s*;", re.M
)
LIST = re.compile(r"\bKernel\s*\*\s*(?:const\s+)?\w+\s*\[\s*\w*\s*\]\s*=\s*\{(?P<items>[^}]*)\}")
BIND = re.compile(r"Bind<\s*&\s*(?P<function>\w+)")
# What a kernel's parameter may be, by the kind of the signature's parameter; the first is shown.
TYPES = {
    "tensor": (["const Tensor&"], ["const Tensor*"]),
    "tensors": ([_LISTS := "std::span<const Tensor* const>"], [f"std::optional<{_LISTS}>"]),
    "int": (["std::int64_t", "int64_t"], ["std::optional<std::int64_t>"]),
    "float": (["float", "double"], ["std::optional<float>", "std::optional<double>"]),
    "bool": (["bool"], ["std::optional<bool>"]),
    "word": (["std::string_view"], ["std::optional<std::string_view>"]),
    "dtype": (["DType"], ["std::optional<DType>"]),
    "ints": (["std::span<const std::int64_t>"], ["std::optional<std::span<const std::int64_t>>"]),
    "floats": (["std::span<const double>"], ["std::optional<std::span<const double>>"]),
}

KINDS = {
    "tensor": "a tensor", "tensors": "a list of tensors", "int": "an int", "float": "a float",
    "bool": "a bool", "word": "a word", "dtype": "a dtype", "ints": "a list of ints",
    "floats": "a list of floats",
}  # fmt: skip
_KNOWN = """const Tensor float double bool int long short unsigned char size_t std::size_t int64_t
int32_t std::int32_t uint64_t std::uint64_t std::string std::string_view std::optional std::span
std::vector DType BF16 F16"""
KNOWN_TYPES = set(_KNOWN.split())


class Language(Protocol):
    """What anyop knows of signatures. Each returns the contract or nothing, and raises ValueError
    with "..., line L, column C: sentence." and the text below it.
    """

    def parse(self, signature: str) -> dict[str, Any]: ...
    def expression(self, signature: str, kind: str, text: str) -> None: ...
    def between(self, checker: Checker) -> Iterator[Finding]: ...


@dataclass(frozen=True)
class Finding:
    file: str
    line: int  # from 1
    column: int  # from 1
    sentence: str
    source: str  # the line

    def __str__(self) -> str:
        caret = " " * (self.column - 1) + "^"
        return f"{self.file}:{self.line}:{self.column}: {self.sentence}\n  {self.source}\n  {caret}"


@dataclass
class Object:
    """An Op, Kernel or Reference that a file defines."""

    kind: str
    name: str
    at: int
    is_extern: bool
    body: tuple[int, int]  # between the braces
    op: str = ""  # of ANYOP_KERNEL


@dataclass
class Source:
    path: Path
    text: str
    masked: str  # without comments and texts, every offset as it is
    objects: list[Object] = field(default_factory=list)

    def has(self, item: Object, name: str) -> bool:
        return bool(re.compile(rf"\.{name}\s*=").search(self.masked, *item.body))

    def finding(self, at: int, sentence: str) -> Finding:
        at = min(at, len(self.text))
        begin = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        source = self.text[begin : end if end >= 0 else len(self.text)]
        return Finding(
            str(self.path), self.text.count("\n", 0, at) + 1, at - begin + 1, sentence, source
        )

    def texts(self, item: Object, name: str, is_whole: bool = True) -> tuple[str, list[int]] | None:
        """A field's text, and where its characters stand. is_whole: None where a macro follows."""
        found = re.compile(rf"\.{name}\s*=").search(self.masked, *item.body)
        if not found:
            return None
        text, places, at = "", [found.end()], found.end()
        while piece := LITERAL.match(self.text, BETWEEN.match(self.text, at).end()):  # type: ignore[union-attr]
            places.pop()
            for letter, place in letters(piece):
                text += letter
                places.append(place)
            places.append(piece.end() - 1)
            at = piece.end()
        is_cut = is_whole and self.masked[at : item.body[1]].lstrip()[:1] not in ("", ",")
        return (text, places) if at > found.end() and not is_cut else None


def letters(piece: re.Match[str]) -> Iterator[tuple[str, int]]:
    """The characters that a C++ literal means, and where they stand."""
    if piece["raw"] is not None:
        yield from zip(piece["raw"], range(piece.start("raw"), piece.end("raw")), strict=True)
        return
    at = piece.start("text")
    while at < piece.end("text"):
        letter = piece.string[at]
        if letter == "\\":
            yield ESCAPES.get(piece.string[at + 1], piece.string[at + 1]), at
            at += 2
        else:
            yield letter, at
            at += 1


def read(path: Path) -> Source:
    text = path.read_text(encoding="utf-8", errors="replace")
    source = Source(path, text, mask(text))
    for found in OBJECT.finditer(source.masked):
        if found["open"] == "=" and found["kind"] == "Kernel" and "[" in found[0]:
            continue
        brace = source.masked.find("{", found.start("open"))
        end = closing(source.masked, brace) if brace >= 0 else found.end()
        body = (brace + 1 if brace >= 0 else end, end)
        words = found["head"].split()
        if "return" in words or "struct" in words:
            continue
        source.objects.append(
            Object(found["kind"], found["name"], found.start("kind"), "extern" in words, body)
        )
    for found in (ASCEND_KERNEL if path.name in ASCEND_FILES else KERNEL).finditer(source.masked):
        brace = found.start("open")
        body = (brace + 1, closing(source.masked, brace))
        at, op = found.start("op"), found["op"]
        name = f"{op}, {found['word']}" if found["word"] else op
        source.objects.append(Object("Kernel", name, at, True, body, op))
    return source


def near(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f" Did you mean '{close[0]}'?" if close else ""


class Checker:
    def __init__(
        self, files: list[Path], isas: list[str], language: Language | None, is_whole: bool
    ) -> None:
        self.sources = [read(path) for path in files if path.suffix in (".cc", ".cpp", ".asc")]
        self.headers = [read(path) for path in files if path.suffix == ".h"]
        self.isas, self.language, self.is_whole = isas, language, is_whole
        self.contracts: dict[str, dict[str, Any]] = {}  # by the operator's C++ name

    def run(self) -> list[Finding]:
        checks: list[Callable[[Source], Iterator[Finding]]] = [
            self.file_name, self.not_extern, self.signatures, self.names,
        ]  # fmt: skip
        if self.is_whole:
            checks += [self.unlisted, self.undefined, self.other_operators]
        if self.language:
            checks += [self.expressions, self.parameters]
        found = [f for check in checks for source in self.sources for f in check(source)]
        found += self.language.between(self) if self.language else ()
        # What several kernels have in common is told once.
        places = {(f.file, f.line, f.column): f for f in reversed(found)}
        return [places[at] for at in sorted(places)]

    def all(self, kind: str) -> Iterator[tuple[Source, Object]]:
        for source in self.sources:
            yield from ((source, item) for item in source.objects if item.kind == kind)

    def file_name(self, source: Source) -> Iterator[Finding]:
        """A file of an instruction set that the build does not know is left out in silence."""
        stem = source.path.stem
        name = stem.removeprefix("cpu_")
        known = ", ".join(f"cpu_{isa}.cc" for isa in self.isas)
        if stem.startswith("cpu_") and name not in self.isas:
            hint = near(name, self.isas).replace("'", "'cpu_", 1).replace("'?", ".cc'?")
            yield source.finding(0, f"no instruction set is called '{name}', so that this file is "
                                 f"never built; the names are {known}.{hint}")  # fmt: skip
        elif name in self.isas and not stem.startswith("cpu_"):
            yield source.finding(0, f"this file is built for every processor, though it is called "
                                 f"after an instruction set. Call it cpu_{name}.cc.")  # fmt: skip

    @cached_property
    def declared(self) -> set[str]:
        everything = self.sources + self.headers
        return {m["name"] for source in everything for m in DECLARED.finditer(source.masked)}

    def not_extern(self, source: Source) -> Iterator[Finding]:
        for item in source.objects:
            if item.is_extern:
                continue
            if item.kind in ("Op", "Reference"):
                yield source.finding(item.at, f"{item.kind} {item.name} is in no table, because "
                    f"the build looks for a line that begins with `extern constinit const "
                    f"{item.kind} {item.name}{{`. Write that.")  # fmt: skip
            elif item.name in self.declared:
                yield source.finding(item.at, f"kernel {item.name} is declared in another file, "
                    "which cannot see this one: it is not extern. Write `extern constinit const "
                    f"Kernel {item.name}{{`.")  # fmt: skip

    def signatures(self, source: Source) -> Iterator[Finding]:
        for item in source.objects:
            if item.kind != "Op":
                continue
            signature = source.texts(item, "signature")
            if signature is None and not source.has(item, "signature"):
                yield source.finding(item.at, f"operator {item.name} has no .signature.")
            if signature is None or not self.language:  # made by a macro, which nobody reads here
                continue
            try:
                self.contracts[item.name] = self.language.parse(signature[0])
            except ValueError as error:
                yield self.placed(source, signature, error)

    def placed(self, source: Source, text: tuple[str, list[int]], error: ValueError) -> Finding:
        """An error of the language at its place in the file."""
        place = re.match(r".*?line (\d+), column (\d+): (.*?)(\n|$)", str(error), re.S)
        if not place:
            return source.finding(text[1][0], str(error).partition("\n")[0])
        lines = text[0].split("\n")
        index = sum(len(line) + 1 for line in lines[: int(place[1]) - 1]) + int(place[2]) - 1
        sentence = place[3]
        return source.finding(text[1][min(index, len(text[1]) - 1)], sentence)

    @cached_property
    def named_twice(self) -> list[tuple[Source, int, str, str]]:
        """Where a signature has a name that another one has, the name, and that other one."""
        seen: dict[str, str] = {}
        twice = []
        for source, item in self.all("Op"):
            signature = source.texts(item, "signature", is_whole=False)
            name = re.match(r"\s*(\w+)", signature[0]) if signature else None
            if not signature or not name:
                continue
            if name[1] in seen:
                twice.append((source, signature[1][name.start(1)], name[1], seen[name[1]]))
            seen.setdefault(name[1], f"{item.name} in {source.path}")
        return twice

    def names(self, source: Source) -> Iterator[Finding]:
        for where, at, name, other in self.named_twice:
            if where is source:
                yield source.finding(at, f"the signature's name '{name}' is taken by operator "
                                     f"{other}. Rename one of them.")  # fmt: skip

    @cached_property
    def listed(self) -> dict[str, tuple[Source, int]]:
        """The kernels that some list points to."""
        found: dict[str, tuple[Source, int]] = {}
        for source in self.sources + self.headers:
            for match in LIST.finditer(source.masked):
                for name in re.finditer(r"&\s*([\w:]+)", match["items"]):
                    place = (source, match.start("items") + name.start(1))
                    found.setdefault(name[1].rpartition(":")[2], place)
        return found

    def unlisted(self, source: Source) -> Iterator[Finding]:
        listed = self.listed
        own_lists = {op.name for s, op in self.all("Op") if s.has(op, "kernels")}
        for item in source.objects:
            if item.op and item.op not in self.operator_names():
                yield source.finding(item.at, f"this kernel is of operator {item.op}, but there is "
                    f"none of this name.{near(item.op, self.operator_names())}")  # fmt: skip
            elif item.op in own_lists and source.path.name not in ASCEND_FILES:
                yield source.finding(item.at, f"operator {item.op} lists its kernels itself, and "
                    "the build adds none to them: leave out its `.kernels`, or write `extern "
                    "constinit const Kernel` and add the kernel to the list.")  # fmt: skip
            elif item.kind == "Kernel" and not item.op and item.name not in listed:
                yield source.finding(item.at, f"kernel {item.name} is in no list, so that no call "
                    "ever takes it. Write `ANYOP_KERNEL(operator){` for it, or add it to the "
                    "operator's own list."
                    f"{near(item.name, [n for n in listed if n != item.name])}")  # fmt: skip

    def undefined(self, source: Source) -> Iterator[Finding]:
        defined = {item.name for _, item in self.all("Kernel")}
        for match in DECLARED.finditer(source.masked):
            if match["name"] in defined:
                continue
            yield source.finding(match.start("name"), f"kernel {match['name']} is declared, but no "
                f"file defines it.{near(match['name'], sorted(defined))} Try a file with `extern "
                f"constinit const Kernel {match['name']}{{`.")  # fmt: skip
        declared = {m["name"] for m in DECLARED.finditer(source.masked)}
        for name, (other, at) in self.listed.items():
            own = {item.name for item in source.objects if item.kind == "Kernel"}
            if other is source and name not in own | declared | self.in_headers:
                yield source.finding(at, f"the list names {name}, which is no kernel that this "
                    f"file defines or declares.{near(name, sorted(own | declared))}")  # fmt: skip

    @cached_property
    def in_headers(self) -> set[str]:
        names = {item.name for header in self.headers for item in header.objects}
        return names | {m["name"] for h in self.headers for m in DECLARED.finditer(h.masked)}

    def operator_names(self) -> list[str]:
        return sorted(item.name for _, item in self.all("Op"))

    def other_operators(self, source: Source) -> Iterator[Finding]:
        yield from self.named(source, "Reference", "op", "the reference is of")
        yield from self.named(source, "Op", "gradient", "its gradient is")

    def named(self, source: Source, kind: str, name: str, what: str) -> Iterator[Finding]:
        for item in source.objects:
            text = source.texts(item, name) if item.kind == kind else None
            if text and text[0] and text[0] not in self.operator_names():
                yield source.finding(text[1][0], f"{what} '{text[0]}', but there is no operator of "
                    f"this name.{near(text[0], self.operator_names())}")  # fmt: skip

    def operator_of(self, source: Source, kernel: Object) -> str | None:
        """The C++ name of the operator that has a kernel."""
        return kernel.op or self.listing(source, kernel.name)

    def listing(self, source: Source, kernel: str) -> str | None:
        """The C++ name of the operator whose list names a kernel."""
        for other, item in self.all("Op"):
            list_name = re.compile(r"\.kernels\s*=\s*(\w+)").search(other.masked, *item.body)
            if not list_name:
                continue
            array = re.search(rf"\b{list_name[1]}\s*\[[^=]*=\s*\{{([^}}]*)\}}", other.masked)
            if array and re.search(rf"&\s*{kernel}\b", array[1]):
                is_here = other is source or kernel in {
                    m["name"] for m in DECLARED.finditer(other.masked)
                }
                if is_here:
                    return item.name
        return None

    def expressions(self, source: Source) -> Iterator[Finding]:
        """.flops, .bytes and .means of operators; .when and .workspace of their kernels."""
        assert self.language
        for item in source.objects:
            fields = {"Op": ("flops", "bytes", "means", "prepack"), "Kernel": ("when", "workspace")}
            op = item.name if item.kind == "Op" else self.operator_of(source, item)
            signature = self.contracts.get(op or "", {}).get("text")
            for name in fields.get(item.kind, ()) if signature else ():
                text = source.texts(item, name)
                if not text or not text[0]:
                    continue
                try:
                    self.language.expression(str(signature), name, text[0])
                except ValueError as error:
                    yield self.placed(source, text, error)

    def parameters(self, source: Source) -> Iterator[Finding]:
        """The parameters of kernels and references, one by one, against the signature."""
        for item in source.objects:
            if item.kind == "Op":
                continue
            op = self.operator_of(source, item)
            if item.kind == "Reference":
                text = source.texts(item, "op")
                op = text[0] if text else None
            bind = BIND.search(source.masked, *item.body)
            contract = self.contracts.get(op or "")
            if not bind or not contract:
                continue
            found = self.function(source, bind["function"])
            if found:
                what = f"{item.kind.lower()} {item.name}"
                more = f" {shown(contract)}" if source.path.name in ASCEND_FILES else ""
                for wrong in self.compare(what, found[0], found[1], contract):
                    yield replace(wrong, sentence=wrong.sentence + more)

    def function(self, source: Source, name: str) -> tuple[Source, int] | None:
        """Where the parameters of a function begin: here, or in one header that defines it."""
        words = r"^\s*(?:(?!__aicore__)[\w:]+\s+)*(?:void|int)"  # a device's function is no launch
        define = re.compile(rf"{words}\s+{name}\s*\(", re.M)
        names = re.findall(r'^\s*#include "([^"]+)"', source.text, re.M)
        included = [h for h in self.headers if is_included(h.path, source.path, names)]
        places = [(s, m.end() - 1) for s in [source, *included] for m in define.finditer(s.masked)]
        return places[0] if len(places) == 1 else None

    def compare(
        self, what: str, source: Source, at: int, contract: dict[str, Any]
    ) -> Iterator[Finding]:
        end = closing(source.masked, at)
        if "..." in source.masked[at:end] or re.search(r"\bauto\b", source.masked[at:end]):
            return
        own = list(split(source.masked, at + 1, end))
        wanted = [(p["name"], p["kind"], p["optional"], False) for p in contract["params"]]
        wanted += [(r["name"], "tensor", r["optional"], True) for r in contract["results"]]
        if not own or not same_type(own[0][1], "const Context&"):
            yield source.finding(own[0][0] if own else at, f"{what}: the first parameter must be "
                "`const Context&`.")  # fmt: skip
            return
        for (place, text), (name, kind, optional, is_result) in zip(own[1:], wanted, strict=False):
            allowed = TYPES[kind][1 if optional else 0] or TYPES[kind][0]
            meant = without_aliases(text, source.masked)
            if any(same_type(meant, t) for t in allowed) or not is_understood(meant):
                continue
            role = "result" if is_result else "parameter"
            given, absent = " ".join(text.split()), " that may be absent" if optional else ""
            why = f"because the signature says {KINDS[kind]}{absent}."
            yield source.finding(place, f"{what} takes `{given}` for {role} '{name}', but it "
                f"must be `{allowed[0]}`, {why}")  # fmt: skip
            return
        if len(own) - 1 != len(wanted):
            names = ", ".join(w[0] for w in wanted)
            place = own[len(wanted) + 1][0] if len(own) - 1 > len(wanted) else end
            yield source.finding(place, f"{what} takes {len(own) - 1} parameters after the "
                f"context, but the signature has {len(wanted)}: {names}.")  # fmt: skip


def shown(contract: dict[str, Any]) -> str:
    """A signature without its conditions."""
    return f"The signature is {' '.join(contract['text'].split()).partition(' where ')[0]}."


def split(masked: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """(place, text) of each parameter between two brackets."""
    depth, start = 0, begin
    for i in range(begin, end + 1):
        letter = masked[i] if i < end else ","
        depth += (letter in "<([{") - (letter in ">)]}")
        if letter == "," and depth <= 0:
            text = masked[start:i]
            if text.strip():
                yield start + len(text) - len(text.lstrip()), text.strip()
            start = i + 1


def same_type(parameter: str, wanted: str) -> bool:
    """Whether `const Tensor& x` has the type `const Tensor&`; the name may be missing."""
    own, other = words_of(parameter), words_of(wanted)
    if own[:1] == ["const"] and other[:1] != ["const"]:
        own = own[1:]  # of a value, const says nothing
    has_name = len(own) == len(other) + 1 and re.fullmatch(r"[A-Za-z_]\w*", own[-1])
    return own == other or bool(has_name and own[:-1] == other)


def without_aliases(parameter: str, masked: str) -> str:
    """The parameter with the names that this file gives to types replaced by the types."""
    for alias in re.finditer(r"\busing\s+(\w+)\s*=\s*([^;]+);", masked):
        parameter = re.sub(rf"\b{alias[1]}\b(?=\s|&|\*)", alias[2].strip(), parameter)
    return parameter


def is_understood(parameter: str) -> bool:
    """Whether every type in it is one that this file knows; another one may be right."""
    types = words_of(parameter)[: -1 if re.search(r"\w$", parameter) else None] or [parameter]
    return all(word in KNOWN_TYPES or not word[0].isalpha() for word in types)


def is_included(header: Path, source: Path, names: list[str]) -> bool:
    return any(
        header.as_posix().endswith(f"/{name}") if "/" in name else header == source.parent / name
        for name in names
    )


def words_of(text: str) -> list[str]:
    """The words of a type. The namespaces of names that everybody knows are left out."""
    bare = re.sub(r"\[\[[^\]]*\]\]|\banyop::|\bstd::(?=int64_t)", "", text)
    return re.findall(r"[\w:]+|[<>&*,]", bare)


def check(paths: list[Path], isas: list[str], language: Language | None = None) -> list[Finding]:
    """What is wrong in files and below folders. Of single files, only what they tell alone."""
    files: list[Path] = []
    for path in paths:
        files += (
            sorted(p for p in path.rglob("*") if p.name.endswith((".cc", ".h", *ASCEND_FILES)))
            if path.is_dir()
            else [path]
        )
    ours = [f for f in files if not re.search(r"(^|_)(test|bench)\.cc$", f.name)]
    is_whole = any(path.is_dir() for path in paths)
    return Checker(ours, isas, language, is_whole).run()
