# SPDX-License-Identifier: Apache-2.0
"""Compares anyop.symbolic with the C++ checker on the calls of a file that signatures_test writes.

Each call is inferred with its sizes as they are, then with sizes that hide their values: what is
asserted of them must be true for a right call, and must not all be true for a wrong one.
"""

from __future__ import annotations

import importlib.util
import json
import operator
import sys
from pathlib import Path
from typing import Any

_PATH = Path(__file__).parent.parent / "anyop" / "symbolic.py"
_SPEC = importlib.util.spec_from_file_location("anyop_symbolic", _PATH)
assert _SPEC and _SPEC.loader
symbolic = importlib.util.module_from_spec(_SPEC)
sys.modules["anyop_symbolic"] = symbolic
_SPEC.loader.exec_module(symbolic)


class Hidden:
    """An integer or truth value that tells nobody what it is."""

    def __init__(self, value: Any):
        self.value = value

    def __bool__(self) -> bool:
        raise TypeError("a hidden value was looked at")


def _lift(function: Any) -> Any:
    def method(a: Any, b: Any) -> Hidden:
        return Hidden(function(reveal(a), reveal(b)))

    return method


def reveal(x: Any) -> Any:
    return x.value if isinstance(x, Hidden) else x


for _name in [
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
]:
    _function = getattr(operator, _name + "_" if _name in ("and", "or") else _name)
    setattr(Hidden, f"__{_name}__", _lift(_function))
    setattr(Hidden, f"__r{_name}__", _lift(lambda a, b, f=_function: f(b, a)))
Hidden.__neg__ = lambda self: Hidden(-self.value)  # type: ignore[attr-defined]
Hidden.__invert__ = lambda self: Hidden(not self.value)  # type: ignore[attr-defined]


class HiddenHost(symbolic.Host):  # type: ignore[misc,name-defined]
    def compute(self, op: str, a: Any, b: Any) -> Any:
        if op in ("min", "max"):
            return Hidden((min if op == "min" else max)(reveal(a), reveal(b)))
        if not isinstance(a, Hidden) and not isinstance(b, Hidden):
            return super().compute(op, a, b)
        return Hidden(reveal(super().compute(op, reveal(a), reveal(b))))


def argument(x: Any, wrap: Any) -> Any:
    if isinstance(x, dict):
        return symbolic.TensorType(x["dtype"], tuple(wrap(s) for s in x["shape"]))
    return [argument(y, wrap) for y in x] if isinstance(x, list) else x


def answer(contract: Any, case: Any, wrap: Any, host: Any) -> Any:
    """The form and results, or (-1, []) for a call that is refused or fails an assertion."""
    try:
        got = symbolic.infer(contract, [argument(x, wrap) for x in case["args"]], host)
    except (ValueError, ZeroDivisionError):
        return -1, []
    if not all(reveal(a.holds) for a in got.assertions):
        return -1, []
    results = [{"dtype": r.dtype, "shape": [reveal(s) for s in r.shape]} for r in got.results]
    if any(s < 0 for r in results for s in r["shape"]):
        return -1, []
    return got.form, results


def main() -> int:
    wrong = count = refused = 0
    for entry in json.loads(Path(sys.argv[1]).read_text()):
        for case in entry["cases"]:
            want = (case["form"], case["results"])
            count += 1
            refused += case["form"] < 0
            for wrap, host in ((int, symbolic.Host()), (Hidden, HiddenHost())):
                got = answer(entry["contract"], case, wrap, host)
                if got != want:
                    wrong += 1
                    print(entry["contract"]["name"], case["args"], "is", got, "but must be", want)
    print(f"{count} calls, {refused} of them refused, {wrong} differences")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
