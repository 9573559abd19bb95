# SPDX-License-Identifier: Apache-2.0
"""mindspore.ops.CustomOpBuilder for packages of Ascend users, which needs neither CANN nor
MindSpore: the module that it builds takes NumPy arrays, and MindSpore's tensors on the CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from anyop import _anyop, _compiler
from anyop.ascend.build import include_folder
from anyop.ascend.wrapper import link_flags

_TIMEOUT_S = 1800
_OF_PACKAGES = ("torch/include", "mindspore/include/third_party")


def pybind11_folder() -> Path:
    """The folder of pybind11's headers: the package of that name, or torch's or MindSpore's copy.

    Raises NotAvailable where there is none.
    """
    if importlib.util.find_spec("pybind11"):
        return Path(importlib.import_module("pybind11").get_include())
    for place in _OF_PACKAGES:
        for path in sys.path:
            folder = Path(path or ".", place)
            if (folder / "pybind11" / "pybind11.h").exists():
                return folder
    raise _anyop.NotAvailable(
        "pybind11's headers are missing, with which the module of a package is built. "
        "Try `pip install pybind11`."
    )


class CustomOpBuilder:
    """Builds a Python module of C++ sources that include ms_extension/api.h or ms_extension.h."""

    def __init__(
        self,
        name: str,
        sources: str | Sequence[str],
        backend: str | None = None,
        include_paths: str | Sequence[str] | None = None,
        cflags: str | None = None,
        ldflags: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.name, self.backend = name, backend
        self.source = [sources] if isinstance(sources, str) else list(sources)
        paths = [include_paths] if isinstance(include_paths, str) else list(include_paths or ())
        self.include_paths = paths
        self.cflags, self.ldflags = cflags, ldflags
        self.build_dir: str | None = kwargs.get("build_dir")

    def get_sources(self) -> list[str]:
        return self.source

    def get_include_paths(self) -> list[str]:
        own = include_folder()
        folders = (own / "packages", own, pybind11_folder(), Path(sysconfig.get_path("include")))
        return [*self.include_paths, *map(str, folders)]

    def get_cflags(self) -> list[str]:
        own = [f"-DMS_EXTENSION_NAME={self.name}", "-std=c++17", "-O2", "-fPIC", "-w"]
        hidden = ["-fvisibility=hidden", "-DCUSTOM_ASCEND_OP"]
        return [*own, *hidden, *([self.cflags] if self.cflags else [])]

    def get_ldflags(self) -> list[str]:
        return ["-shared", *([self.ldflags] if self.ldflags else []), *link_flags()]

    def _folder(self) -> Path:
        usual = Path(os.environ.get("MS_COMPILER_CACHE_PATH", "kernel_meta")) / self.name
        folder = Path(self.build_dir) if self.build_dir else usual
        folder.mkdir(parents=True, exist_ok=True)
        return folder.resolve()

    def build(self) -> str:
        """The module's file. Raises InvalidArgument for what the compiler refuses."""
        folder = self._folder()
        try:
            compiler, flags = _compiler.find_compiler(), _words(self.get_cflags())
            searched = [f"-I{path}" for path in self.get_include_paths()]
            objects = []
            for i, path in enumerate(self.get_sources()):
                objects.append(str(folder / f"{i}_{Path(path).stem}.o"))
                line = [compiler, *flags, *searched, "-c", str(path), "-o", objects[-1]]
                _compiler.run(line, _TIMEOUT_S)
            made = str(folder / f"{self.name}.so")
            _link([compiler, *objects, *_words(self.get_ldflags()), "-o", made])
        except _compiler.SourceError as error:
            raise _anyop.InvalidArgument(
                f"{self.name}: the compiler says:\n{error.output}"
            ) from None
        except _compiler.CannotBuildError as error:
            raise _anyop.NotAvailable(f"{self.name}: {error}.") from None
        return made

    def load(self) -> ModuleType:
        """The module, built if need be."""
        spec = importlib.util.spec_from_file_location(self.name, self.build())
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _link(line: list[str]) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    if done.returncode:
        raise _compiler.SourceError(line[0], done.stderr)


def _words(flags: Sequence[str]) -> list[str]:
    """As a shell would part them: callers give several in one text."""
    return [word for text in flags for word in shlex.split(text)]


def builder_over(real: Any) -> Any:
    """A class that is called like MindSpore's own: what is for the CPU is built by MindSpore."""

    class Chosen(CustomOpBuilder):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            backend = kwargs.get("backend", args[2] if len(args) > 2 else None)
            return real(*args, **kwargs) if backend == "CPU" else super().__new__(cls)

    Chosen.__name__ = Chosen.__qualname__ = "CustomOpBuilder"
    return Chosen
