# SPDX-License-Identifier: Apache-2.0
"""Builds the backend for the torch that is installed, and starts it."""

from __future__ import annotations

import ctypes
import functools
import types
from pathlib import Path

import torch
from torch.utils import backend_registration

from anyop import _anyop, _cache
from anyop._compiler import CannotBuildError
from anyop.hosting import build, when_imported
from anyop.hosting.sentences import clause
from anyop.torch._route.build import VERSION, of_torch
from anyop.torch.virtual_device import inductor
from anyop.torch.virtual_device.module import module_of

_NOBODY = "privateuseone"  # as torch calls the device of a backend that is not there


@functools.cache
def start(word: str, library: Path) -> types.ModuleType:
    """Makes the device of a library torch's device `word`, for the rest of the process; gives
    torch.<word>, the module by which torch's Python reaches it. NotAvailable: torch has another
    backend of this kind, the backend cannot be built, or its device is not there.
    """
    taken = torch._C._get_privateuse1_backend_name()
    if taken not in (_NOBODY, word):
        raise _anyop.NotAvailable(
            f"{word}: torch has one device of this kind (PrivateUse1) in a process, and "
            f'"{taken}" has taken it. Try a process that does not import what brings "{taken}"; '
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 keeps torch from doing so itself."
        )
    try:
        adapter = str(built())
    except CannotBuildError as error:
        raise _anyop.NotAvailable(
            f"{word}: torch's backend for it is not there: {clause(error)}."
        ) from None
    torch.ops.load_library(adapter)
    why = begin(adapter, library)
    if why:
        raise _anyop.NotAvailable(why)
    backend_registration.rename_privateuse1_backend(word)
    module: types.ModuleType = module_of(word)
    torch._register_device_module(word, module)
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    when_imported("torch._inductor.compile_fx", functools.partial(inductor.register, word))
    return module


def built() -> Path:
    """The backend in the user's cache, built now if it is not there. Raises CannotBuildError."""
    return build.build(_backend(), _cache.cache_folder())


def begin(adapter: str, library: Path) -> str:
    """Registers the backend with torch: "", or why not."""
    function = ctypes.CDLL(adapter).anyop_virtual_torch_start
    function.restype = ctypes.c_char_p
    text: bytes = function(str(library).encode())
    return text.decode()


def _backend() -> build.Product:
    return build.Product(
        name="torch_virtual_device",
        version=VERSION,
        what=f"torch's backend for virtual devices, for torch {VERSION}",
        sources=sorted(build.carried("devices/virtual/torch").glob("*.cc")),
        includes=[build.carried("include")],
        flags=of_torch(),
        lasts="about half a minute",
    )
