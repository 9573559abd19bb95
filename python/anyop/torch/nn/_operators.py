# SPDX-License-Identifier: Apache-2.0
"""The operators behind a module, by what the module calls them."""

from __future__ import annotations

from types import SimpleNamespace

import anyop
from anyop.torch.patterns.nn import OPERATORS


def operators(module: str) -> SimpleNamespace:
    """The operators of a module by the table `OPERATORS`. AttributeError: the built-in library
    lacks one."""
    known = anyop.ops["anyop"]
    return SimpleNamespace(**{own: getattr(known, name) for own, name in OPERATORS[module].items()})
