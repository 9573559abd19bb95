# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch

from anyop import _anyop


class Unscripted(torch.nn.Module):
    """The base of modules whose forward is Python that TorchScript cannot compile."""

    def __prepare_scriptable__(self) -> torch.nn.Module:
        """Called by torch.jit.script. A subclass may have a forward of its own."""
        if type(self).forward.__module__.partition(".")[0] != "anyop":
            return self
        raise _anyop.Unsupported(
            f"{type(self).__name__}: torch.jit.script compiles the source of forward, but that of "
            "this module chooses its operator in Python. Try torch.jit.trace, torch.export.export "
            "or torch.compile."
        )
