# SPDX-License-Identifier: Apache-2.0
"""A small call of an operator, made of its signature, that the operator's own checks accept."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyop

SIZES = (2, 4, 1, 8, 32, 64, 3, 16)
ROWS = 2  # what `...` stands for
MOST_TRIES = 1500
MOST_ELEMENTS = 1 << 14
NO_ARRAY = (
    ValueError,
    ArithmeticError,
    NameError,
    SyntaxError,
    TypeError,
)  # of sizes that none has
LONG = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "bool": "bool",
        "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64",
        "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """An argument: ones, zeros, or for offsets 0 and the number of rows."""

    dtype: str
    shape: tuple[int, ...]
    values: str  # "ones", "zeros", "offsets"
    last: int = 0

    def array(self) -> Any:
        import numpy as np

        dtype = numpy_dtype(self.dtype)
        if self.values == "offsets":
            return np.array([0, self.last], dtype)
        return (np.ones if self.values == "ones" else np.zeros)(self.shape, dtype)


@dataclass(frozen=True)
class DType:
    name: str


@dataclass(frozen=True)
class Example:
    """An accepted call: its arguments by name, in order; `is_named` are those given by name."""

    operator: str
    arguments: dict[str, Any]
    is_named: frozenset[str]
    results: tuple[str, ...]
    written: tuple[str, ...]
    has_f8: bool  # among arguments or results: MindSpore has no such tensors on the CPU


def example(spec: dict[str, Any]) -> Example | None:
    """None if no call of small sizes is accepted, or if the kernel is a function of Python: that is
    the user's code, which nobody asked to run.
    """
    if any(k["name"] == "cpu_python" for k in spec["kernels"]):
        return None
    for sizes, arguments in itertools.islice(_candidates(spec), MOST_TRIES):
        found = _tried(spec, arguments)
        if isinstance(found, Exception):
            continue
        for p in spec["params"]:  # a weight or bias that is usually there
            if p["required"]:
                continue
            if p["kind"] != "tensor" or not p["optional"]:
                break
            try:
                more = {**arguments, p["name"]: _argument(p, spec["signature"], sizes, {}, {})}
            except NO_ARRAY:
                break
            now = _tried(spec, more)
            if isinstance(now, Exception):
                break
            arguments, found = more, now
        order = [p["name"] for p in spec["params"] if p["name"] in arguments]
        return _made(spec, {name: arguments[name] for name in order}, found)
    return None


def _tried(spec: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """The results, or the error."""
    try:
        return _operator(spec["name"])(**{n: _numpy(a) for n, a in arguments.items()})
    except (anyop.Error, ImportError) as error:
        return error


def _made(spec: dict[str, Any], arguments: dict[str, Any], found: Any) -> Example:
    """Arguments are named from the first one on that follows one that is left out."""
    order = [p["name"] for p in spec["params"]]
    named = {n for i, n in enumerate(order) if n in arguments and set(order[:i]) - set(arguments)}
    count = len(found) if isinstance(found, tuple) else int(found is not None)
    names = tuple(r["name"] for r in spec["results"][:count])
    written = tuple(p["name"] for p in spec["params"] if p["mut"] and p["name"] in arguments)
    every = [*(_numpy(a) for a in arguments.values()), *(found if count > 1 else [found])]
    has_f8 = any(str(getattr(a, "dtype", a)).startswith("float8") for a in every)
    return Example(spec["name"], arguments, frozenset(named), names, written, has_f8)


def numpy_dtype(name: str) -> Any:
    """Raises ImportError for one that NumPy has from ml_dtypes only."""
    import numpy as np

    if name == "bf16" or name.startswith("f8"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, LONG[name]))
    return np.dtype(LONG[name])


def _numpy(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_numpy(a) for a in argument]
    if isinstance(argument, DType):
        return numpy_dtype(argument.name)
    return argument.array() if isinstance(argument, Tensor) else argument


def _operator(name: str) -> Any:
    library, _, word = name.rpartition(".")
    return getattr(anyop if library == "anyop" else anyop.ops[library], word)


# What a signature allows.


def _dtypes(signature: str) -> dict[str, str]:
    """One that each variable of `where` may be: f32, which every host has, or the first."""
    where = signature.partition("\n")[0].partition(" where ")[2]
    found = re.findall(r"\b(\w+) in (\w+(?: \| \w+)*)", where)
    return {n: "f32" if "f32" in c.split(" | ") else c.split(" | ")[0] for n, c in found}


def _symbols(types: Sequence[str]) -> list[str]:
    names = dict.fromkeys(n for t in types for n in re.findall(r"\b[a-z]\w*\b", _dims(t)))
    return [n for n in names if n not in LONG and n not in ("rows", "size", "ceil_div", "max")]


def _dims(text: str) -> str:
    return text.partition("[")[2].rpartition("]")[0]


def _candidates(spec: dict[str, Any]) -> Iterator[tuple[dict[str, int], dict[str, Any]]]:
    """Sizes and the arguments that have them: all sizes are equal first, then some differ."""
    first = str(spec["signature"]).partition("\n")[0]
    needed = [p for p in spec["params"] if p["required"]]
    tensors = [p for p in needed if p["kind"] in ("tensor", "tensors")]
    offsets = dict(re.findall(r"(\w+): [^,()]*\[[^\]]*\] offsets (\w+)", first))
    ends = {s for p in tensors if p["name"] in offsets for s in _symbols([p["type"]])}
    symbols = [s for s in _symbols([p["type"] for p in tensors]) if s not in ends]
    numbers = [p["name"] for p in needed if p["kind"] == "int"]
    free = list(dict.fromkeys([*symbols, *numbers]))
    for sizes in _assignments(len(free)):
        of = {**dict.fromkeys(ends, 1), **dict(zip(free, sizes, strict=True))}
        for words in _words(spec):
            given = [p for p in spec["params"] if p["required"] or p["name"] in words]
            try:
                yield of, {p["name"]: _argument(p, first, of, offsets, words) for p in given}
            except NO_ARRAY:
                break


def _assignments(n: int) -> Iterator[tuple[int, ...]]:
    """All sizes equal, then those that differ from that in one, in two places, and so on."""
    for size in SIZES:
        yield (size,) * n
    for changed in range(1, min(n, 4) + 1):
        for base in SIZES[:2]:
            for at in itertools.combinations(range(n), changed):
                for values in itertools.product(SIZES, repeat=changed):
                    sizes = [base] * n
                    for i, value in zip(at, values, strict=True):
                        sizes[i] = value
                    yield tuple(sizes)


def _words(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What words and bools are: the first word of each that must be given, and both truths of
    bools; then also another word for one that may be left out.
    """
    needed = [p for p in spec["params"] if p["required"]]
    words = {p["name"]: p["words"][0] for p in needed if p["kind"] == "word"}
    bools = [p["name"] for p in needed if p["kind"] == "bool"]
    for truths in itertools.islice(itertools.product((False, True), repeat=len(bools)), 4):
        yield {**words, **dict(zip(bools, truths, strict=True))}
    for p in spec["params"]:
        if p["kind"] == "word" and not p["required"]:
            yield from ({**words, **dict.fromkeys(bools, True), p["name"]: w} for w in p["words"])


def _argument(
    p: dict[str, Any], signature: str, sizes: dict[str, int], offsets: dict[str, str],
    words: dict[str, Any],
) -> Any:  # fmt: skip
    kind, name = p["kind"], p["name"]
    if kind in ("word", "bool"):
        return words[name]
    if kind == "int":
        return sizes[name]
    if kind == "float":
        return 1.0
    if kind == "dtype":
        return DType(_dtypes(signature).get(name, "f32"))
    if kind in ("ints", "floats"):
        count = re.search(rf"\b{name}: (?:int|float)\[(\d+)\]", signature)
        return [1 if kind == "ints" else 1.0] * int(count[1] if count else 1)
    tensor = _tensor(p, signature, sizes, offsets)
    return [tensor] if kind == "tensors" else tensor


def _tensor(
    p: dict[str, Any], signature: str, sizes: dict[str, int], offsets: dict[str, str]
) -> Tensor:
    word = re.sub(r"^(mut|dense) ", "", str(p["type"])).partition("[")[0].partition("|")[0].strip()
    dtype = _dtypes(signature).get(word, word)
    if dtype not in LONG:
        raise ValueError(dtype)
    shape: list[int] = []
    for dim in filter(None, (d.strip() for d in _split(_dims(p["type"])))):
        shape.append(ROWS if dim == "..." else _size(dim, sizes))
    if p["name"] in offsets:
        return Tensor(dtype, (2,), "offsets", _size(offsets[p["name"]], sizes))
    if math.prod(shape) > MOST_ELEMENTS:
        raise ValueError(shape)
    is_float = dtype[0] == "f" or dtype == "bf16"
    return Tensor(dtype, tuple(shape), "ones" if is_float else "zeros")


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket."""
    return re.split(r",(?![^(]*\))", text)


def _size(text: str, sizes: dict[str, int]) -> int:
    names: dict[str, Any] = {**sizes, "ceil_div": lambda a, b: -(-a // b), "max": max, "min": min}
    size = eval(text.replace("/", "//"), {"__builtins__": {}}, names)
    if not isinstance(size, int) or not 0 < size <= 4096:
        raise ValueError(text)
    return size
