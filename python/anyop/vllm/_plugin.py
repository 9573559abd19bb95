# SPDX-License-Identifier: Apache-2.0
"""The two functions that vLLM calls in each of its processes, through `_entry.py`.

vLLM swallows what the first of them raises, and would run on something else or on nothing. So it
says on standard error what is wrong, and names a platform that raises the same as soon as vLLM
asks for it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys

import anyop
from anyop import _anyop
from anyop.vllm import _versions

PLATFORM = "anyop.vllm._platform.AnyopCpuPlatform"
REFUSED = "anyop.vllm._refused.platform"
GROUP = "vllm.platform_plugins"

_told: set[str] = set()
why_refused = ""


def platform() -> str | None:
    """vLLM's platform: the path of a class; None where this vLLM is not anyop's to run."""
    global why_refused
    try:
        return _choose()
    except Exception as error:
        why_refused = str(error)
        tell(why_refused)
        return REFUSED


def general() -> None:
    """Registers providers and classes, in this process."""
    if not is_active():
        return
    from anyop.vllm import _classes

    _classes.register()
    _versions.replace_methods(_versions.of_version(_there().release))


def is_active() -> bool:
    """Whether this process' vLLM runs on our platform."""
    from vllm.platforms import current_platform

    if f"{type(current_platform).__module__}.{type(current_platform).__qualname__}" == PLATFORM:
        return True
    there = _versions.installed()
    if mode() != "off" and there and there.build == "empty":
        tell(
            f"anyop.vllm: vLLM runs on {type(current_platform).__name__}, but its empty build has "
            f"no kernels for it. {_why_another()}"
        )
    return False


def mode() -> str:
    """auto, off or override: ANYOP_VLLM."""
    return next(row[4] for row in _anyop.environment() if row[0] == "ANYOP_VLLM")


def tell(text: str) -> None:
    """On standard error, once per process: vLLM asks each plug-in twice."""
    if text not in _told:
        _told.add(text)
        print(text, file=sys.stderr, flush=True)


def _choose() -> str | None:
    asked = mode()
    if asked == "off":
        return None
    there = _there()
    # A build for an accelerator, or one with kernels of its own that nobody wants replaced.
    if not there.build or (there.build == "cpu" and asked != "override"):
        return None
    facts = _versions.of_version(there.release)
    _versions.check_python(facts)
    import torch

    _versions.check_torch(torch.__version__)
    _look_for_others()
    # Before vLLM asks what is there. Of a build with kernels those must come first, which are taken
    # over: AnyopCpuPlatform.import_kernels.
    if there.build == "empty":
        from anyop.vllm import _dropin

        _dropin.load(there.release)
    return PLATFORM


def _there() -> _versions.Installed:
    """vLLM's distribution, or what a source tree on the path says of itself."""
    there = _versions.installed()
    return there or _versions.Installed("vllm", _version_of_module())


def _version_of_module() -> str:
    from vllm.version import __version__

    return str(__version__)


def _look_for_others() -> None:
    """vLLM takes one platform only, and its error names no way out."""
    allowed = os.environ.get("VLLM_PLUGINS")
    names = [point.name for point in importlib.metadata.entry_points(group=GROUP)]
    others = [name for name in names if name != "anyop"]
    if allowed is not None:
        others = [name for name in others if name in allowed.split(",")]
    if others:
        tell(
            f"anyop.vllm: {', '.join(others)} would be vLLM's platform, too, but vLLM takes one. "
            f"Set VLLM_PLUGINS=anyop for this one, or ANYOP_VLLM=off for {others[0]}."
        )


def _why_another() -> str:
    if os.environ.get("VLLM_TARGET_DEVICE"):
        return "VLLM_TARGET_DEVICE chose it. Unset VLLM_TARGET_DEVICE."
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and "anyop" not in allowed.split(","):
        return f"VLLM_PLUGINS={allowed} leaves anyop out. Add anyop to it."
    return "Try anyop doctor."


__all__ = ["anyop", "general", "is_active", "mode", "platform", "tell"]
