# SPDX-License-Identifier: Apache-2.0
"""An example's call as a program in each host."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

from anyop.cli.docs_example import FLOATS, LONG, DType, Example, Tensor

MODULES = {"NumPy": "np", "PyTorch": "torch", "JAX": "jnp", "MindSpore": "ms"}
IMPORTS = {
    "NumPy": "import numpy as np",
    "PyTorch": "import torch",
    "JAX": "import jax.numpy as jnp",
    "MindSpore": "import mindspore as ms",
}
HOSTS = (*MODULES, "C++")
OF_ML_DTYPES = {name for name in FLOATS if name not in ("f64", "f32", "f16")}
MOST = 88  # columns
CPP_WORDS = ("default", "float", "int", "long", "short", "char", "double", "new", "this")


def hosts(of: Example) -> list[str]:
    """Those that have tensors of the example's dtypes."""
    return [host for host in HOSTS if not (of.has_f8 and host == "MindSpore")]


def program(of: Example, host: str) -> str:
    return _cpp(of) if host == "C++" else _python(of, host)


def _variable(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) or name in CPP_WORDS else name


def _python(of: Example, host: str) -> str:
    lines = [IMPORTS[host]]
    if any(_is_of_ml_dtypes(a, host) for a in of.arguments.values()):
        lines.append("import ml_dtypes")
    lines += ["import anyop", ""]
    given = []
    for name, argument in of.arguments.items():
        text = _value(argument, host)
        if isinstance(argument, Tensor) or text.startswith(f"[{MODULES[host]}."):
            lines.append(f"{_variable(name)} = {text}")
            text = _variable(name)
        given.append(f"{name}={text}" if name in of.is_named else text)
    library, _, word = of.operator.rpartition(".")
    path = "anyop" if library == "anyop" else f"anyop.ops.{library}"
    returned = [*of.results, *(of.written if host == "JAX" else ())]  # JAX's arrays never change
    results = ", ".join(_variable(r) for r in returned)
    start = f"{results} = " if results else ""
    lines += broken(f"{start}{path}.{word}(", given, ")")
    return "\n".join(lines) + "\n"


def broken(start: str, arguments: Sequence[str], end: str) -> list[str]:
    """A call on one line, or on as many as a page needs to show all of it."""
    line = f"{start}{', '.join(arguments)}{end}"
    if len(line) <= MOST:
        return [line]
    lines = [start]
    for argument in arguments:
        is_first, more = len(lines) == 1, f"{lines[-1]} {argument},"
        if is_first or len(more) > MOST:
            lines.append(f"    {argument},")
        else:
            lines[-1] = more
    lines[-1] = lines[-1][:-1] + end
    return lines


def _is_of_ml_dtypes(argument: Any, host: str) -> bool:
    name = argument.name if isinstance(argument, DType) else getattr(argument, "dtype", "")
    return host == "NumPy" and name in OF_ML_DTYPES


def _dtype(name: str, host: str) -> str:
    if host == "NumPy" and name in OF_ML_DTYPES:
        return f"ml_dtypes.{LONG[name]}"
    return "bool" if name == "bool" and host == "NumPy" else f"{MODULES[host]}.{LONG[name]}"


def _value(argument: Any, host: str) -> str:
    if isinstance(argument, DType):
        return _dtype(argument.name, host)
    if isinstance(argument, list):
        return f"[{', '.join(_value(a, host) for a in argument)}]"
    if not isinstance(argument, Tensor):
        return repr(argument)
    dtype = _dtype(argument.dtype, host)
    if argument.values == "offsets":
        makers = {"PyTorch": "torch.tensor", "MindSpore": "ms.Tensor"}
        make = makers.get(host, f"{MODULES[host]}.array")
        return f"{make}([0, {argument.last}], dtype={dtype})"
    module = "ms.ops" if host == "MindSpore" else MODULES[host]
    return f"{module}.{argument.values}({argument.shape}, dtype={dtype})"


def _cpp(of: Example) -> str:
    lines, given, used = [], [], {"Array", "Call"}
    for name, argument in of.arguments.items():
        if isinstance(argument, Tensor):
            lines += _cpp_array(name, argument)
            used.add("DType")
        elif isinstance(argument, list) and isinstance(argument[0], Tensor):
            lines += [line for i, a in enumerate(argument) for line in _cpp_array(f"{name}{i}", a)]
            used.add("DType")
        text = _cpp_value(name, argument)
        if name in of.is_named:
            used.add("Named")
            text = f'Named("{name}", {text})'
        given.append(text)
    start, end = "", ").run();"
    if len(of.results) == 1:
        start, end = f"const Array {_variable(of.results[0])} = ", ");"
    elif of.results:
        lines.append(f"// {', '.join(of.results)}")
        start, end = "const std::vector<Array> results = ", ");"
    lines += broken(f"{start}Call(", [f'"{of.operator}"', *given], end)
    names = ", ".join(f"anyop::{name}" for name in sorted(used))
    body = "\n".join(f"  {line}" for line in [f"using {names};", *lines])
    return f'#include "anyop/runtime.h"\n\nint main() {{\n{body}\n}}\n'


def _cpp_dtype(name: str) -> str:
    return "DType::kBool" if name == "bool" else f"DType::k{name.upper()}"


def _cpp_array(name: str, tensor: Tensor) -> list[str]:
    dtype, shape = _cpp_dtype(tensor.dtype), ", ".join(str(n) for n in tensor.shape)
    variable = _variable(name)
    if tensor.values == "offsets":
        of = f"std::int{tensor.dtype[1:]}_t"
        return [
            f"const Array {variable} = Array::Zeros({{2}}, {dtype});",
            f"{variable}.data<{of}>()[1] = {tensor.last};",
        ]
    if tensor.values == "zeros":
        return [f"const Array {variable} = Array::Zeros({{{shape}}}, {dtype});"]
    return [f"const Array {variable} = Array::Full({{{shape}}}, {dtype}, 1);"]


def _cpp_value(name: str, argument: Any) -> str:
    if isinstance(argument, bool):
        return "true" if argument else "false"
    if isinstance(argument, str):
        return f'"{argument}"'
    if isinstance(argument, DType):
        return f"anyop::{_cpp_dtype(argument.name)}"
    if isinstance(argument, list):
        if isinstance(argument[0], Tensor):
            names = ", ".join(_variable(f"{name}{i}") for i in range(len(argument)))
            return f"std::vector<Array>{{{names}}}"
        kind = "double" if isinstance(argument[0], float) else "std::int64_t"
        return f"std::vector<{kind}>{{{', '.join(str(a) for a in argument)}}}"
    return _variable(name) if isinstance(argument, Tensor) else repr(argument)
