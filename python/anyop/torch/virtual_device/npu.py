# SPDX-License-Identifier: Apache-2.0
"""Builds the kernels of torch's operators for the virtual NPU, for the torch that is installed.

`anyop npu install` has its environment's Python do it; they lie in the folder of anyop.npu then.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch

import anyop
from anyop import _cache
from anyop._compiler import CannotBuildError
from anyop.hosting import build
from anyop.hosting.sentences import clause
from anyop.npu import startup
from anyop.torch._route.build import VERSION, of_torch

# The parts of the backend for virtual devices that serve here too: torch_npu is the backend.
SHARED = ("boxed.cc", "composed.cc", "copies.cc", "library.cc", "table.cc")


def product() -> build.Product:
    """What the kernels are made of. Raises CannotBuildError where the sources are not here."""
    shared, own = build.carried("devices/virtual/torch"), build.carried("devices/npu/torch")
    return build.Product(
        name="npu_torch",
        version=VERSION,
        what=f"kernels of torch {VERSION} for the virtual NPU",
        sources=[*(shared / name for name in SHARED), *sorted(own.glob("*.cc"))],
        includes=[build.carried("include")],
        flags=[f"-I{build.carried('devices').parent}", *of_torch()],
        lasts="about half a minute",
    )


def put() -> Path:
    """Builds them where they are not in the user's cache, and puts them into this package."""
    target = startup.kernels(Path(anyop.__file__).parent, str(torch.__version__))
    try:
        made = build.build(product(), _cache.cache_folder())
    except CannotBuildError as error:
        raise anyop.NotAvailable(
            f"anyop.npu: kernels of torch's operators cannot be built: {clause(error)}."
        ) from None
    shutil.copy2(made, target)
    return target


def main() -> None:
    """For an environment's Python: its last line says what went wrong."""
    try:
        print(put())
    except anyop.NotAvailable as error:
        sys.exit(f"ERROR: {error}")
