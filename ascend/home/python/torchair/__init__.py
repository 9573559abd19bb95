# SPDX-License-Identifier: Apache-2.0
"""Of torchair, what packages import to register converters. Graphs are not made here."""

import sys
import types

from torchair import ge
from torchair._registry import declare_supported, register_fx_node_ge_converter

__all__ = ["declare_supported", "ge", "register_fx_node_ge_converter"]


def _module(name: str, **contents: object) -> types.ModuleType:
    module = sys.modules[f"torchair.{name}"] = types.ModuleType(f"torchair.{name}")
    vars(module).update(contents)
    return module


# The places from which packages import the same names.
_ge_graph = _module(
    "ge._ge_graph", **{n: vars(ge)[n] for n in ("Tensor", "TensorSpec", "DataType")}
)
for _name in ("_ge_concrete_graph", "ge_concrete_graph"):
    _both = {
        "register_fx_node_ge_converter": register_fx_node_ge_converter,
        "declare_supported": declare_supported,
    }
    _package = _module(_name, ge_apis=ge, __path__=[])
    vars(_package)["fx2ge_converter"] = _module(f"{_name}.fx2ge_converter", **_both)
    vars(_package)["ge_graph"] = _module(f"{_name}.ge_graph", **vars(_ge_graph))
    sys.modules[f"torchair.{_name}.ge_apis"] = ge
