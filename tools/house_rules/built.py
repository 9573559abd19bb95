# SPDX-License-Identifier: Apache-2.0
"""Rules about what was built: nothing is checked where there is no build."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from house_rules.tree import Breach, Tree

LIBRARIES = {"anyop_ops": "Op", "anyop_ops_reference": "Reference"}
# What other libraries of a process may see of ours. libanyop shows its whole namespace: bindings,
# adapters and tests use more than the public headers declare.
EXPORTED = {
    "libanyop.so": r"anyop_|_Z(T[ISVWH]|GV|GVZ|Z)?NK?5anyop",
    "libanyop_ascend.so": r"anyop_ascend_|_ZN12anyop_ascend",
    "_anyop.": r"PyInit__anyop$",
    "anyop_ops.ascend": r"anyop_device_library$",
    "anyop_ops": r"anyop_library$",
    "anyop_cuda": r"anyop_device_library$",
    "anyop_ascend_device": r"anyop_device_library$",
    "anyop_aicore_device": r"anyop_device_library$",
    "anyop_npu": r"anyop_(device_library$|npu_)|acl|rt[A-Z]|Hccl|Msprof|_ZNK?2ge|_ZN3atb|\w+_s$",
    "torch_adapter-": r"anyop_(torch|vllm)_",
    "_mindspore.": r"PyInit__mindspore$",
    "anyop_mindspore.": r"Anyop(Call|Refuse|Span|Touch)",
    "anyop_mindspore_plugin.": r"[A-Z][A-Za-z]+$",  # of MindSpore's primitives
}
GUARDED = (  # no kernels
    "libanyop.so", "libanyop_ascend.so", "anyop_ascend_device", "anyop_aicore_device", "anyop_npu",
    "_anyop.", "anyop-run",
    "torch_adapter", "_mindspore.", "anyop_mindspore",
)  # fmt: skip
_DATA = re.compile(r"_ZT[ISV]|DW\.ref")  # has no instructions
_OPERATOR = re.compile(r"_ZN5anyop3ops(?P<bytes>\d+)(?P<rest>\w+)E")


def _output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@lru_cache(maxsize=8)
def _symbols(objects: tuple[Path, ...]) -> list[tuple[Path, str, str]]:
    """File, kind and mangled name of every symbol that the objects define."""
    if not objects:
        return []
    found = []
    for line in _output("nm", "-A", "-p", "--defined-only", *objects).splitlines():
        file, _, rest = line.rpartition(":")
        kind, symbol = rest.split()[-2:]
        found.append((Path(file), kind, symbol))
    return found


def _objects(tree: Tree, library: str) -> tuple[Path, ...]:
    """Its own and those of the targets of other instruction sets, not those of its references."""
    folders = tree.build / "CMakeFiles"
    kernels = folders.glob(f"{library}_*.dir/ops/**/cpu_*.o")
    return tuple(sorted([*folders.glob(f"{library}.dir/ops/**/*.o"), *kernels]))


def _name(tree: Tree, path: Path) -> str:
    return path.relative_to(tree.root).as_posix()


def weak_symbol(tree: Tree) -> Iterator[Breach]:
    """The linker cannot pick a copy of a function compiled for a wider instruction set."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, kind, symbol in _symbols(_objects(tree, "anyop_ops")):
        if kind == "W" and not _DATA.match(symbol):
            homes[symbol].add(path)
    for symbol, paths in sorted(homes.items()):
        if len({p.name for p in paths}) < 2 or not any(p.name.startswith("cpu_") for p in paths):
            continue
        where = ", ".join(sorted({f"{p.parent.name}/{p.name}" for p in paths})[:4])
        shown = _output("c++filt", symbol).strip() or symbol
        why = f"the weak symbol {shown} is in {where}: make it always_inline or anonymous"
        yield Breach(_name(tree, min(paths)), 0, why)


def library_table(tree: Tree) -> Iterator[Breach]:
    """Every operator and reference that the sources define is in the library, and no other."""
    for library, kind in LIBRARIES.items():
        table = tree.build / f"{library}_table.cc"
        if not table.exists():
            continue
        listed = set(re.findall(rf"extern const {kind} (\w+);", table.read_text()))
        defined = set()
        for _, text in tree.texts(".cc", below="ops/"):
            pattern = rf"^extern constinit const {kind} (\w+)\s*\{{"
            defined |= set(re.findall(pattern, text, re.M))
        for name in sorted(listed ^ defined):
            yield Breach(_name(tree, table), 0, f"{name} is defined or listed, but not both")
        for path, symbol in _operators(_objects(tree, library)):
            if symbol in defined and symbol not in listed:
                yield Breach(_name(tree, path), 0, f"holds {symbol}, which {library} does not list")


def _operators(objects: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    for path, _, symbol in _symbols(tuple(objects)):
        match = _OPERATOR.fullmatch(symbol)
        if match and len(match["rest"]) == int(match["bytes"]):
            yield path, match["rest"]


def _binaries(tree: Tree) -> list[Path]:
    return sorted([*tree.build.glob("lib/*.so"), *tree.build.glob("bin/anyop-run")])


@lru_cache(maxsize=64)
def _elf(path: Path) -> str:
    return _output("readelf", "-dlW", path)


def hardening(tree: Tree) -> Iterator[Breach]:
    """What cmake/hardening.cmake asks for is in the libraries and programs that ship."""
    for path in _binaries(tree):
        name, elf = _name(tree, path), _elf(path)
        if "GNU_RELRO" not in elf or not re.search(r"\bBIND_NOW\b|\bNOW\b", elf):
            yield Breach(name, 0, "tables of addresses stay writable: link with -z relro -z now")
        if re.search(r"GNU_STACK.*\bRWE\b", elf):
            yield Breach(name, 0, "has an executable stack")
        if path.name.startswith(GUARDED):
            needs = _output("nm", "-D", "--undefined-only", path)
            if "__stack_chk_fail" not in needs:
                yield Breach(name, 0, "is built without -fstack-protector-strong")
            if path.name == "libanyop.so" and not re.search(r"__\w+_chk@", needs):
                yield Breach(name, 0, "is built without _FORTIFY_SOURCE")


def search_path(tree: Tree) -> Iterator[Breach]:
    """No library or program looks for others in the working directory."""
    for path in _binaries(tree):
        for search in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", _elf(path)):
            if not all(search.split(":")):
                why = f"looks for libraries in the working directory: '{search}'"
                yield Breach(_name(tree, path), 0, why)


def exports(tree: Tree) -> Iterator[Breach]:
    """Libraries show what is theirs, and each is known here."""
    for path in _binaries(tree):
        if path.suffix != ".so":
            continue
        patterns = [p for begin, p in EXPORTED.items() if path.name.startswith(begin)]
        if not patterns:
            yield Breach(_name(tree, path), 0, "has no row in EXPORTED of tools/house_rules")
        for line in _output("nm", "-D", "--defined-only", path).splitlines() if patterns else ():
            symbol = line.split()[-1]
            if not re.match(patterns[0], symbol):
                yield Breach(_name(tree, path), 0, f"shows {symbol}, which is not ours to show")


RULES = (weak_symbol, library_table, hardening, search_path, exports)
