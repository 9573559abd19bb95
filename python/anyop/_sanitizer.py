# SPDX-License-Identifier: Apache-2.0
"""Packages of operators that are built for the thread sanitizer, and programs that load them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from anyop._compiler import CannotBuildError, find_compiler

NAMES = ("thread",)
_LIBRARY = "libtsan.so"
# -O1: what is left of a source line after more than that has no line of its own in reports.
_FLAGS = "-fsanitize=thread -fno-omit-frame-pointer -g1"
_FIXED_ADDRESSES = 0x0040000  # ADDR_NO_RANDOMIZE of <sys/personality.h>
_ASK = 0xFFFFFFFF


def definitions() -> list[str]:
    """Of CMake, for a package of any version."""
    flags = f"{os.environ.get('CXXFLAGS', '')} {_FLAGS}".strip()
    return [f"-DCMAKE_CXX_FLAGS={flags}", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
            "-DANYOP_SANITIZE=thread"]  # fmt: skip


def check_compiler() -> None:
    """Raises CannotBuildError if the compiler has no thread sanitizer."""
    compiler = find_compiler()
    done = subprocess.run(
        [compiler, f"-print-file-name={_LIBRARY}"], capture_output=True, text=True, check=False
    )
    if not Path(done.stdout.strip()).is_absolute():  # it answers the name of what it does not find
        raise CannotBuildError(
            f"{compiler} has no {_LIBRARY}, which --sanitize thread needs. Try installing the "
            "package that holds it: libgcc-N-dev on Debian and Ubuntu (N is the version of g++), "
            "libtsan on Fedora, gcc-toolset-N-libtsan-devel with a gcc-toolset"
        )


def program_flags() -> list[str]:
    """For a program that loads such libraries. It is linked with the sanitizer and not built for
    it: only the package's own accesses count. Raises CannotBuildError.
    """
    check_compiler()
    return ["-DANYOP_FINDS_RACES", "-Wl,--no-as-needed", "-ltsan"]


def environment() -> dict[str, str]:
    """Of such a program. What the user states in TSAN_OPTIONS comes last and so wins."""
    # exitcode: the status is that of the tests. Threads of a pool are there until the end.
    # ignore_noninstrumented_modules would leave out memcpy and what else a kernel calls; it is not
    # needed, because semaphores, which are seen, order the threads of the program.
    ours = "exitcode=0:report_thread_leaks=0"
    return {**os.environ, "TSAN_OPTIONS": f"{ours}:{os.environ.get('TSAN_OPTIONS', '')}"}


@contextlib.contextmanager
def fixed_addresses() -> Iterator[None]:
    """Processes that start within it lie at fixed addresses, if the system allows it: many
    versions of the sanitizer cannot start where addresses are as random as new kernels make them.
    """
    libc = ctypes.CDLL(None)
    before = libc.personality(_ASK)
    if before != -1:
        libc.personality(before | _FIXED_ADDRESSES)
    try:
        yield
    finally:
        if before != -1:
            libc.personality(before)
