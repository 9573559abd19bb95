# SPDX-License-Identifier: Apache-2.0
"""Rules about C++ that the compiler and clang-format do not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from house_rules.python_code import EMPTY_WORDS, LONGEST_FUNCTION
from house_rules.tree import CPP, NAMED_BY_OTHERS, Breach, Tree, is_test, line_of

HEAVY = re.compile(r"iostream|sstream|regex|functional|thread|ranges|filesystem")
TYPE = re.compile(r"\b(?:class|struct|enum class|union)\s+(?:\[\[.*?\]\]\s*)?(\w+)\s*[:{]")
# Words with one meaning (ARCHITECTURE.md, "Words"): files and types that carry them lie there.
MEANINGS = {"Bound": re.compile(r"src/hosting/|bindings/(calls|graphs)/bound_(call|graph)\b")}
KERNEL_FOLDERS = ("ops/", "examples/", "python/anyop/template/")
KERNEL = re.compile(r'\{\s*\.name = "(?P<name>[^"]*)"')
# Who may do what the rest must not: the file and what it is for.
READS_ENVIRONMENT = "src/platform/env.cc"
PRINTS = "src/platform/log.cc"
FILLS = "include/anyop/value.h"
OF_THREAD = "src/platform/of_thread.h"
# They end by nothing.
PLAIN = (
    "bool", "int", "std::size_t", "std::uint64_t", "std::uintptr_t", "HostName", "Followed",
)  # fmt: skip
FILLED = re.compile(r"(?:\.|->)tag = (?:ANYOP_\w+)?|\bSetHead\(|\{1, 0\}|\bdevice_type [=!]?= 1\b")
LIBRARY = ("include/", "src/", "ops/", "bindings/", "devices/cuda/")
_SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()]*$|\bextern\s+\"\"\s*$")
_VALUES = re.compile(r"[^\s]$|[=,(]\s*$")  # before braces around values; a body's has a space
_NAME = re.compile(r"([~\w]+|operator\s*\S+?|\])\s*\(")


def header_guard(tree: Tree) -> Iterator[Breach]:
    """A header says that it is read once; abi.h, which C reads too, by a guard."""
    for name in tree.named(".h"):
        bare = tree.cpp(name).bare
        if "#pragma once" not in bare and not re.search(r"#ifndef (\w+_H_)\s*\n#define \1", bare):
            yield Breach(name, 1, "no '#pragma once'")


def public_includes(tree: Tree) -> Iterator[Breach]:
    """Public headers include no part of the standard library that is slow to compile."""
    for name in tree.named(".h", below="include/"):
        for line, path, is_quoted in tree.cpp(name).includes:
            if not is_quoted and HEAVY.fullmatch(path):
                yield Breach(name, line, f"a public header includes <{path}>")


def public_macros(tree: Tree) -> Iterator[Breach]:
    """Macros of public headers are ours by name, or gone at the header's end."""
    for name in tree.named(".h", below="include/"):
        bare = tree.cpp(name).bare
        for match in re.finditer(r"^[ \t]*#[ \t]*define (\w+)", bare, re.M):
            if not match[1].startswith("ANYOP_"):
                why = f"a public header defines {match[1]}, which does not begin with ANYOP_"
                yield Breach(name, line_of(bare, match), why)


def environment(tree: Tree) -> Iterator[Breach]:
    """One file reads environment variables."""
    yield from _calls(tree, "(?:secure_)?getenv", READS_ENVIRONMENT, "reads the environment")


def prints(tree: Tree) -> Iterator[Breach]:
    """The libraries print nothing: one file does, where a log is asked for."""
    words = r"f?printf|puts|fputs|putchar|perror"
    yield from _calls(tree, words, PRINTS, "prints")
    for name in _library(tree):
        bare = tree.cpp(name).bare
        for match in re.finditer(r"\bstd::(cout|cerr|clog)\b", bare):
            why = f"{match[1]} prints, which only {PRINTS} may"
            yield Breach(name, line_of(bare, match), why)


def aborts(tree: Tree) -> Iterator[Breach]:
    """The libraries end no process."""
    words = r"abort|_?exit|quick_exit|terminate|assert"
    yield from _calls(tree, words, "nothing", "ends the process")


def thread_objects(tree: Tree) -> Iterator[Breach]:
    """What a thread keeps and must end itself is an OfThread: calls come later than its end."""
    for name in tree.named(".h", ".cc", below=("src/", "bindings/")):
        bare = tree.cpp(name).bare
        for match in re.finditer(r"\bthread_local\s+(?:const\s+)?([\w:]+(?:<[^;=]*>)?)", bare):
            is_plain = match[1] in PLAIN or bare[match.end() :].lstrip().startswith(("*", "const*"))
            if not is_plain and name != OF_THREAD and not is_test(name):
                why = f"a {match[1]} of a thread ends before its last call. Try OfThread"
                yield Breach(name, line_of(bare, match), why)


def openmp(tree: Tree) -> Iterator[Breach]:
    """Kernels leave threads to their context."""
    for name in tree.named(*CPP, below=LIBRARY):
        bare = tree.cpp(name).bare
        for match in re.finditer(r"#\s*pragma\s+omp\b|\bomp_\w+\s*\(|<omp\.h>", bare):
            yield Breach(name, line_of(bare, match), f"uses OpenMP: {match[0]}")


def frames(tree: Tree) -> Iterator[Breach]:
    """One header fills values and tensors, and knows what the host's device is."""
    for name in tree.named(*CPP, below=("include/", "src/", "bindings/", "optest/")):
        if name == FILLS or is_test(name.rpartition("/")[2]):
            continue
        bare = tree.cpp(name).bare
        for match in FILLED.finditer(bare):
            why = f"'{match[0]}' fills a frame by hand, which only {FILLS} may"
            yield Breach(name, line_of(bare, match), why)


def _library(tree: Tree) -> list[str]:
    return [f for f in tree.named(*CPP, below=LIBRARY) if not is_test(f) and "bench" not in f]


def _calls(tree: Tree, words: str, allowed: str, does: str) -> Iterator[Breach]:
    for name in _library(tree):
        bare = tree.cpp(name).bare
        if name == allowed:
            continue
        for match in re.finditer(rf"(?<![.>\w])({words})\s*\(", bare):
            why = f"{match[1]} {does}, which only {allowed} may"
            yield Breach(name, line_of(bare, match), why)


def type_names(tree: Tree) -> Iterator[Breach]:
    """Names of types say what they are."""
    for name in tree.named(*CPP):
        if name.startswith(NAMED_BY_OTHERS):
            continue
        bare = tree.cpp(name).bare
        for match in TYPE.finditer(bare):
            if empty := EMPTY_WORDS.search(match[1]):
                why = f"the type {match[1]} holds the empty word {empty[0]}"
                yield Breach(name, line_of(bare, match, 1), why)


def meanings(tree: Tree) -> Iterator[Breach]:
    """A word of the glossary names one thing only, in types and in files."""
    for name in tree.named(*CPP, below=("include/", "src/", "bindings/")):
        bare = tree.cpp(name).bare
        for word, home in MEANINGS.items():
            if home.match(name):
                continue
            if re.search(rf"(^|[/_]){word.lower()}[_.]", name):
                yield Breach(name, 0, f"the word {word.lower()} means something else: see MEANINGS")
            for match in TYPE.finditer(bare):
                if re.search(rf"{word}(?![a-z])", match[1]):
                    why = f"the type {match[1]}: the word {word} means something else: see MEANINGS"
                    yield Breach(name, line_of(bare, match, 1), why)


def kernel_names(tree: Tree) -> Iterator[Breach]:
    """A kernel is called after the instruction set of its file, or cpu_portable; in a device's
    library, and in a file of a device, after the device.
    """
    for name in tree.named(".cc", ".cu", below=KERNEL_FOLDERS):
        code, stem = tree.cpp(name).code, name.rpartition("/")[2].rpartition(".")[0]
        begin = "_".join(stem.split("_")[:2]) if stem.startswith("cpu_") else "cpu_portable"
        if name.endswith(".cu"):
            begin = "cuda"
        elif word := re.search(r'\.word = "(\w+)"', code):
            begin = word[1]
        for match in KERNEL.finditer(code):
            if not re.fullmatch(rf"{begin}(_[a-z0-9]+)*", match["name"]):
                why = f"the kernel {match['name']} is not called {begin} or {begin}_<variant>"
                yield Breach(name, line_of(code, match, "name"), why)


def cpp_function_length(tree: Tree) -> Iterator[Breach]:
    """Functions are short."""
    for name in tree.named(*CPP):
        for line, function, lines in functions(tree.cpp(name).bare):
            if lines > LONGEST_FUNCTION:
                why = f"{function} has {lines} lines, but at most {LONGEST_FUNCTION}. Split it."
                yield Breach(name, line, why)


def functions(bare: str) -> Iterator[tuple[int, str, int]]:
    """Line, name and lines of each function, which is a brace that opens after a parameter list
    where only namespaces and types are open. Lambdas belong to what holds them.
    """
    code = _without_directives(bare)
    depth, begin, line = 0, 0, 1
    inside = values = -1  # the depth at which a function, or braces around values, began
    started, called = 0, ""
    for match in re.finditer(r"[{};\n]", code):
        mark, head = match[0], code[begin : match.start()]
        if mark == "\n":
            line += 1
        elif mark == "{":
            if inside < 0 and values < 0 and _VALUES.search(head):
                values = depth
            elif inside < 0 and values < 0 and "(" in head and not _SCOPE.search(head):
                name = _NAME.search(head)
                inside, called = depth, name[1] if name else "a function"
                started = line - head.lstrip().count("\n")
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == inside:
                yield started, called, line - started + 1
                inside = -1
        if mark != "\n" and values < 0:
            begin = match.end()
        if mark == "}" and depth == values:  # what stands before them goes on
            values = -1


def _without_directives(bare: str) -> str:
    """Braces of macros do not count: of the same length, with # lines blanked."""
    pattern = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), bare)


RULES = (
    header_guard, public_includes, public_macros, environment, prints, aborts, thread_objects,
    openmp, frames, type_names, meanings, kernel_names, cpp_function_length,
)  # fmt: skip
