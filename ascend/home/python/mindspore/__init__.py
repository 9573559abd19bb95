# SPDX-License-Identifier: Apache-2.0
"""MindSpore, if it is installed, with a CustomOpBuilder that builds for backend="Ascend" without
CANN. If it is not, `import mindspore` gives that builder alone, so that packages can be built.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from anyop.ascend.builder import CustomOpBuilder, builder_over


def _is_stand_in(folder: str) -> bool:
    """Whether the folder is python/site-packages of a home; several may have been sourced."""
    parents = Path(folder).absolute().parents
    return len(parents) > 2 and (parents[2] / ".anyop-ascend-home").exists()


def _installed() -> Any:
    """The package behind this one on the path, in whose place it then stands."""
    spec = PathFinder.find_spec("mindspore", [p for p in sys.path if not _is_stand_in(p)])
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    sys.modules["mindspore"] = module
    spec.loader.exec_module(module)
    return module


_found = _installed()
if _found is not None:
    _found.ops.CustomOpBuilder = builder_over(_found.ops.CustomOpBuilder)
else:
    ops: Any = ModuleType("mindspore.ops")
    ops.CustomOpBuilder = CustomOpBuilder
    sys.modules["mindspore.ops"] = ops

    def __getattr__(name: str) -> object:
        raise AttributeError(
            f"mindspore.{name}: MindSpore is not installed, and the folder of `anyop ascend home` "
            "has mindspore.ops.CustomOpBuilder alone. Try `pip install mindspore`."
        )
