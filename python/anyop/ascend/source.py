# SPDX-License-Identifier: Apache-2.0
"""A file of AscendC kernels as text: its kernels, and what g++ is given in its place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anyop import _anyop

# name<<<blocks, l2ctrl, stream>>>( is no C++. Names may be bodies of macros (name##_impl) and may
# have template arguments.
_LAUNCH = re.compile(r"([A-Za-z_][\w:#]*(?:\s*<[^<>();]*>)?)\s*<<<(.+?)>>>\s*\(", re.DOTALL)
# Comments, and literals, of which a raw string ends at the mark that it begins with.
_NO_CODE = re.compile(
    r"(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"
    r'|(?P<open>\bu?8?[LU]?R"(?P<mark>[^()\\\s]{0,16})\()(?:.*?)\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])*'",  # not those of 1'000
    re.DOTALL,
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_OF_OPERATOR = "anyop/ascend.h"
_KERNEL = re.compile(
    r"((?:template\s*<[^;{}()]*>\s*)?)"
    r"((?:extern\s*\"C\"\s*|inline\s+|static\s+|__\w+__(?:\([^()]*\))?\s*|\[\s*aicore\s*\]\s*)+)"
    r"void\s+((?:__\w+__\s+)*)([A-Za-z_]\w*)\s*\(([^()]*)\)\s*\{"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define\b", re.MULTILINE)
_MAKES_KERNEL = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\.)*\b__global__\b", re.M | re.S)
_CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|elif|else)", re.MULTILINE)
_LEFT_OUT = re.compile(r"^[ \t]*#[ \t]*if[ \t]+0\b.*?^[ \t]*#[ \t]*(?:endif|else)\b", re.M | re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_BRACE = re.compile(r"namespace\s+([\w:]+)\s*\{|[{}]")
_BEGIN = "struct anyop_ascend_begin_of_file;"
# Comments in Chinese come in either. UTF-8 first, as it refuses nearly every text in GB 18030.
_ENCODINGS = ("utf-8-sig", "gb18030")


@dataclass(frozen=True)
class Declared:
    """A kernel that the text has. names: of its parameters, "" where one has none; types: as host
    code passes them, every pointer as void*.
    """

    name: str
    names: tuple[str, ...]
    is_template: bool
    types: tuple[str, ...] = ()


class Source:
    """A file of kernels. Raises InvalidArgument where it is no text."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.text = _read(self.path)
        self.declared = _declared(self.text)
        self._is_expanded = False

    def is_of_operator(self, folders: Sequence[Path] = ()) -> bool:
        """Whether it has a kernel of an operator beside what launches it: it includes the header
        of operators, itself or by a file beside it or in the folders.
        """
        return _includes_operator(self.path, self.text, folders, set())

    def kernels(self, wanted: tuple[str, ...] = ()) -> list[str]:
        """Names of the kernels to export: those asked for, or all that the text shows."""
        there = [k.name for k in self.declared if not k.is_template]
        if wanted:
            self._check(wanted, there)
            return list(dict.fromkeys(wanted))
        if there:
            return there
        templates = [k.name for k in self.declared if k.is_template]
        hint = (
            f"Its kernels are templates. Try --kernel '{templates[0]}<half>'."
            if templates
            else 'A kernel is `extern "C" __global__ __aicore__ void NAME(...)`. If a macro makes '
            "them, try --kernel NAME."
        )
        raise _anyop.InvalidArgument(f"{self.path.name} shows no kernel. {hint}")

    def makes_kernels(self) -> bool:
        """Whether a macro of the file makes kernels."""
        return bool(_MAKES_KERNEL.search(_blanked(self.text)))

    def traced(self) -> str:
        """What the preprocessor reads so that its text, from the mark on, has the kernels."""
        return (
            '#include "kernel_operator.h"\n#undef __global__\n#define __global__ __global__\n'
            f"{_BEGIN}\n{rewritten(self.text)}\n"
        )

    def has_conditions(self) -> bool:
        """Whether conditions of the preprocessor may leave kernels out, or choose one of two."""
        return bool(_CONDITION.search(_blanked(self.text)))

    def add(self, preprocessed: str, others: bool) -> None:
        """Takes the kernels that are in the preprocessed text of `traced`: those that the text
        shows, in their order, and the others, which macros and included files make.
        """
        there = {kernel.name: kernel for kernel in _declared(preprocessed.partition(_BEGIN)[2])}
        shown = dict.fromkeys(kernel.name for kernel in self.declared)
        names = [name for name in shown if name in there]
        if others:
            names += [name for name in there if name not in shown]
            self._is_expanded = True
        self.declared = tuple(there[name] for name in names)

    def has_macros(self) -> bool:
        """Whether kernels may be there that the text does not show."""
        return not self._is_expanded and bool(_MACRO.search(self.text))

    def _check(self, wanted: tuple[str, ...], there: list[str]) -> None:
        """A name that the text does not have may be one that a macro makes, from ##."""
        for name in wanted:
            stem = name.partition("<")[0]
            if any(k.name == stem for k in self.declared) or self.has_macros():
                continue
            raise _anyop.InvalidArgument(
                f"{self.path.name} has no kernel {name}."
                f"{_anyop.did_you_mean(stem, [k.name for k in self.declared])} "
                f"Its kernels: {self._shown(there)}."
            )

    def _shown(self, there: list[str]) -> str:
        templates = [f"{k.name}<...>" for k in self.declared if k.is_template]
        return ", ".join([*there, *dict.fromkeys(templates)]) or "none"

    def names(self, kernel: str) -> tuple[str, ...] | None:
        """Names of a kernel's parameters; None if the text does not show them."""
        stem = kernel.partition("<")[0]
        return next((k.names for k in self.declared if k.name == stem), None)

    def unit(self, kernels: list[str], includes: tuple[Path, ...] = ()) -> str:
        """What the compiler reads. Errors and places point into the file itself."""
        aliases, listed = "", []
        for i, name in enumerate(kernels):  # a comma would be one of the macro's
            alias = f"anyop_ascend_kernel_{i}"
            aliases += f"static constexpr auto* {alias} = &{name};\n" if "," in name else ""
            listed.append(f"*{alias}" if "," in name else name)
        forced = "".join(f'#include "{path.resolve()}"\n' for path in includes)
        file = _quoted(self.path)
        return (
            f'#include "kernel_operator.h"\n{forced}#line 1 "{file}"\n{rewritten(self.text)}\n'
            f'#line 1 "the kernels asked for"\n{aliases}ANYOP_ASCEND_KERNELS({", ".join(listed)})\n'
        )

    def host_unit(self) -> str:
        """The same of a file without kernels."""
        return f'#line 1 "{_quoted(self.path)}"\n{self.text}\n'


def _includes_operator(path: Path, text: str, folders: Sequence[Path], seen: set[Path]) -> bool:
    for name in _INCLUDE.findall(_blanked(text, literals=False)):
        if name == _OF_OPERATOR:
            return True
        file = next((f / name for f in (path.parent, *folders) if (f / name).is_file()), None)
        if file is None or file.resolve() in seen:
            continue
        seen.add(file.resolve())
        if _includes_operator(file, file.read_text("utf-8", "replace"), folders, seen):
            return True
    return False


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def _read(path: Path) -> str:
    data = path.read_bytes()
    if b"\0" in data:
        raise _anyop.InvalidArgument(f"{path.name} is no text, because it has bytes of 0.")
    for encoding in _ENCODINGS:
        try:
            return data.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            pass
    raise _anyop.InvalidArgument(f"{path.name} is neither UTF-8 nor GB 18030.")


def rewritten(text: str) -> str:
    """Launches as calls, on the lines that they stand on. Comments may speak of launches."""

    code, kept = _blanked(text), _blanked(text, literals=False)
    done, parts = 0, []
    for found in _LAUNCH.finditer(code):  # what looks like one in a comment or a string is none
        name, configuration = found[1], kept[slice(*found.span(2))].strip()
        lines = "\n" * (found[0].count("\n") - configuration.count("\n") - name.count("\n"))
        quoted = " ".join(name.split())
        call = f'anyop_ascend_start("{quoted}", &{name}, {configuration})({lines}'
        parts += [text[done : found.start()], call]
        done = found.end()
    return "".join([*parts, text[done:]])


def _declared(text: str) -> tuple[Declared, ...]:
    found, bare = [], _without_directives(_blanked(text))
    for kernel in _KERNEL.finditer(bare):
        if "__global__" not in kernel[2] + kernel[3]:
            continue
        parameters = " ".join(kernel[5].split())
        each = split(parameters) if parameters not in ("", "void") else []
        names, types = tuple(map(_name, each)), tuple(map(_type, each))
        name = "::".join([*_namespaces(bare[: kernel.start()]), kernel[4]])
        found.append(Declared(name, names, bool(kernel[1]), types))
    return tuple(found)


def split(text: str) -> list[str]:
    """At the commas that stand in no brackets, those of templates among them."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "<[({") - (char in ">])}")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _blanked(text: str, literals: bool = True) -> str:
    """Spaces in place of comments and, but for that of extern "C", of what literals hold: all else
    stays where it is.
    """

    def blank(found: re.Match[str]) -> str:
        if found["comment"] is None and (not literals or found[0] == '"C"'):
            return found[0]
        spaces = re.sub(r"[^\n]", " ", found[0])
        return spaces if found["comment"] is not None else f'"{spaces[1:-1]}"'

    return _NO_CODE.sub(blank, text)


def _without_directives(text: str) -> str:
    """Bodies of macros are no kernels, and neither is what #if 0 leaves out."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return _DIRECTIVE.sub(blank, _LEFT_OUT.sub(blank, text))


def _namespaces(text: str) -> list[str]:
    """Those that are open where the text ends."""
    open_: list[str] = []
    for brace in _BRACE.finditer(text):
        if brace[0] != "}":
            open_.append(brace[1] or "")
        elif open_:
            open_.pop()
    return [name for name in open_ if name]


def _name(parameter: str) -> str:
    words = re.findall(r"[A-Za-z_]\w*", parameter.partition("=")[0])
    return words[-1] if len(words) > 1 else ""


def _type(parameter: str) -> str:
    declared = parameter.partition("=")[0].strip()
    if "*" in declared or "GM_ADDR" in declared:
        return "void*"
    name = _name(parameter)
    return declared.removesuffix(name).strip() if name else declared
