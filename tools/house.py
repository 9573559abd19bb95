# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that no compiler knows; prints every breach and fails if there is one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
CODE = (".cc", ".h", ".py", ".cmake")
LONGEST_FILE = 500
LONGEST_DOCUMENT = {"README.md": 100, "ARCHITECTURE.md": 200, "CONTRIBUTING.md": 80}
FORBIDDEN = re.compile(r"/" + r"work/|/" + r"root/|pythonhosted|pypi\.org/simple|[Ii]ssue #\d")
DEFINED = re.compile(r"^extern constinit const Op (\w+)\s*\{", re.M)
MAY_NAME_OPERATORS = ("ops/", "examples/", "docs/", "python/anyop/template/")


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return [ROOT / f for f in listing.split("\n") if f and (ROOT / f).is_file()]


def operators() -> dict[str, str]:
    """Operator name to its folder."""
    found = {}
    for path in sorted((ROOT / "ops").glob("*/*.cc")):
        for name in DEFINED.findall(path.read_text()):
            found[name] = path.parent.name
    return found


def text_rules(path: Path, text: str) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    if path.suffix in CODE and "SPDX-License-Identifier: Apache-2.0" not in "\n".join(
        text.split("\n")[:3]
    ):
        yield f"{name}: no SPDX line"
    if (match := FORBIDDEN.search(text)) and name != "tools/house.py":
        yield f"{name}: holds '{match[0]}', which belongs to one machine only"
    lines = text.count("\n")
    if path.suffix in (".cc", ".h", ".py") and lines > LONGEST_FILE:
        yield f"{name}: {lines} lines, but at most {LONGEST_FILE}. Split it."
    if (most := LONGEST_DOCUMENT.get(name)) and lines > most:
        yield f"{name}: {lines} lines, but at most {most}"
    if re.search(r"\b(TODO|FIXME|XXX)\b", text) and name != "tools/house.py":
        yield f"{name}: holds an unfinished note"


def without_comments(path: Path, text: str) -> str:
    if path.suffix in (".cc", ".h"):
        return re.sub(r"//.*|/\*.*?\*/", "", text, flags=re.S if path.name == "abi.h" else 0)
    return re.sub(r'""".*?"""|#.*', "", text, flags=re.S) if path.suffix == ".py" else text


def naming_rules(path: Path, text: str, names: dict[str, str]) -> Iterator[str]:
    """Nothing outside an operator's folder refers to it; compositions (.means) may."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix not in CODE or "test" in name or "/names/" in name:
        return
    if name.startswith(MAY_NAME_OPERATORS) and not name.startswith("ops/common/"):
        return
    code = without_comments(path, text)
    for operator, home in names.items():
        refers = rf"\banyop\.{operator}\b|\bops::{operator}\b|ops/{operator}/"
        if not name.startswith("ops/"):  # a word of a parameter may be an operator's name
            refers += rf'|"(anyop\.)?{operator}"'
        if re.search(refers, code):
            yield f"{name}: names the operator {operator}, which only ops/{home}/ may"


def symbols(path: Path) -> list[tuple[str, str]]:
    out = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=False).stdout
    found = []
    for line in out.splitlines():
        if match := re.match(r"^[0-9a-f ]{16} (\w) (.*)$", line):
            found.append((match[1], match[2]))
    return found


def object_rules() -> Iterator[str]:
    """What the linker must not be able to do: pick a copy compiled for a wider instruction set."""
    objects = list(BUILD.glob("CMakeFiles/anyop_ops.dir/ops/**/*.o"))
    homes: dict[str, list[Path]] = defaultdict(list)
    for path in objects:
        for kind, symbol in symbols(path):
            if kind == "W":  # functions; data has no instructions
                homes[symbol].append(path)
    for symbol, paths in sorted(homes.items()):
        wide = [p for p in paths if p.name.startswith("cpu_")]
        if (
            wide
            and len({p.name for p in paths}) > 1
            and not symbol.startswith(("typeinfo", "vtable", "DW.ref"))
        ):
            where = ", ".join(sorted({f"{p.parent.name}/{p.name}" for p in paths})[:4])
            yield f"the weak symbol {symbol} is in {where}: make it always_inline or anonymous"


def table_rules(names: dict[str, str]) -> Iterator[str]:
    """Every operator that the sources define is in the library, and no other."""
    for library, kind in (("anyop_ops", "Op"), ("anyop_ops_reference", "Reference")):
        table = BUILD / f"{library}_table.cc"
        if not table.exists():
            continue
        listed = set(re.findall(rf"extern const {kind} (\w+);", table.read_text()))
        defined = set()
        for path in sorted((ROOT / "ops").glob("*/*.cc")):
            pattern = rf"^extern constinit const {kind} (\w+)\s*\{{"
            defined |= set(re.findall(pattern, path.read_text(), re.M))
            for other in re.findall(
                rf"^\s*(?:constexpr|const|static)[\w ]* {kind} (\w+)\{{", path.read_text(), re.M
            ):
                yield f"{path.relative_to(ROOT)}: {other} must be 'extern constinit const {kind}'"
        for name in sorted(listed ^ defined):
            yield f"{library}: {name} is defined or listed, but not both"
        for object_ in BUILD.glob(f"CMakeFiles/{library}.dir/ops/**/*.o"):
            for _, symbol in symbols(object_):
                match = re.fullmatch(r"anyop::ops::(\w+)", symbol)
                if match and match[1] in names and match[1] not in listed:
                    yield f"{library}: {object_} holds {match[1]}, which the table lacks"


# What other libraries of a process may see of ours. libanyop shows its whole namespace: bindings,
# adapters and tests use more than the public headers declare.
EXPORTED = {
    "libanyop.so": r"anyop_|_Z(T[ISVWH]|GV|GVZ|Z)?NK?5anyop",
    "_anyop.": r"PyInit__anyop$",
    "anyop_ops": r"anyop_library$",
}
GUARDED = ("libanyop.so", "_anyop.", "anyop-run", "torch_adapter")  # no kernels


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def binary_rules() -> Iterator[str]:
    """What cmake/hardening.cmake asks for is in the libraries and programs that ship."""
    for path in [*BUILD.glob("lib/*.so"), *BUILD.glob("bin/anyop-run")]:
        yield from binary_breaches(path)


def binary_breaches(path: Path) -> Iterator[str]:
    name = path.name
    dynamic, segments = output("readelf", "-dW", path), output("readelf", "-lW", path)
    if "GNU_RELRO" not in segments or not re.search(r"\bBIND_NOW\b|\bNOW\b", dynamic):
        yield f"{name}: tables of addresses stay writable: link with -z relro -z now"
    if re.search(r"GNU_STACK.*\bRWE\b", segments):
        yield f"{name}: has an executable stack"
    for search in re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic):
        if not all(search.split(":")):
            yield f"{name}: looks for libraries in the working directory: '{search}'"
    if name.startswith(GUARDED):
        needs = output("nm", "-D", "--undefined-only", path)
        if "__stack_chk_fail" not in needs:
            yield f"{name}: is built without -fstack-protector-strong"
        if name == "libanyop.so" and not re.search(r"__\w+_chk@", needs):
            yield f"{name}: is built without _FORTIFY_SOURCE"
    for begin, pattern in EXPORTED.items():
        if not name.startswith(begin):
            continue
        for line in output("nm", "-D", "--defined-only", path).splitlines():
            symbol = line.split()[-1]
            if not re.match(pattern, symbol):
                yield f"{name}: shows {symbol}, which is not ours to show"


def main() -> int:
    names = operators()
    breaches: list[str] = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        breaches += text_rules(path, text)
        breaches += naming_rules(path, text, names)
    breaches += object_rules()
    breaches += table_rules(names)
    breaches += binary_rules()
    print("\n".join(breaches) or f"{len(names)} operators, no breach")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
