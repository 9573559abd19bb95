# SPDX-License-Identifier: Apache-2.0
"""What all values of a graph under construction refuse, with the user's line."""

from __future__ import annotations

from typing import Any, NoReturn

from anyop import _anyop

# Python's operators as a message shows them, by the names of their methods.
SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "neg": "-",
    "pos": "+", "abs": "abs()", "invert": "~", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=",
}  # fmt: skip


class Traced(_anyop.Traced):
    """A tensor, number or size that only a call of the graph knows."""

    __slots__ = ()

    def _text(self) -> str:
        raise NotImplementedError

    def _refuse(self, what: str) -> NoReturn:
        """Raises the error of a function that asks for something that is not known yet."""
        raise _anyop.InvalidArgument(
            f"anyop.graph: {_at(self)} {what}, but a graph is made before there are numbers: if, "
            "while, int() and range() cannot depend on them. Try an operator, a fixed size, or do "
            "it outside of the graph."
        )

    def _refuse_foreign(self, code: str, operator: str) -> NoReturn:
        """Raises the error of a function that calls code which is not anyop's."""
        names = [n.partition(".")[2] for n in list(_anyop.functions()) if n.startswith("anyop.")]
        hint = _anyop.did_you_mean(operator, names)
        if operator in names:
            hint = f" Try anyop.{operator}."
        hint = hint or " Try an operator, anyop.host, or do it outside of the graph."
        raise _anyop.WrongType(
            f"anyop.graph: {_at(self)} calls {code} on {self._text()}, but a graph holds operators "
            f"of anyop only.{hint}"
        )

    def __bool__(self) -> bool:
        self._refuse(f"asks whether {self._text()} is true")

    def __int__(self) -> int:
        self._refuse(f"asks for the number {self._text()}")

    def __index__(self) -> int:
        self._refuse(f"asks for the number {self._text()}")

    def __float__(self) -> float:
        self._refuse(f"asks for the number {self._text()}")

    def __complex__(self) -> complex:
        self._refuse(f"asks for the number {self._text()}")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse_foreign("NumPy", "")

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> NoReturn:
        self._refuse_foreign(f"numpy.{ufunc.__name__}", ufunc.__name__)

    def __array_function__(self, function: Any, *_: Any, **__: Any) -> NoReturn:
        self._refuse_foreign(f"numpy.{function.__name__}", function.__name__)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        flat = [*args, *(kwargs or {}).values()]
        lists = [list(a) if isinstance(a, (list, tuple)) else [a] for a in flat]
        found = next(a for many in lists for a in many if isinstance(a, Traced))
        found._refuse_foreign(f"torch.{name}", name)


def _at(traced: Traced) -> str:
    tracer: Any = traced._tracer
    return tracer.place() or "the function"
