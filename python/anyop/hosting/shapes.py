# SPDX-License-Identifier: Apache-2.0
"""Calls described without data, as the core and `anyop.symbolic` take them, and what they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyop import _anyop
from anyop.hosting.facts import Operator
from anyop.hosting.sentences import refusal

if TYPE_CHECKING:
    from anyop import symbolic

Describe = Callable[[str, Any], Any]  # (name in messages, tensor) -> the tensor as it is wanted


class DTypes:
    """A framework's dtypes and anyop's names of them: {float32: "f32", ...}.

    show: how messages call one of its dtypes. framework: how they call it.
    """

    def __init__(
        self,
        names: Mapping[Any, str],
        show: Callable[[Any], str] = str,
        framework: str = "the framework",
    ) -> None:
        self.names, self.show, self.framework = names, show, framework
        self.by_name = {name: dtype for dtype, name in names.items()}

    @classmethod
    def of_module(
        cls, framework: str, module: Any, kind: Callable[[Any], Any] = lambda dtype: dtype
    ) -> DTypes:
        """Those of anyop's dtypes that a module has, by the names that NumPy and all frameworks
        have for them.
        """
        found = {name: getattr(module, long, None) for name, long, _ in _anyop.dtypes()}
        return cls(
            {kind(dtype): name for name, dtype in found.items() if dtype is not None},
            lambda dtype: str(dtype).removeprefix("torch."),
            framework,
        )

    def dtype(self, name: str) -> Any:
        """The framework's own. Raises NotAvailable for one that it lacks."""
        if name not in self.by_name:
            raise _anyop.NotAvailable(f"{self.framework} has no dtype for {name}.")
        return self.by_name[name]

    def name_of(self, op: Operator, name: str, dtype: Any, shape: Sequence[Any]) -> str:
        """The dtype of a tensor. Raises InvalidArgument, naming it, for one that anyop lacks."""
        known = self.names.get(dtype)
        if known is None:
            shown = f"{self.show(dtype)}{list(shape)}"
            raise _anyop.InvalidArgument(
                refusal("no_dtype", op=op.display_name, name=name, type=shown)
            )
        return known

    def argument(self, op: Operator, name: str, value: Any) -> str:
        """A dtype that is given as an argument."""
        known = self.names.get(value)
        if known is None:
            raise _anyop.InvalidArgument(
                f"{op.display_name}: {name} is {value}, but must be one of the dtypes "
                f"{', '.join(self.names.values())}."
            )
        return known


def describe(op: Operator, values: Sequence[Any], tensor: Describe, dtypes: DTypes) -> list[Any]:
    """The arguments of a call with their tensors described, and dtypes by name."""
    arguments: list[Any] = []
    for p, value in zip(op.params, values, strict=True):
        if value is None:
            arguments.append(None)
        elif p.kind == "tensor":
            arguments.append(tensor(p.name, value))
        elif p.kind == "tensors":
            arguments.append([tensor(f"{p.name}[{i}]", t) for i, t in enumerate(value)])
        elif p.kind == "dtype":
            arguments.append(dtypes.argument(op, p.name, value))
        else:
            arguments.append(value)
    return arguments


def without_data(
    op: Operator,
    arguments: Sequence[Any],
    declined: Sequence[bool],
    outs: Mapping[int, Any],
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A described call as `plan_memory` and `flops_memory` take it. outs: those results, described,
    whose memory the caller gives.
    """
    given = [False if is_declined else outs.get(r, True) for r, is_declined in enumerate(declined)]
    return tuple(arguments), tuple(given)


def sizes_of(result: symbolic.TensorType) -> tuple[Any, ...] | None:
    """The sizes of an inferred result; None where they depend on an absent argument, so that the
    result is declined.
    """
    from anyop.symbolic import UNKNOWN

    if result.shape is None or UNKNOWN in result.shape:
        return None
    return result.shape
