# SPDX-License-Identifier: Apache-2.0
"""Lines of the user's program: of a node, of an error, of what runs now."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.fx import Node

import anyop

# "<" begins the names of code without a file, such as "<string>".
_FOREIGN = (str(Path(torch.__file__).parent), str(Path(anyop.__file__).parent), "<")


def is_users(file: str) -> bool:
    """Whether a file is of the user's program."""
    return not file.startswith(_FOREIGN)


def place_of(node: Node) -> str:
    """ "model.py:31", the innermost line of the user's program."""
    found = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    own = [row for row in found if is_users(row[0])]
    path, line = own[-1] if own else ("", "")
    return f"{path.rpartition('/')[2]}:{line}" if path else "torch"


def user_frames() -> list[traceback.FrameSummary]:
    stack = traceback.StackSummary.extract(
        traceback.walk_stack(sys._getframe(1)), lookup_lines=False
    )
    return [f for f in reversed(stack) if is_users(f.filename)]


def user_place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    return shown_place(frames) or "it"


def shown_place(frames: Sequence[traceback.FrameSummary]) -> str:
    """The innermost: "model.py:31"."""
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
