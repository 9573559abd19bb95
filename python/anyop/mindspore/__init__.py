# SPDX-License-Identifier: Apache-2.0
"""MindSpore as a host: every operator of every loaded library takes MindSpore's tensors.

    y = anyop.rms_norm(x, weight)            # mindspore.Tensor in, mindspore.Tensor out
    anyop.rms_norm(x, weight, out=y)         # writes y
    mindspore.grad(loss)(x)                  # by the operator's own gradient
    mindspore.jit(step)(x)                   # one node for each call; so is graph mode

It starts by itself once anyop and mindspore are both imported, in either order.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from anyop import _mindspore_interface as interface
from anyop.hosting import not_installed

try:
    import mindspore  # noqa: F401
except ModuleNotFoundError as error:
    raise not_installed(error, "mindspore", 'mindspore "numpy<2"') from None
from anyop.mindspore import _tensors
from anyop.mindspore._plugin import plugin_rows, use_plugin

__all__ = ["GraphCell", "ModuleWrapper", "plugin_rows", "status", "use_plugin"]

_why_no_graphs = ""


class ModuleWrapper:
    """`ModuleWrapper(name, module)` is the module, for scripts that wrap what graphs call."""

    def __new__(cls, name: str, module: Any) -> Any:
        return module


def __getattr__(name: str) -> Any:
    """GraphCell stands on what only graphs need of MindSpore."""
    if name == "GraphCell":
        from anyop.mindspore._cell import GraphCell

        return GraphCell
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def status() -> str:
    """What keeps a part of the host from working, and what to do; "" if all works."""
    found = []
    _prepare()
    if int(np.__version__.split(".")[0]) >= 2:
        found.append(
            f"NumPy is {np.__version__}, but MindSpore is built for NumPy 1, and its own "
            'arithmetic fails. Try: pip install "numpy<2"'
        )
    if _why_no_graphs:
        found.append(f"graphs do not know the operators: {_why_no_graphs}")
    return "; ".join(found)


def _start_graphs() -> str:
    """Why a MindSpore is not as this host knows it: then calls work outside of graphs alone."""
    try:
        from anyop.mindspore import _compile

        _compile.follow(_prepare)
    except (ImportError, AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"
    return interface.difference(interface.ATTRIBUTES)


def _prepare() -> None:
    """Makes operators known that were not yet, before a graph is compiled. Not when anyop is
    imported, which takes a third of the time without it.
    """
    global _why_no_graphs
    try:
        from anyop.mindspore import _node
    except (ImportError, AttributeError, TypeError, OSError) as error:
        _why_no_graphs = _why_no_graphs or f"{type(error).__name__}: {error}"
        return
    _node.know_wrapper(ModuleWrapper)
    _node.know_operators(_why_no_graphs)


def _follow_glog() -> None:
    """MindSpore's least level for messages is anyop's too, unless ANYOP_LOG says another."""
    levels = {"0": "debug", "1": "info", "2": "warning", "3": "none", "4": "none"}
    level = levels.get(os.environ.get("GLOG_v", ""))  # noqa: SIM112
    if level:
        os.environ.setdefault("ANYOP_LOG", level)


_follow_glog()
_tensors.start()
_why_no_graphs = _start_graphs()
