# SPDX-License-Identifier: Apache-2.0
"""Calls a function once a module is imported, whoever imports it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _WhenImported:
    """A finder that finds nothing itself: it calls back after a module was imported."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._searching = False

    def add(self, name: str, action: Callable[[], None]) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        self._waiting.setdefault(name, []).append(action)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as the other finders find it, with a loader that calls back."""
        if name not in self._waiting or self._searching:
            return None
        # The search asks every finder, this one too, which must find nothing then.
        self._searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _CallAfter(spec.loader, self)
        return spec

    def was_imported(self, name: str) -> None:
        for action in self._waiting.pop(name, []):
            action()
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)


class _CallAfter(Loader):
    """The loader of a module, which tells when it has run."""

    def __init__(self, loader: Any, watcher: _WhenImported) -> None:
        self._loader, self._watcher = loader, watcher

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._watcher.was_imported(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_when_imported = _WhenImported()


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Calls `action` once module `name` is imported; at once if it is already."""
    if name in sys.modules and not _is_initializing(sys.modules[name]):
        action()
    else:
        _when_imported.add(name, action)


# Python lists a module in sys.modules before it runs the module's code.
def _is_initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
