# SPDX-License-Identifier: Apache-2.0
"""PyTorch as a host: every operator of every loaded library is a torch operator.

    y = anyop.rms_norm(x, weight)                       # torch tensors in, torch tensors out
    y = torch.ops.anyop.rms_norm(x, weight)             # the same, through torch's dispatcher
    torch.ops.anyop.rms_norm.out(x, weight, out=y)      # writes y
    torch.ops.anyop.rms_norm_(x, weight)                # writes x, where the signature allows it

Gradients come from the operators' `.gradient`; torch.compile, torch.export and torch.func know the
operators from their signatures. Under torch.autocast an operator runs in the dtypes that it is
given; only float tensors that must share a dtype and do not are cast, to autocast's dtype.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anyop._results import restored
from anyop.hosting import not_installed, when_imported

try:
    import torch
except ModuleNotFoundError as error:
    raise not_installed(error, "torch", "torch") from None
from anyop.torch._dispatch import functionalize as _functionalize
from anyop.torch._dispatch import inductor as _inductor
from anyop.torch._dispatch import inductor_writes as _inductor_writes
from anyop.torch._dispatch.register import register_new
from anyop.torch._route import fast as _fast
from anyop.torch._route.route import status
from anyop.torch.custom_op import direct_register_custom_op

if TYPE_CHECKING:
    from anyop.torch import nn

__all__ = [
    "backend",
    "capture",
    "compare",
    "converter",
    "direct_register_custom_op",
    "nn",
    "register_new",
    "report",
    "status",
]


def backend(module: Any, examples: Any, **kwargs: Any) -> Any:
    """The backend of `torch.compile(model, backend="anyop")`.

    options={"freeze": True} packs the weights of graphs without gradients ahead of time; they are
    packed again where one was written since, as torch counts writes: none through `weight.data`,
    NumPy or DLPack.
    """
    from anyop.torch._compile.backend import backend

    return backend(module, examples, **kwargs)


def converter(op: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers how a torch operator, one overload of it, is made part of a graph.

        @anyop.torch.converter(torch.ops.my.twice.default)
        def twice(x):
            return anyop.add(x, x)

    The function gets what the torch operator is called with, with values of the graph for tensors,
    and calls operators of anyop on them. What it does not take it refuses with NotImplemented, or
    by an error of an operator that it calls: then the torch operator runs as a host node, as
    operators without a converter do. The last converter of an operator counts.

    Errors: WrongType for what is no OpOverload.
    """
    from anyop.torch._nodes.converters import converter

    return converter(op)


def capture(program: Any, *args: Any, **kwargs: Any) -> Any:
    """A torch function, module or exported program as one graph that is called directly.

        step = anyop.torch.capture(model, x, dynamic={"x": {0: "n"}})
        y = step(x)                                     # no Dynamo, no guards, one call into C++

    *args    an example of each argument; keyword arguments of the program as keywords. Tensors
             become inputs of the graph, everything else is part of it
    dynamic  which dimensions vary: None for none, True for all, or by argument (a dict by name, or
             a tuple) {dimension: name}; dimensions of one name are equal
    freeze   weights are packed ahead of time; they are packed again where one was written since, as
             torch counts writes: none through `weight.data`, NumPy or DLPack
    name     of the graph, in messages

    Tensors that the program uses beside its arguments are bound by reference: a call reads them as
    they are then, and writes them where the program does. The graph has no gradient.

    Errors: InvalidArgument where the program asks for what only a call knows, with its line;
    at a call, where an argument does not fit.
    """
    from anyop.torch._compile.captured import capture

    return capture(program, *args, **kwargs)


def compare(program: Any, *args: Any, rounds: int = 20, **kwargs: Any) -> Any:
    """How long a torch function or module takes through torch, through Inductor and through anyop.

        print(anyop.torch.compare(model, x))

    Each way is compiled by torch.compile, without gradients, and called in turns with copies of the
    arguments; parameters and buffers are the program's own. Returns a row per way with its median
    in ms and the ratio to torch's, or why it does not run; str() is a table.
    """
    from anyop.torch._compile.compare import compare

    return compare(program, args, kwargs, rounds)


def report(compiled: Any = None) -> Any:
    """Which operators of a program became anyop's, which run through torch, why, and their cost.

    compiled: what `capture` returned; without it, all that torch.compile made with the backend
    anyop. A list of dicts whose str() is a table.
    """
    from anyop.torch._compile.backend import report

    return report(compiled)


def __getattr__(name: str) -> Any:
    """The module nn, which is imported where it is first asked for."""
    if name == "nn":
        return importlib.import_module("anyop.torch.nn")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _register_backend() -> None:
    """Makes the name known the way the package's entry point does, which torch finds on its own.

    torch loads an entry point where its backend is first asked for, and then registers the name
    itself, which must not be registered at that time.
    """
    from importlib.metadata import EntryPoint

    from torch._dynamo.backends.registry import _BACKENDS

    group = "torch_dynamo_backends"
    _BACKENDS.setdefault("anyop", EntryPoint("anyop", "anyop.torch:backend", group))


_fast.start()
_functionalize.start()
_inductor.start()
_inductor_writes.start()
register_new()
when_imported("torch_npu", register_new)  # brings the virtual NPU, where there is one
# torch.load reads what torch.save wrote of results: it makes a tuple of tensors, and nothing else.
torch.serialization.add_safe_globals([restored])
when_imported("torch._dynamo.backends.registry", _register_backend)
