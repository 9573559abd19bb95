# SPDX-License-Identifier: Apache-2.0
"""What torch's operators refuse, and in which words: bindings/torch/texts.h, as the adapter
has it.
"""

from __future__ import annotations

from typing import Any

from anyop import _anyop
from anyop.hosting import sentences
from anyop.hosting.facts import Operator

_TEXTS, LAYOUTS, WRONG_LAYOUT_KEYS, DEVICE_KEYS = _anyop.torch_texts()


def said(text: str, op: Operator, **words: Any) -> str:
    """A text, of torch's operators or of all hosts, filled in."""
    if text not in _TEXTS:
        return sentences.refusal(text, op=op.display_name, **words)
    return _TEXTS[text].format(op=op.display_name, **words)


def wrong_layout(op: Operator, name: str, layout: str) -> str:
    """What is said of a tensor of one of LAYOUTS."""
    return said("layout", op, name=name, layout=layout, conversion=LAYOUTS[layout])


def part(text: str, **words: str) -> str:
    """A part of a sentence."""
    return _TEXTS[text].format(**words)
