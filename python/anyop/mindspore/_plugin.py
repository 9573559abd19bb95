# SPDX-License-Identifier: Apache-2.0
"""The operator plug-in: MindSpore's own primitives, also those for Ascend alone, by our kernels."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import mindspore
from mindspore.ops.auto_generate import gen_ops_prim

import anyop
from anyop import _mindspore_interface as interface

VARIABLE = "MS_OP_PLUGIN_PATH"


def use_plugin() -> None:
    """Lets MindSpore run its primitives by anyop's kernels, as MS_OP_PLUGIN_PATH=$(anyop plugin
    mindspore) does. It counts before the first operator of the process runs: later, where another
    plug-in is named, and where MindSpore hands over its arguments otherwise, it is an Error.
    """
    why = interface.difference(interface.KERNEL_INPUTS)
    if why:
        raise anyop.NotAvailable(
            f"use_plugin: {why}, but the plug-in is built for the interface of MindSpore 2.10. "
            "Try that MindSpore, or an anyop that is built for yours."
        )
    named = os.environ.get(VARIABLE, "")
    if named and Path(named).resolve() != interface.PLUGIN.resolve():
        raise anyop.InvalidArgument(
            f"use_plugin: {VARIABLE} is {named}, but MindSpore loads one plug-in for a process. "
            f"Try without {VARIABLE}."
        )
    if mindspore.hal.is_initialized("CPU") and not _is_loaded():
        raise anyop.NotAvailable(
            "use_plugin: MindSpore has run an operator, but looks for plug-ins before the first "
            "one alone. Try the call right after the import of mindspore, or "
            f"export {VARIABLE}=$(anyop plugin mindspore)."
        )
    if not named:
        warnings.warn(f"use_plugin: {interface.VIEWS}", RuntimeWarning, stacklevel=2)
    os.environ[VARIABLE] = str(interface.PLUGIN)


def _is_loaded() -> bool:
    return str(interface.PLUGIN.resolve()) in Path("/proc/self/maps").read_text()


def plugin_rows() -> list[tuple[str, bool]]:
    """The primitives that the plug-in serves, and whether this MindSpore has them."""
    return [(name, hasattr(gen_ops_prim, name)) for name in interface.primitives()]
