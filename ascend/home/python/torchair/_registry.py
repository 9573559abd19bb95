# SPDX-License-Identifier: Apache-2.0
"""What packages register. Nothing makes graphs for the vendor's engine here, so that a converter is
kept, and looked at by `anyop ascend lint`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
converters: "dict[Any, Callable[..., Any]]" = {}


def register_fx_node_ge_converter(operator: Any) -> "Callable[[F], F]":
    """A decorator for the converter of torch.ops.SPACE.NAME.OVERLOAD."""

    def register(converter: F) -> F:
        converters[operator] = converter
        return converter

    return register


def declare_supported(supports: Any) -> "Callable[[F], F]":
    """A decorator with samples of calls, which are for the vendor's own tests."""
    return lambda converter: converter
