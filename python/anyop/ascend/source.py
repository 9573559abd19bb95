# SPDX-License-Identifier: Apache-2.0
"""A file of AscendC kernels as text: its kernels, and what g++ is given in its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from anyop import _anyop

# name<<<blocks, l2ctrl, stream>>>( is no C++. Names may be bodies of macros (name##_impl) and may
# have template arguments.
_LAUNCH = re.compile(r"([A-Za-z_][\w:#]*(?:\s*<[^<>();]*>)?)\s*<<<(.+?)>>>\s*\(", re.DOTALL)
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMENT_OR_LAUNCH = re.compile(f"{_LAUNCH.pattern}|{_COMMENT.pattern}", re.DOTALL)
_KERNEL = re.compile(
    r"((?:template\s*<[^;{}()]*>\s*)?)"
    r"((?:extern\s*\"C\"\s*|inline\s+|static\s+|__\w+__(?:\([^()]*\))?\s*|\[\s*aicore\s*\]\s*)+)"
    r"void\s+((?:__\w+__\s+)*)([A-Za-z_]\w*)\s*\(([^()]*)\)\s*\{"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define\b", re.MULTILINE)
_LEFT_OUT = re.compile(r"^[ \t]*#[ \t]*if[ \t]+0\b.*?^[ \t]*#[ \t]*(?:endif|else)\b", re.M | re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_BRACE = re.compile(r"namespace\s+([\w:]+)\s*\{|[{}]")
_ENCODINGS = ("utf-8-sig", "gb18030")  # comments in Chinese come in either


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
        # It has a kernel of an operator beside what launches it.
        self.is_of_operator = '"anyop/ascend.h"' in self.text

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

    def _check(self, wanted: tuple[str, ...], there: list[str]) -> None:
        """A name that the text does not have may be one that a macro makes, from ##."""
        for name in wanted:
            stem = name.partition("<")[0]
            if any(k.name == stem for k in self.declared) or _MACRO.search(self.text):
                continue
            raise _anyop.InvalidArgument(
                f"{self.path.name} has no kernel {name}."
                f"{_anyop.did_you_mean(name, there)} Its kernels: {', '.join(there) or 'none'}."
            )

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

    def call(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        name, configuration = found[1], found[2].strip()
        lines = "\n" * (found[0].count("\n") - configuration.count("\n") - name.count("\n"))
        quoted = " ".join(name.split())
        return f'anyop_ascend_start("{quoted}", &{name}, {configuration})({lines}'

    return _COMMENT_OR_LAUNCH.sub(call, text)


def _declared(text: str) -> tuple[Declared, ...]:
    found, bare = [], _without_directives(_without_comments(text))
    for kernel in _KERNEL.finditer(bare):
        if "__global__" not in kernel[2] + kernel[3]:
            continue
        parameters = " ".join(kernel[5].split())
        each = parameters.split(",") if parameters not in ("", "void") else []
        names, types = tuple(map(_name, each)), tuple(map(_type, each))
        name = "::".join([*_namespaces(bare[: kernel.start()]), kernel[4]])
        found.append(Declared(name, names, bool(kernel[1]), types))
    return tuple(found)


def _without_comments(text: str) -> str:
    """Strings and lines stay where they are."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return _COMMENT.sub(blank, text)


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
