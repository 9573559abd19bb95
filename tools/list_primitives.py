# SPDX-License-Identifier: Apache-2.0
"""Makes the functions of MindSpore's operator plug-in from its rows.

    list_primitives.py bindings/mindspore/primitives.txt --output FUNCTIONS --map EXPORTS

A row is a primitive with its inputs and results; the lines that are indented below it are the body
of its function, in which these are variables. Run by the build.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROW = re.compile(r"(\w+)\(([^()]*)\)\s*->\s*\(([^()]*)\)$")
READ = {"": "const Array {name} = given.tensor({index});",
        "int": "const std::int64_t {name} = given.integer({index});",
        "float": "const double {name} = given.number({index});"}  # fmt: skip
FUNCTION = """
void Run{name}(const Given& given) {{
{reads}
{body}
}}
"""
EXPORT = """
ANYOP_EXPORT int {name}(int n, void** data, int* ranks, std::int64_t** sizes, const char** dtypes,
    void*, void* extra) {{
  return Serve({{"{name}", n, data, ranks, sizes, dtypes, static_cast<KernelInputs*>(extra)}},
               {count}, &Run{name});
}}
"""
FILE = """// SPDX-License-Identifier: Apache-2.0
// Made by list_primitives.py from {source}; do not edit.
#include "plugin.h"

namespace anyop::mindspore {{
namespace {{
{functions}
const char* const kNames[] = {{{names}}};

}}  // namespace
}}  // namespace anyop::mindspore

extern "C" {{

using anyop::mindspore::KernelInputs;
using namespace anyop::mindspore;
{exports}
// What MindSpore asks a plug-in for.
ANYOP_EXPORT int GetRegisteredOpCount() {{ return {count}; }}
ANYOP_EXPORT char** GetAllRegisteredOps() {{ return const_cast<char**>(kNames); }}

}}  // extern "C"
"""


@dataclass
class Primitive:
    """A row. inputs: (name, "" or int or float)."""

    name: str
    inputs: list[tuple[str, str]]
    results: list[str]
    body: list[str]

    def function(self) -> str:
        variables = [*self.inputs, *((r, "") for r in self.results)]
        reads = [
            "  [[maybe_unused]] " + READ[kind].format(name=name, index=i)
            for i, (name, kind) in enumerate(variables)
        ]
        return FUNCTION.format(
            name=self.name, reads="\n".join(reads), body="\n".join(self.body).rstrip()
        )

    def export(self) -> str:
        return EXPORT.format(name=self.name, count=len(self.inputs) + len(self.results))


def parse(text: str, source: str) -> list[Primitive]:
    """The rows of a file; ends the program with a sentence where one is wrong."""
    found: list[Primitive] = []
    heading = ""
    for number, line in enumerate(text.splitlines(), 1):
        is_body = line.startswith("    ") and not heading
        if line.startswith("#") or not line.strip():
            continue
        if is_body:
            if not found:
                sys.exit(f"{source}:{number}: a body stands before any primitive.")
            found[-1].body.append(line[2:])
            continue
        heading = f"{heading} {line.strip()}".strip()
        if "->" not in heading or not heading.endswith(")"):
            continue
        match = ROW.match(heading)
        if not match:
            sys.exit(f"{source}:{number}: '{heading}' is no `Name(input, ...) -> (result, ...)`.")
        found.append(Primitive(match[1], _inputs(match[2], source, number), _names(match[3]), []))
        heading = ""
    if heading:
        sys.exit(f"{source}: '{heading}' does not end.")
    for row in found:
        if not row.body:
            sys.exit(f"{source}: {row.name} has no body.")
    return found


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _inputs(text: str, source: str, number: int) -> list[tuple[str, str]]:
    found = []
    for one in _names(text):
        name, _, kind = (part.strip() for part in one.partition(":"))
        if kind not in READ:
            sys.exit(f"{source}:{number}: {name} is '{kind}', but must be int, float or a tensor.")
        found.append((name, kind))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--map", type=Path, required=True)
    arguments = parser.parse_args()
    rows = parse(arguments.rows.read_text(), arguments.rows.name)
    names = [row.name for row in rows]
    arguments.output.write_text(
        FILE.format(
            source=arguments.rows.name,
            functions="".join(row.function() for row in rows),
            exports="".join(row.export() for row in rows),
            names=", ".join(f'"{name}"' for name in names),
            count=len(names),
        )
    )
    visible = "; ".join([*names, "GetRegisteredOpCount", "GetAllRegisteredOps"])
    arguments.map.write_text(f"{{ global: {visible}; local: *; }};\n")


if __name__ == "__main__":
    main()
