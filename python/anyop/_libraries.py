# SPDX-License-Identifier: Apache-2.0
"""Loaded operators as attributes: `anyop.ops.<library>.<operator>`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from anyop import _anyop, _results

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _of(library: str) -> dict[str, Callable[..., Any]]:
    prefix = library + "."
    now = list(_anyop.functions().items())  # other threads may define operators meanwhile
    return {n[len(prefix) :]: f for n, f in now if n.startswith(prefix)}


def builtin_names() -> list[str]:
    """The operators of the built-in library."""
    return sorted(_of("anyop"))


class Library(ModuleType):
    """The operators of one library, as attributes.

    A module, so that compilers of Python that look into modules find the operators here too.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"anyop.ops.{name}")
        self._name = name

    def items(self) -> Iterator[tuple[str, Callable[..., Any]]]:
        """(name, function) of each operator."""
        yield from sorted(_of(self._name).items())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _anyop.functions().get(f"{self._name}.{name}")
        function = function or _results.find(f"{self._name}.{name}")
        if function is None:
            hint = _anyop.did_you_mean(name, [n for n, _ in self.items()])
            raise AttributeError(f"the library {self._name} has no operator '{name}'.{hint}")
        setattr(self, name, function)  # so that Python finds it by itself the next time
        return function

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_of(self._name)})

    def __repr__(self) -> str:
        return f"<operators of {self._name}: {', '.join(n for n, _ in self.items())}>"


class Libraries(ModuleType):
    """The loaded libraries, as attributes or by name."""

    def __init__(self) -> None:
        super().__init__("anyop.ops")

    def __getitem__(self, name: str) -> Library:
        try:
            library: Library = getattr(self, name)
        except AttributeError as error:
            raise KeyError(error.args[0]) from None
        return library

    def __getattr__(self, name: str) -> Library:
        names = list(self)
        if name not in names:
            hint = _anyop.did_you_mean(name, names)
            raise AttributeError(
                f"no library '{name}' is loaded.{hint} Try anyop.load_installed()."
            )
        library = sys.modules[f"{self.__name__}.{name}"] = Library(name)
        setattr(self, name, library)  # so that Python finds it by itself the next time
        return library

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({name for name, _, _ in _anyop.libraries()}))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})

    def __repr__(self) -> str:
        return f"<operator libraries: {', '.join(self)}>"
