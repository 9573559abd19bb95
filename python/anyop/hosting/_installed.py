# SPDX-License-Identifier: Apache-2.0
"""A framework that is not there, in words that help."""

from __future__ import annotations


def not_installed(error: ModuleNotFoundError, framework: str, try_: str) -> ModuleNotFoundError:
    """What a host raises where the import of its framework raised `error`: that itself if something
    else is missing. try_: what to install.
    """
    if error.name != framework:
        return error
    text = f"anyop.{framework}: {framework} is not installed. Try: pip install {try_}"
    return ModuleNotFoundError(text, name=framework)
