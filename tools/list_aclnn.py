# SPDX-License-Identifier: Apache-2.0
"""Lists the aclnn operators of the virtual NPU as C++: their functions, and the table of them.

An operator is `aclnnX(KIND NAME, ...): EXPRESSION` in a file of devices/npu/aclnn, or the same with
a body of TorchScript below it, which returns the outputs in order. `each A B: aclnn$Name(...): ...`
stands for one operator of each name, where $name is the name in lower case. A function `def` may be
called by all of them. Names of the list of names that no file has get a function that says so. Run
by the build; needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# The kind of an argument, the C type in which it comes, and its Kind in operator.h.
KINDS = {
    "tensor": ("const aclTensor*", "kTensor"),
    "ref": ("aclTensor*", "kRef"),
    "out": ("aclTensor*", "kOut"),
    "late": ("aclTensor*", "kLateOut"),
    "tensors": ("const aclTensorList*", "kTensors"),
    "refs": ("aclTensorList*", "kRefs"),
    "outs": ("aclTensorList*", "kOuts"),
    "scalar": ("const aclScalar*", "kScalar"),
    "scalars": ("const aclScalarList*", "kScalars"),
    "ints": ("const aclIntArray*", "kInts"),
    "floats": ("const aclFloatArray*", "kFloats"),
    "bools": ("const aclBoolArray*", "kBools"),
    "int": ("std::int64_t", "kInt"),
    "int32": ("std::int32_t", "kInt"),
    "int8": ("std::int8_t", "kInt"),
    "bool": ("bool", "kBool"),
    "double": ("double", "kFloat"),
    "float": ("float", "kFloat"),
    "text": ("const char*", "kText"),
    "dtype": ("std::int32_t", "kDtype"),
}
# Tensors of these kinds must be of float32, float16 or bfloat16.
REAL = {"real": "tensor", "real_ref": "ref", "reals": "tensors"}
OPERATOR = re.compile(r"(aclnn\w+)\((.*?)\):\s*(.*)", re.S)
OPENS = re.compile(r"(aclnn|each |def )")

TABLE = """// SPDX-License-Identifier: Apache-2.0
// Made by list_aclnn.py from devices/npu/aclnn; do not edit.
#include "devices/npu/aclnn/operator.h"

#define ACLNN extern "C" __attribute__((visibility("default")))
using namespace npu;

{functions}
constexpr Operator kTable[] = {{
{rows}
}};
const std::span<const Operator> npu::kOperators(kTable);
const char npu::kShared[] = {shared};

{missing}"""
FUNCTIONS = """{parameters}constexpr Operator kOf{name} = {{"{name}", {span}, {script}}};
ACLNN int {name}GetWorkspaceSize({arguments}, std::uint64_t* bytes, aclOpExecutor** executor) {{
  const Given given[] = {{{passed}}};
  return Plan(kOf{name}, given, bytes, executor);
}}
ACLNN int {name}(void*, std::uint64_t, aclOpExecutor* executor, void* stream) {{
  return Launch(kOf{name}, executor, stream);
}}
"""
MISSING = """ACLNN int {name}GetWorkspaceSize() {{ return Missing("{name}"); }}
ACLNN int {name}(void*, std::uint64_t, aclOpExecutor*, void* stream) {{
  return LaunchMissing("{name}", stream);
}}
"""


class WrongError(Exception):
    """A line that says nothing that can be listed."""


@dataclass
class Operator:
    name: str
    parameters: list[tuple[str, str]]  # kind and name; a kind that ends in ? may be absent
    script: str


def entries(text: str) -> Iterator[str]:
    """Each definition with its lines, without comments."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if OPENS.match(line) and lines:
            yield "\n".join(lines)
            lines = []
        lines.append(line)
    if lines:
        yield "\n".join(lines)


def operator(text: str) -> Operator:
    """The operator that an entry defines."""
    found = OPERATOR.fullmatch(text)
    if not found:
        raise WrongError(f"{text.splitlines()[0]}: no operator, no function and no `each`")
    name, listed, body = found.groups()
    parameters = []
    for item in re.split(r",\s*", listed):
        kind, _, label = item.strip().partition(" ")
        if kind.removesuffix("?") not in {**KINDS, **REAL} or not label.isidentifier():
            raise WrongError(f"{name}: {item} is no kind of argument and its name")
        parameters.append((kind, label))
    gives = any(kind.removesuffix("?") in ("out", "late", "outs") for kind, _ in parameters)
    if "\n" not in text or not text.partition(":\n")[2]:
        body = f"    {'return ' if gives else ''}{body}"
    else:
        body = text.partition(":\n")[2]
    return Operator(name, parameters, body)


def of_each(entry: str) -> list[str]:
    """The entries that `each` stands for."""
    names, _, pattern = entry.removeprefix("each ").partition(": ")
    made = []
    for name in names.split():
        lower = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        made.append(pattern.replace("$Name", name).replace("$name", lower))
    return made


def read(files: Iterable[Path]) -> tuple[list[Operator], list[str]]:
    """All operators by name, and the functions that they share."""
    operators: dict[str, Operator] = {}
    shared = []
    for file in files:
        for entry in entries(file.read_text()):
            if entry.startswith("def "):
                shared.append(entry)
                continue
            for text in of_each(entry) if entry.startswith("each ") else [entry]:
                made = operator(text)
                if made.name in operators:
                    raise WrongError(f"{file.name}: {made.name} is there twice")
                operators[made.name] = made
    return sorted(operators.values(), key=lambda made: made.name), shared


def literal(text: str) -> str:
    """A C++ string, whose pieces are short enough for every compiler."""
    lines = [f'R"~({line}\n)~"' for line in text.splitlines()]
    return "\n    ".join(lines) or '""'


def functions(made: Operator) -> str:
    """The two functions of an operator."""
    kinds, rows = [], []
    for written, name in made.parameters:
        word, absent = written.removesuffix("?"), str(written.endswith("?")).lower()
        kinds.append((kind := REAL.get(word, word), name))
        rows.append(f'{{Kind::{KINDS[kind][1]}, {absent}, {str(word in REAL).lower()}, "{name}"}}')
    return FUNCTIONS.format(
        name=made.name,
        parameters=f"constexpr Parameter kOf{made.name}Takes[] = {{{', '.join(rows)}}};\n",
        span=f"kOf{made.name}Takes",
        script=literal(made.script),
        arguments=", ".join(f"{KINDS[kind][0]} {name}_" for kind, name in kinds),
        passed=", ".join(f"{name}_" for _, name in kinds),
    )


def table(operators: list[Operator], shared: list[str], names: list[str]) -> str:
    """The text of the C++ file."""
    there = {made.name for made in operators}
    return TABLE.format(
        functions="\n".join(functions(made) for made in operators),
        rows="\n".join(f"    kOf{made.name}," for made in operators),
        shared=literal("\n".join(shared)),
        missing="".join(MISSING.format(name=name) for name in names if name not in there),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="the C++ file")
    parser.add_argument("--names", type=Path, required=True, help="a name on each line")
    parser.add_argument("files", type=Path, nargs="+", help="where operators are defined")
    args = parser.parse_args()
    try:
        operators, shared = read(args.files)
    except WrongError as error:
        print(f"list_aclnn.py: {error}", file=sys.stderr)
        return 1
    names = args.names.read_text().split()
    args.out.write_text(table(operators, shared, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
