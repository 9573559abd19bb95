# SPDX-License-Identifier: Apache-2.0
"""bisheng and ccec of the folder that `anyop ascend home` makes: they compile AscendC for this
machine with its own compiler, and take what the vendor's compilers take.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from anyop import _anyop, _compiler
from anyop.ascend import source as source_file
from anyop.ascend.build import include_folder, runtime_library

SOURCES = (".asc", ".cce", ".cpp", ".cc", ".cxx", ".c")
# Words of the vendor's compilers alone: which chip, and how code for it is made. And older
# standards of C++, which would come behind the one of `flags` and so count.
_DROPPED = re.compile(
    r"--(cce|npu)-.*|--cce|--target=.*|-mllvm=.*|--?(Xaicore|Xhost)-(start|end)"
    r"|-std=(c|gnu)\+\+(98|03|0x|11|1y|14)|--?fno-sanitize=.*|-dc|--(cce-)?enable-.*|-w"
)
_DROPPED_PAIRS = ("-x", "-mllvm", "-Xclang", "--npu-arch", "-Xlinker-aicore")
_PAIRS = ("-o", "-I", "-D", "-L", "-l", "-isystem", "-include", "-MF", "-MT", "-MQ", "-U", "-T",
          "-Xlinker", "-idirafter", "-iquote", "-u", "-z")  # fmt: skip
CHECKED = "--anyop-checked"  # of a home whose kernels check themselves
NPU = "--anyop-npu"  # of a home beside torch_npu itself
ROOMS = ("stubs", "packages", "npu")  # folders of headers that are no part of those above them
_HEADERS = "--anyop-launch-headers="
_TIMEOUT_S = 1800


@dataclass
class Given:
    """A command line. flags: what the compiler gets as it is."""

    sources: list[Path] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    output: str = ""
    compiles: bool = False  # -c, -E, -S or -M: nothing is linked
    headers: Path | None = None
    checked: bool = False
    npu: bool = False


def parsed(arguments: Sequence[str]) -> Given:
    """Parts a command line, and drops what only the vendor's compilers know."""
    given, rest = Given(), list(arguments)
    while rest:
        word = rest.pop(0)
        if word in _DROPPED_PAIRS:
            rest[:1] = []
        elif word == "-o" and rest:
            given.output = rest.pop(0)
        elif word in _PAIRS and rest:
            given.flags += [word, rest.pop(0)]
        elif word == CHECKED:
            given.checked = True
        elif word == NPU:
            given.npu = True
        elif word.startswith(_HEADERS):
            given.headers = Path(word.removeprefix(_HEADERS))
        elif _DROPPED.fullmatch(word) or (word.startswith("-x") and len(word) > 2):
            continue
        elif not word.startswith("-") and word.endswith(SOURCES):
            given.sources.append(Path(word))
        else:
            given.compiles |= word in ("-c", "-E", "-S", "-M", "-MM")
            given.flags.append(word)
    return given


def include_folders(npu: bool) -> list[Path]:
    """The folders of headers for kernels, tiling functions and host code. npu: those of torch_npu
    itself are there, too.
    """
    include = include_folder()
    return [include, include / "stubs", include / ("npu" if npu else "packages")]


def _include_flags(npu: bool) -> list[str]:
    """torch_npu brings headers of graphs, which come before the stubs of the same names."""
    include, stubs, packages = include_folders(npu)
    return [f"-I{include}", f"-{'idirafter' if npu else 'I'}{stubs}", f"-I{packages}"]


def flags(checked: bool, npu: bool = False) -> list[str]:
    """What kernels and the host code beside them are compiled with."""
    return [
        "-std=gnu++17", "-march=native", "-fPIC", "-w", *(("-O1", "-g1") if checked else ("-O3",)),
        f"-DANYOP_ASCEND_CHECKED={int(checked)}", "-DANYOP_ASCEND_PACKAGE=1", "-include", "cstdint",
        "-include", "cstddef", *_include_flags(npu),
    ]  # fmt: skip


def flags_of_host() -> list[str]:
    """For host code that another compiler driver builds, without launches in it."""
    include = include_folder()
    return [f"-I{include / 'packages'}", f"-I{include}", "-DANYOP_ASCEND_PACKAGE=1"]


def link_flags() -> list[str]:
    """The runtime of kernels, which is found where it lies now."""
    runtime = runtime_library()
    return [str(runtime), f"-Wl,-rpath,{runtime.parent}"]


def unit(path: Path, headers: Path | None = None) -> str:
    """What the compiler reads in place of a file. headers: where those of launches are written."""
    file = source_file.Source(path)
    name = str(file.path).replace("\\", "\\\\").replace('"', '\\"')
    text = f'#line 1 "{name}"\n{source_file.rewritten(file.text)}\n'
    if headers is None:
        return text
    launches = [k for k in file.declared if not k.is_template and "::" not in k.name]
    for kernel in launches:
        declared = f"{_launch_of(kernel)};"
        (headers / f"aclrtlaunch_{kernel.name}.h").write_text(_HEADER.format(declared), "utf-8")
    bodies = (_BODY.format(_launch_of(k), k.name, ", ".join(_named(k))) for k in launches)
    return text + '#line 1 "launches by name"\n' + "".join(bodies)


_HEADER = """#pragma once
#include <cstdint>
#ifndef ACLRT_LAUNCH_KERNEL
#define ACLRT_LAUNCH_KERNEL(kernel) aclrtlaunch_##kernel
#endif
{}
"""
_BODY = (
    '{0} {{\n  anyop_ascend_start("{1}", &{1}, blocks, nullptr, stream)({2});\n'
    "  return 0;\n}}\n"
)


def _named(kernel: source_file.Declared) -> list[str]:
    return [f"anyop_argument_{i}" for i in range(len(kernel.types))]


def _launch_of(kernel: source_file.Declared) -> str:
    parameters = [f"{t} {n}" for t, n in zip(kernel.types, _named(kernel), strict=True)]
    words = ", ".join(["uint32_t blocks", "void* stream", *parameters])
    return f'extern "C" uint32_t aclrtlaunch_{kernel.name}({words})'


def command(given: Given, scratch: Path) -> list[list[str]]:
    """The compiler's command lines: one for each source, and what links them."""
    compiler, objects, lines = _compiler.find_compiler(), [], []
    own = [f for f in given.flags if f != "-c" and f != "-shared"]
    for i, path in enumerate(given.sources):
        made = scratch / f"{i}.cc"
        made.write_text(unit(path, given.headers), encoding="utf-8")
        made_object = given.output if given.compiles else str(scratch / f"{i}.o")
        made_object = made_object or path.with_suffix(".o").name
        how = [] if {"-E", "-S", "-M", "-MM"} & set(given.flags) else ["-c"]
        # What is compiled lies in the scratch folder; "..." is searched for beside the source.
        near = f"-iquote{path.resolve().parent}"
        own_flags = own if given.compiles else [f for f in own if not _is_for_linker(f)]
        line = [compiler, *flags(given.checked, given.npu), near, *own_flags, *how, str(made)]
        lines.append([*line, "-o", made_object] if how or given.output else line)
        objects.append(made_object)
    if not given.compiles:
        end = ["-o", given.output] if given.output else []
        lines.append([compiler, *objects, *given.flags, *link_flags(), *end])
    return lines


def _is_for_linker(flag: str) -> bool:
    return flag.startswith(("-l", "-L", "-Wl,", "-Xlinker")) or flag.endswith((".o", ".a", ".so"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status, as a compiler has it."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if {"--version", "-v"} & set(words) and not any(w.endswith(SOURCES) for w in words):
        print("anyop: AscendC for this machine (anyop ascend home)")
        return 0
    given = parsed(words)
    try:
        with tempfile.TemporaryDirectory(prefix="anyop-bisheng-") as folder:
            lines = command(given, Path(folder))
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                status = max(threads.map(_status, lines[: len(given.sources)]), default=0)
            if status or (not given.compiles and (status := _status(lines[-1]))):
                return status
            _name_sources(given, Path(folder))
    except (_anyop.Error, _compiler.CannotBuildError, OSError) as error:
        text = str(error)
        print(f"bisheng: {text}{'' if text.endswith('.') else '.'}", file=sys.stderr)
        return 1
    return 0


def _status(line: list[str]) -> int:
    done = subprocess.run(line, check=False, timeout=_TIMEOUT_S)
    return done.returncode if done.returncode >= 0 else 1


def _name_sources(given: Given, scratch: Path) -> None:
    """In files for make, the source's own name: that of the scratch file is gone."""
    if "-MF" not in given.flags or len(given.sources) != 1:
        return
    path = Path(given.flags[given.flags.index("-MF") + 1])
    if path.exists():
        own = str(given.sources[0].resolve())
        path.write_text(path.read_text().replace(str(scratch / "0.cc"), own))


if __name__ == "__main__":
    sys.exit(main())
