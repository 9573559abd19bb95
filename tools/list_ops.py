# SPDX-License-Identifier: Apache-2.0
"""Lists the operators found below a folder into the table that `anyop_library` returns.

An operator is a line `extern constinit const Op NAME{`; a reference a line
`extern constinit const Reference NAME{`; a kernel of an operator that lists none itself a line
`ANYOP_KERNEL(NAME){`. Run by the build (cmake/anyop.cmake); needs only Python's
standard library, so that it works for users' packages as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kernel_files  # beside this file

DEFINITION = r"^extern constinit const {kind} (\w+)\s*\{{"
TABLE = """// SPDX-License-Identifier: Apache-2.0
// Made by list_ops.py from the sources; do not edit.
#include "anyop/abi.h"

namespace anyop {{
struct Op;
struct Kernel;
struct Reference;
namespace ops {{
{declarations}
}}  // namespace ops
}}  // namespace anyop

namespace {{
{arrays}
}}  // namespace

extern "C" ANYOP_EXPORT const anyop_library_info* anyop_library() {{
  static const anyop_library_info info = {{
      sizeof(anyop_library_info), ANYOP_ABI_VERSION, {name}, {version},
      {n_ops}, {n_references}, {ops}, {docs}, {files}, {kernel_lists}, {references}, {kernels}}};
  return &info;
}}
"""


@dataclass
class Found:
    name: str
    file: str
    doc: str
    listed: list[str]  # the C++ names of kernels that it lists itself, best first
    kernels: list[str]  # of those that the build lists for it


def opening_comment(text: str) -> str:
    """The first comment block after the licence line, without its slashes."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("// SPDX"):
            continue
        if line.startswith("//"):
            lines.append(line[3:] if line.startswith("// ") else line[2:])
        elif lines:
            break
    return "\n".join(lines)


def kernel_names(text: str, start: int) -> list[str]:
    """The C++ names in the array that the `.kernels` of the operator at `start` names."""
    body = text[start : text.find("};", start)]
    named = re.search(r"\.kernels\s*=\s*(\w+)", body)
    if not named:
        return []
    array = re.search(rf"\b{named[1]}\s*\[\]\s*=\s*\{{(.*?)\}}", text, re.S)
    return re.findall(r"&\s*(\w+)", array[1]) if array else []


def find(folder: Path, kind: str, only: Sequence[str] = ()) -> list[Found]:
    """only: the folders below it that are looked into; all of them if empty."""
    found: list[Found] = []
    built = kernel_files.kernels_below(folder) if kind == "Op" else {}
    for path in sorted(folder.rglob("*.cc")):
        if only and not any(path.is_relative_to(folder / name) for name in only):
            continue
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(DEFINITION.format(kind=kind), text, re.M):
            twin = next((f for f in found if f.name == match[1]), None)
            if twin:
                sys.exit(f"{path}: {match[1]} is also defined in {twin.file}. Rename one of them.")
            found.append(
                Found(
                    match[1],
                    path.relative_to(folder).as_posix(),
                    opening_comment(text),
                    kernel_names(text, match.start()),
                    built.get(match[1], []),
                )
            )
    return found


def quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def array(kind: str, name: str, items: list[str]) -> str:
    return f"const {kind} {name}[] = {{\n    " + ",\n    ".join(items) + "};"


def table(name: str, version: str, ops: list[Found], references: list[Found]) -> str:
    arrays = []
    if ops:
        cast = "reinterpret_cast<const anyop_op*>(&anyop::ops::{})"
        arrays += [
            array("anyop_op* const", "kOps", [cast.format(f.name) for f in ops]),
            array("char* const", "kDocs", [quote(f.doc) for f in ops]),
            array("char* const", "kFiles", [quote(f.file) for f in ops]),
            array("char* const", "kKernelLists",
                  [quote(",".join(f.listed or f.kernels)) for f in ops]),
        ]  # fmt: skip
        cast = "reinterpret_cast<const anyop_kernel*>(&anyop::ops::{})"
        for i, f in enumerate(ops):
            if f.kernels:
                kernels = [cast.format(name) for name in f.kernels]
                arrays.append(array("anyop_kernel* const", f"kKernels{i}", kernels))
        lists = [f"{{{len(f.kernels)}, kKernels{i}}}" if f.kernels else "{0, nullptr}"
                 for i, f in enumerate(ops)]  # fmt: skip
        arrays.append(array("anyop_kernel_list", "kKernels", lists))
    if references:
        cast = "reinterpret_cast<const anyop_reference*>(&anyop::ops::{})"
        items = [cast.format(f.name) for f in references]
        arrays.append(array("anyop_reference* const", "kReferences", items))
    declare = [f"extern const Op {f.name};" for f in ops]
    declare += [f"extern const Kernel {name} [[gnu::weak]];" for f in ops for name in f.kernels]
    declare += [f"extern const Reference {f.name};" for f in references]
    return TABLE.format(
        name=quote(name),
        version=quote(version),
        declarations="\n".join(declare),
        arrays="\n".join(arrays),
        n_ops=len(ops),
        n_references=len(references),
        ops="kOps" if ops else "nullptr",
        docs="kDocs" if ops else "nullptr",
        files="kFiles" if ops else "nullptr",
        kernel_lists="kKernelLists" if ops else "nullptr",
        references="kReferences" if references else "nullptr",
        kernels="kKernels" if ops else "nullptr",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--name", required=True, help="the library's name: the namespace of its operators"
    )
    parser.add_argument("--library-version", default="0.0.0")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="folders below it")
    parser.add_argument("--what", choices=["operators", "references"], default="operators")
    parser.add_argument("--output", required=True, type=Path)
    args = parser.parse_args()
    if args.what == "operators":
        import check_ops  # beside this file too

        findings = check_ops.check([args.folder], kernel_files.isas_of(kernel_files.ISA_TABLE))
        if findings:
            sys.exit("\n".join(map(str, findings)))
    is_reference = args.what == "references"
    ops = find(args.folder, "Op", args.only) if not is_reference else []
    references = find(args.folder, "Reference", args.only) if is_reference else []
    if not ops and not references:
        sys.exit(
            f"No {args.what} below {args.folder}: no line is 'extern constinit const Op NAME{{'."
        )
    text = table(args.name, args.library_version, ops, references)
    if not args.output.exists() or args.output.read_text(encoding="utf-8") != text:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
