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


def _installed() -> Any:
    """The package behind this one on the path, in whose place it then stands."""
    own = Path(__file__).absolute().parents[1]
    spec = PathFinder.find_spec("mindspore", [p for p in sys.path if Path(p).absolute() != own])
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
