# SPDX-License-Identifier: Apache-2.0
"""What vLLM's groups of plug-ins name. It is installed as the module `anyop_vllm`, beside `anyop`.

vLLM goes on without a plug-in that cannot be imported, and `import anyop` fails, as for a variable
of the environment with a wrong value. An empty build would then run on nothing and end far from the
reason; so the reason is said here, and again where vLLM asks for the platform.
"""

from __future__ import annotations

import importlib.metadata
import sys
from typing import NoReturn

why_refused = ""


def platform() -> str | None:
    """vLLM's platform: the path of a class; None where this vLLM is not anyop's to run."""
    global why_refused
    try:
        from anyop.vllm import _plugin
    except Exception as error:
        if not why_refused:
            print(f"anyop.vllm: {error}", file=sys.stderr, flush=True)
        why_refused = f"anyop.vllm: {error}"
        return f"{__name__}.refuse" if _is_empty_build() else None
    return _plugin.platform()


def general() -> None:
    """Registers providers and classes, in this process."""
    if not why_refused:
        from anyop.vllm import _plugin

        _plugin.general()


def refuse() -> NoReturn:
    """Called by vLLM in place of a platform's class."""
    raise RuntimeError(why_refused)


def _is_empty_build() -> bool:
    try:
        return "empty" in importlib.metadata.version("vllm").partition("+")[2]
    except importlib.metadata.PackageNotFoundError:
        return False
