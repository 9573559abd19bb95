# SPDX-License-Identifier: Apache-2.0
"""Lists the kernels for CUDA cards of the files ops/*/cuda.cu into the table of the device library
(devices/cuda/kernel_table.h). A kernel is a line `extern constinit const DeviceKernel NAME{`.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

DEFINITION = re.compile(r"^extern constinit const DeviceKernel (\w+)\s*\{", re.M)
TABLE = """// SPDX-License-Identifier: Apache-2.0
// Made by list_cuda.py from the sources; do not edit.
#include "devices/cuda/kernel_table.h"

namespace anyop::cuda {{
struct DeviceKernel;
{declarations}

namespace {{
const anyop_device_kernel* const kKernels[] = {{
{rows}
    nullptr}};
}}  // namespace

std::uint32_t KernelCount() {{ return {count}; }}
const anyop_device_kernel* const* Kernels() {{ return kKernels; }}

}}  // namespace anyop::cuda
"""


def kernels(files: list[Path]) -> list[str]:
    """The names of the kernels in the order of the files; ends where a file has none."""
    found: list[str] = []
    for path in files:
        names = DEFINITION.findall(path.read_text(encoding="utf-8"))
        if not names:
            sys.exit(f"{path}: no line is 'extern constinit const DeviceKernel NAME{{'.")
        for name in names:
            if name in found:
                sys.exit(f"{path}: {name} is defined twice. Rename one of them.")
            found.append(name)
    return found


def table(names: list[str]) -> str:
    cast = "    reinterpret_cast<const anyop_device_kernel*>(&{}),"
    return TABLE.format(
        declarations="\n".join(f"extern const DeviceKernel {name};" for name in names),
        rows="\n".join(cast.format(name) for name in names),
        count=len(names),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    args = parser.parse_args()
    text = table(kernels(args.files))
    if not args.output.exists() or args.output.read_text(encoding="utf-8") != text:
        args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
