# SPDX-License-Identifier: Apache-2.0
"""Lets torch_npu be imported without CANN, where the variable ANYOP_NPU is set.

`anyop npu install` copies this file into its environment as the module _anyop_npu, and Python runs
it at its start there. It waits for torch_npu. Libraries of the names that torch_npu links are
loaded before it, and torch's own operators get kernels for the virtual NPU after it.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

CANN = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")  # set by its set_env.sh
VERSIONS = {"2.14.0": "2.14.0", "2.13.0": "2.13.0"}  # of torch_npu, with the torch of each
_HOME = ".anyop-ascend-home"  # in a folder of `anyop ascend home`, which sets the same variables
_CHECK = "torch_npu._init.registry.registry_manager"
_TORCHAIR = ("torchair", "torch_npu.dynamo.torchair")  # torch_npu gives it both names
_BACKENDS = tuple(f"{name}.core._backend" for name in _TORCHAIR)
_CONVERTERS = tuple(f"{name}._ge_concrete_graph.fx2ge_converter" for name in _TORCHAIR)
library: Path | None = None  # of the device "npu", once torch_npu has it


class Finder:
    """Finds torch_npu as Python does, and adds what comes before and after it."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        if name not in ("torch_npu", _CHECK, *_BACKENDS, *_CONVERTERS):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        folder = Path(__file__).parent / "anyop"
        if name == _CHECK:
            _surround(spec.loader, lambda: None, _leave_cann_out)
        elif name in _BACKENDS:
            _surround(spec.loader, lambda: None, _run_graphs)
        elif name in _CONVERTERS:
            _surround(spec.loader, lambda: None, _call_operators)
        elif library is None:
            _surround(spec.loader, lambda: load(folder), lambda module: start(folder))
        return spec


def _surround(loader: Any, before: Callable[[], None], after: Callable[[Any], None]) -> None:
    """Does both around the module's own code."""
    run = loader.exec_module

    def exec_module(module: Any) -> None:
        before()
        run(module)
        after(module)

    loader.exec_module = exec_module


def _leave_cann_out(module: Any) -> None:
    """torch_npu looks for CANN, and prints that there is none."""
    if hasattr(module, "_cann_package_check"):
        module._cann_package_check = lambda: None


def _run_graphs(module: Any) -> None:
    """torchair gives its graphs to an engine that is part of CANN."""
    from anyop.torch.graph_engine import engine

    engine.replace_backend(module)


def _call_operators(module: Any) -> None:
    """Its graphs would hold operators that are not here."""
    from anyop.torch.graph_engine import calls, engine

    calls.add_converters(module, engine.is_here)


def other_cann() -> str:
    """What says that a CANN is here, or ""."""
    for variable in CANN:
        value = os.environ.get(variable, "")
        if value and not Path(value).parent.joinpath(_HOME).exists():
            return f"{variable} is {os.environ[variable]}"
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        file = Path(folder, "libascendcl.so")
        if folder and file.exists():
            return f"LD_LIBRARY_PATH leads to {file}"
    try:
        ctypes.CDLL("libascendcl.so", mode=os.RTLD_NOLOAD)
    except OSError:
        return ""
    return "libascendcl.so is loaded already"


def load(folder: Path) -> None:
    """Loads what torch_npu links. folder: of the package anyop."""
    cann = other_cann()
    if cann:
        raise ImportError(
            f"anyop.npu: ANYOP_NPU asks for the virtual NPU, but a CANN is here: {cann}. "
            "Try without one of them."
        )
    version = importlib.metadata.version("torch_npu")
    if version not in VERSIONS:
        raise ImportError(
            f"anyop.npu: torch_npu {version} is here, but the virtual NPU is made for "
            f"{', '.join(VERSIONS)}. Try `anyop npu install` with a new folder."
        )
    # With 2 the error of a call comes when the program next waits. With 0 it comes at the call,
    # that of a missing operator too.
    os.environ.setdefault("TASK_QUEUE_ENABLE", "0")
    device = ctypes.CDLL(str(folder / "anyop_npu.so"), mode=ctypes.RTLD_GLOBAL)
    for file in sorted((folder / "npu" / "lib").glob("lib*.so")):
        ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    count = ctypes.c_uint32()
    if device.aclrtGetDeviceCount(ctypes.byref(count)):
        device.aclGetRecentErrMsg.restype = ctypes.c_char_p
        raise ImportError(f"anyop.npu: {device.aclGetRecentErrMsg().decode()}")
    chip_packages = _module(folder / "npu" / "chip_packages.py")
    chip_packages.check_operators()
    chip_packages.explain_imports()


def _module(file: Path) -> Any:
    """By its path: to import it from anyop would import anyop, which is not wanted before torch."""
    spec = importlib.util.spec_from_file_location(f"_anyop_npu_{file.stem}", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernels(folder: Path, version: str) -> Path:
    """Where the kernels of torch's operators are, which an installation builds."""
    return folder / "npu" / f"npu_torch-{version}.so"


def start(folder: Path) -> None:
    """Gives torch's operators their kernels, when torch_npu has registered its own."""
    global library
    import torch

    file = kernels(folder, str(torch.__version__))
    if not file.exists():
        raise ImportError(
            f"anyop.npu: {file} is missing: this environment was made for another torch than "
            f"{torch.__version__}. Try `anyop npu install` with a new folder."
        )
    from anyop import _hosts

    _hosts.start_torch()  # anyop's operators compute some of aclnn

    begin = ctypes.CDLL(str(file)).anyop_npu_torch_start
    begin.restype = ctypes.c_char_p
    why: bytes = begin(str(folder / "anyop_npu.so").encode())
    if why:
        raise ImportError(f"anyop.npu: {why.decode()}")
    library = folder / "anyop_npu.so"
    _hosts.operators_changed()  # torch takes them for the device only now
    _launch_on(library, folder / "libanyop_ascend.so")


def _launch_on(device: Path, runtime: Path) -> None:
    """AscendC kernels of packages, compiled for this machine, go to torch_npu's streams."""
    ascend = ctypes.CDLL(str(runtime))
    if ascend.anyop_ascend_use_device(str(device).encode()):
        ascend.anyop_ascend_error.restype = ctypes.c_char_p
        raise ImportError(f"anyop.npu: {ascend.anyop_ascend_error().decode()}")


# Beside the packages alone: as anyop.npu.startup it is a module like others.
if os.environ.get("ANYOP_NPU") and "." not in __name__:
    sys.meta_path.insert(0, Finder)
