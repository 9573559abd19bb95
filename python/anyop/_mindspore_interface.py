# SPDX-License-Identifier: Apache-2.0
"""What anyop's libraries expect of the installed MindSpore, told without importing it."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

PLUGIN = Path(__file__).absolute().with_name("anyop_mindspore_plugin.so")
# The virtual functions of MindSpore's interfaces, then their fields, in the order of the mirrors in
# bindings/mindspore, by the header of MindSpore's wheel that declares them.
ATTRIBUTES = {
    "ccsrc/utils/custom_aot_extra.h": (
        "HasAttr", "GetAttrBool", "GetAttrInt", "GetAttrFloat", "GetAttrStr",
        "workspace_", "kernel_data_",
    )
}  # fmt: skip
KERNEL_INPUTS = {
    "ops/kernel/cpu/op_plugin/custom_kernel_input_info.h": (
        "IsScalarInput", "GetInputSize", "GetBoolInput", "GetIntInput", "GetFloatInput",
        "GetStrInput", "GetIntVecInput", "GetFloatVecInput", "GetInt2DVecInput",
        "GetFloat2DVecInput", "GetInputTypeId", "GetInputTensorLayout",
    )
}  # fmt: skip
# A defect of MindSpore 2.10 beside any plug-in, even one without operators.
VIEWS = (
    "While a plug-in is named, MindSpore's own operators read views in PyNative as if they had no "
    "gaps (x[:, 0] * 2 is wrong); those that the plug-in serves, graphs and anyop's operators are "
    "right. Try x[:, 0].contiguous() there."
)
_VIRTUAL = re.compile(r"virtual [^;{}]*?(\w+)\([^()]*\) = 0;")
_FIELD = re.compile(r"^ +(?!delete|return)[\w:<>]+ [*&]?(\w+_)(?:{\w*})?;", re.MULTILINE)


def difference(mirrored: Mapping[str, tuple[str, ...]], include: Path | None = None) -> str:
    """The first function or field that the installed MindSpore declares otherwise than a mirror; ""
    if there is none, or if it has no headers. By place, since calls find functions by their place.
    """
    folder = include or _include()
    for header, wanted in mirrored.items():
        if folder is None or not (folder / header).exists():
            continue
        text = (folder / header).read_text(errors="replace")
        fields = [name for name in wanted if name.endswith("_")]
        functions = [name for name in wanted if name not in fields]
        for kind, pattern, names in (("function", _VIRTUAL, functions), ("field", _FIELD, fields)):
            found = pattern.findall(text)
            for i, name in enumerate(names):
                if i >= len(found) or found[i] != name:
                    got = found[i] if i < len(found) else "nothing"
                    return f"{kind} {i} of MindSpore's {Path(header).name} is {got}, not {name}"
    return ""


def _include() -> Path | None:
    found = importlib.util.find_spec("mindspore")
    return Path(found.origin).parent / "include" / "mindspore" if found and found.origin else None


def primitives() -> list[str]:
    """MindSpore's primitives that the operator plug-in serves."""
    library = ctypes.CDLL(str(PLUGIN))
    library.GetAllRegisteredOps.restype = ctypes.POINTER(ctypes.c_char_p)
    names = library.GetAllRegisteredOps()
    return [names[i].decode() for i in range(library.GetRegisteredOpCount())]
