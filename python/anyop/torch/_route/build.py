# SPDX-License-Identifier: Apache-2.0
"""The adapter for the torch that is installed."""

from __future__ import annotations

from pathlib import Path

import torch

from anyop.hosting import build
from anyop.hosting.build import Product, carried

NAME, VERSION = "torch_adapter", str(torch.__version__)


def prebuilt() -> Path:
    """Where the package's own adapter is, if it has one."""
    return build.prebuilt(NAME, VERSION)


def built(cache: str) -> Path:
    """The adapter in the user's cache, built now if it is not there."""
    return build.build(_adapter(), cache)


def _adapter() -> Product:
    """What the adapter is made of. Raises CannotBuildError where the sources are not here."""
    return Product(
        name=NAME,
        version=VERSION,
        what=f"its adapter for torch {VERSION}",
        sources=[
            *sorted(carried("bindings/torch").glob("*.cc")),
            *sorted(carried("bindings/vllm").glob("*.cc")),
        ],
        includes=[carried("include"), carried("src")],
        flags=[f"-I{carried('bindings').parent}", *of_torch()],
        lasts="about half a minute",
    )


def of_torch() -> list[str]:
    """The compiler's flags for code that uses the torch that is installed."""
    folder = Path(torch.__file__).parent
    includes = folder / "include"
    return [
        # libstdc++ has two layouts of std::string, which pass between the adapter and torch.
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *("-isystem", str(includes)),
        *("-isystem", str(includes / "torch" / "csrc" / "api" / "include")),
        *(f"-L{folder / 'lib'}", "-ltorch_cpu", "-lc10"),
    ]
