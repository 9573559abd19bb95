# SPDX-License-Identifier: Apache-2.0
"""For the page of the Python API: what is compiled has its types in _anyop.pyi, and its docstrings
in the module."""

from __future__ import annotations

import operator
from typing import Any

from anyop import _anyop
from griffe import Docstring, Extension, Object


class CompiledDocstrings(Extension):
    def on_instance(self, *, obj: Object, **_: Any) -> None:
        module, _, path = obj.canonical_path.partition("._anyop.")
        if module != "anyop" or not path or obj.docstring:
            return
        try:
            text = operator.attrgetter(path)(_anyop).__doc__
        except AttributeError:
            return
        if text:
            obj.docstring = Docstring(text, parent=obj)
