# SPDX-License-Identifier: Apache-2.0
"""Lets torchvision be imported where its compiled part is for another torch.

On Linux PyPI's torchvision is made for torch with CUDA. Beside a torch for CPUs its compiled part
does not load. Its transforms, which the processors of pictures use, need none of that part, but
`import torchvision` looks up two of the operators that the part defines, and transformers imports
torchvision wherever it is installed.

`anyop vllm install` copies this file into an environment where that is so (`environments.py`), and
Python runs it at its start there. It imports nothing but Python's own modules until then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import Any

# What `import torchvision` looks up, compiled part or not.
LOOKED_UP = ("nms", "qnms")
_kept: list[Any] = []  # the end of a library takes its names back


class Finder:
    """Finds nothing. It is asked for torchvision before anything of torchvision is imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        if name == "torchvision" and not _kept:
            spec = PathFinder.find_spec(name)
            if spec and spec.submodule_search_locations:
                _prepare(Path(spec.submodule_search_locations[0]))


def _prepare(folder: Path) -> None:
    """Defines the names if the compiled part fails. A call of one stays torchvision's error."""
    import torch

    files = [folder / f"_C{suffix}" for suffix in EXTENSION_SUFFIXES]
    try:
        for file in files:
            if file.exists():
                torch.ops.load_library(file)  # as torchvision does itself
                return
    except OSError:
        pass
    library = torch.library.Library("torchvision", "DEF")
    for name in LOOKED_UP:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


sys.meta_path.insert(0, Finder)
