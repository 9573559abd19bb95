# SPDX-License-Identifier: Apache-2.0
"""Sizes that only a call knows: `x.shape[0]`, whole numbers that are inputs, and what is computed
from them with + - * and exact division."""

from __future__ import annotations

from collections import Counter
from typing import Any

from anyop._graph.traced import Traced


def divide(tracer: Any, dividend: Any, divisor: Any) -> Any | None:
    """The exact quotient of two sizes (ints or texts); None if it is not found.

    A divisor of one term, such as 2*n, divides every term of the dividend. A sum divides only
    itself: for others a division of polynomials would be needed.
    """
    below = tracer.terms(divisor)
    if str(dividend) == str(divisor) or len(below) != 1:
        return 1 if below and str(dividend) == str(divisor) else None
    factor, symbols = below[0][0], Counter(below[0][1])
    terms = []
    for number, names in tracer.terms(dividend):
        left = Counter(names)
        if number % factor or symbols - left:
            return None
        terms.append("*".join([f"({number // factor})", *(left - symbols).elements()]))
    return tracer.size(" + ".join(terms) or "0")


class Size(Traced):
    """A polynomial over the graph's symbols; str() gives it: "2*n + 1"."""

    __slots__ = ("_shown",)

    _shown: str

    def __init__(self, tracer: Any, shown: str) -> None:
        super().__init__(tracer)
        self._shown = shown

    @staticmethod
    def of(tracer: Any, size: int | str) -> Any:
        """An int where the size is known, else a Size."""
        return size if isinstance(size, int) else Size(tracer, size)

    def _text(self) -> str:
        return self._shown

    def __str__(self) -> str:
        return self._shown

    __repr__ = __str__

    def __hash__(self) -> int:
        return hash(self._shown)

    def _computed(self, text: str) -> Any:
        return Size.of(self._tracer, self._tracer.size(text))

    def _with(self, symbol: str, left: Any, right: Any) -> Any:
        if isinstance(left, float) or isinstance(right, float):
            self._refuse(f"asks for {left} {symbol} {right}")
        if not all(isinstance(x, (int, Size)) for x in (left, right)):
            return NotImplemented
        return self._computed(f"({left}) {symbol} ({right})")

    def __add__(self, other: Any) -> Any:
        return self._with("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with("*", other, self)

    def __neg__(self) -> Any:
        return self._computed(f"-({self})")

    def _divided(self, dividend: Any, divisor: Any, how: str) -> Any:
        if not all(isinstance(x, (int, Size)) for x in (dividend, divisor)):
            return NotImplemented
        quotient = divide(self._tracer, dividend, divisor)
        if quotient is None:
            self._refuse(f"asks for {dividend} {how} {divisor}")
        return Size.of(self._tracer, quotient)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(self, other, "//")

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided(other, self, "//")

    def __mod__(self, other: Any) -> Any:
        if divide(self._tracer, self, other) is None:
            self._refuse(f"asks for {self} % {other}")
        return 0

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int) or exponent < 0:
            self._refuse(f"asks for {self} ** {exponent}")
        power: Any = 1
        for _ in range(exponent):
            power = power * self
        return power

    def __rpow__(self, base: Any) -> Any:
        self._refuse(f"asks for {base} ** {self}")

    def __truediv__(self, other: Any) -> Any:
        self._refuse(f"asks for {self} / {other}")

    def __rtruediv__(self, other: Any) -> Any:
        self._refuse(f"asks for {other} / {self}")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __abs__(self) -> Any:
        self._refuse(f"asks for abs({self})")

    def __round__(self, digits: Any = None) -> Any:
        return self

    def _compared(self, other: Any, symbol: str) -> Any:
        """Compares by the difference, which must be a number: else sizes decide, which are not
        known while the graph is made.
        """
        if not isinstance(other, (int, Size)):
            return NotImplemented
        difference: Any = self._with("-", self, other)
        if not isinstance(difference, int):
            self._refuse(f"asks whether {self} {symbol} {other}")
        known = {
            "==": difference == 0, "!=": difference != 0, "<": difference < 0,
            "<=": difference <= 0, ">": difference > 0, ">=": difference >= 0,
        }  # fmt: skip
        return known[symbol]

    def __eq__(self, other: object) -> Any:
        return self._compared(other, "==")

    def __ne__(self, other: object) -> Any:
        return self._compared(other, "!=")

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, "<")

    def __le__(self, other: Any) -> Any:
        return self._compared(other, "<=")

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, ">")

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, ">=")
