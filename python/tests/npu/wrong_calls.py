# SPDX-License-Identifier: Apache-2.0
"""Calls of operators of aclnn with one wrong tensor: one without elements, with a dimension more or
fewer, with an odd last dimension, of another type.

`python wrong_calls.py torch` takes the cases of aclnn_cases.py and compares with the CPU; `npu`
takes the calls that tests of torch_npu's own operators make. Words behind it choose what is wrong,
"no elements" for example. Prints a line of JSON for each call
that ends otherwise than it should, and the call that is under way, so that a crash has a name.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aclnn_cases
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import list_aclnn  # noqa: E402

OPERATORS = list_aclnn.read(sorted((ROOT / "devices/npu/aclnn/operators").glob("*.txt")))[0]
PARAMETERS = {made.name: [name for _, name in made.parameters] for made in OPERATORS}

# What no user can make anything of.
UNKNOWN = re.compile(
    r"bad_alloc|std::|INTERNAL ASSERT|division by zero|ZeroDivision|_M_range|_M_default"
    r"|0x[0-9a-f]{6}|NotImplementedError|RuntimeError|AssertionError|prim::|^\s*$|\n\n"
)


def there(x: Any, device: str = "npu") -> Any:
    return x.to(device) if isinstance(x, torch.Tensor) else x


def odd(x: torch.Tensor) -> torch.Tensor:
    """The last dimension is one longer, or of size 1 where there is none."""
    return torch.cat([x, x[..., :1]], -1) if x.dim() and x.size(-1) else x.reshape(*x.shape, 1)[:0]


def other_type(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int32 if x.dtype.is_floating_point else torch.float32)


WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "no elements": lambda x: x[:0] if x.dim() else x.new_zeros(0),
    "no last dimension": lambda x: x[..., :0] if x.dim() else x.new_zeros(0, 1),
    "a dimension more": lambda x: x.unsqueeze(0).contiguous(),
    "a dimension fewer": lambda x: x[0] if x.dim() and x.size(0) else x.new_zeros(0),
    "an odd last dimension": odd,
    "another type": other_type,
}


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def told(error: Exception) -> str:
    """The virtual NPU's own words, where there are some; torch_npu's own are not judged here."""
    return str(error).partition("virtual NPU: ")[2]


def judge(error: Exception, where: dict[str, Any]) -> None:
    """The text names the operator, and an argument or all that are tensors."""
    text = told(error)
    if not text:
        return
    operator = text.partition(":")[0]
    names = PARAMETERS.get(operator, [])
    is_named = any(re.search(rf"\b{name}\b", text.partition(":")[2]) for name in names)
    if UNKNOWN.search(text) or not (is_named or "not supported" in text):
        say(**where, unknown=text)


# ---- Operators of torch.


def of_torch() -> None:
    known = set(aclnn_cases.tensors("cpu", torch.float32)) - {"d"}
    for case in aclnn_cases.cases():
        names = sorted(set(re.findall(r"\b\w+\b", case)) & known)
        for name in names:
            for wrong, change in WRONG.items():
                compare(case, name, wrong, change)


def compare(case: str, name: str, wrong: str, change: Any) -> None:
    found: list[Any] = []
    where = {"case": case, "tensor": name, "wrong": wrong}
    for device in ("cpu", "npu"):
        names = aclnn_cases.tensors("cpu", torch.float32)
        names[name] = change(names[name])
        names = {key: there(value, device) for key, value in names.items()} | {"d": device}
        if device == "npu":
            say(call=where)
        try:
            result = eval(case, {"torch": torch, "F": F}, names)
            leaves = pytree.tree_leaves([result, names[name]])
            host = [leaf.cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]
            torch.npu.synchronize()
            found.append(host)
        except Exception as error:
            found.append(error)
    here, got = found
    if isinstance(got, Exception):
        judge(got, where)
        if not isinstance(here, Exception):
            say(**where, refused=told(got))
    elif isinstance(here, Exception):
        say(**where, taken=str(here))
    elif not all(map(is_close, got, here)):
        say(**where, differs=f"{got} {here}")


def is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    wide = torch.complex64 if a.is_complex() else torch.float64
    return torch.allclose(a.to(wide), b.to(wide), 1e-4, 1e-4, equal_nan=True)


# ---- Operators of torch_npu.


class Recorder(TorchDispatchMode):
    """Keeps one call of each operator for each set of types and ranks."""

    calls: dict[str, tuple[Any, Any, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.calls = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        if not name.startswith("npu.") or sum(key.startswith(name) for key in self.calls) >= 4:
            return func(*args, **(kwargs or {}))
        key = name + repr(pytree.tree_map(shape_of, (args, kwargs)))
        here = pytree.tree_map(copied, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        torch.npu.synchronize()
        self.calls.setdefault(key, (func, *here))
        return result


def shape_of(x: Any) -> Any:
    return (x.dim(), x.dtype) if isinstance(x, torch.Tensor) else None


def copied(x: Any) -> Any:
    return x.cpu().clone() if isinstance(x, torch.Tensor) else x


def recorded() -> list[tuple[Any, Any, Any]]:
    import pytest

    recorder = Recorder()

    class Plugin:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_call(self, item: Any) -> Iterator[None]:
            with recorder:
                yield

    files = [str(file) for file in sorted(Path(__file__).parent.glob("test_aclnn_*.py"))]
    pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[Plugin()])
    return list(recorder.calls.values())


def of_npu() -> None:
    calls = recorded()
    say(calls=len(calls), operators=sorted({str(func) for func, _, _ in calls}))
    for func, args, kwargs in calls:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        for i, leaf in enumerate(leaves):
            for wrong, change in WRONG.items() if isinstance(leaf, torch.Tensor) else ():
                made = [there(change(x.clone()) if k == i else x) for k, x in enumerate(leaves)]
                where = {"operator": str(func), "leaf": i, "wrong": wrong}
                say(call=where, type=str(leaf.dtype), sizes=list(leaf.shape))
                new_args, new_kwargs = pytree.tree_unflatten(made, spec)
                try:
                    func(*new_args, **new_kwargs)
                    torch.npu.synchronize()
                    if wrong == "another type" and leaf.dtype.is_floating_point:
                        say(**where, taken="another type")
                except Exception as error:
                    judge(error, where)


def main() -> None:
    warnings.simplefilter("ignore")
    for wrong in sorted(set(WRONG) - set(sys.argv[2:] or WRONG)):
        del WRONG[wrong]
    {"torch": of_torch, "npu": of_npu}[sys.argv[1]]()
    say(end=True)


if __name__ == "__main__":
    main()
