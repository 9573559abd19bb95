# SPDX-License-Identifier: Apache-2.0
"""Makes every operator of every loaded library a torch operator."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._library import simple_registry

from anyop import _anyop
from anyop.torch._dispatch import flops, refuse, shards
from anyop.torch._dispatch.operators import Operator
from anyop.torch._route import fast, route

_n_seen = 0  # how many of the registry's operators have been registered, or left out
_n_devices = 0  # how many libraries of devices were loaded then
_cpu_only: list[Operator] = []  # on the Python route, until a device's library is loaded
_npu: list[str] = []  # the library of the virtual NPU, once it is loaded
_fragments: dict[str, Any] = {}
_lock = threading.RLock()
_PT2 = torch.Tag.pt2_compliant_tag
# Without a stride order of its own, Inductor 2.13 passes defaulted arguments twice to an `op.out`.
_FUNCTIONAL = (_PT2, torch.Tag.needs_fixed_stride_order)
# torch has had tags for these two variants since 2.12.
_WRITES = {"out": getattr(torch.Tag, "out", _PT2), "_": getattr(torch.Tag, "inplace", _PT2)}
_TAGS = {"": _FUNCTIONAL, **{overload: (_PT2, tag) for overload, tag in _WRITES.items()}}


def register_new() -> None:
    """Registers the operators that have been loaded since the last call."""
    global _n_seen, _n_devices
    load_cards()
    load_npu()
    functions = _anyop.functions()  # in the order in which they were loaded
    n_devices = len(_anyop.device_libraries())
    if len(functions) == _n_seen and n_devices == _n_devices:
        return
    with _lock:
        # Another thread may have registered some while this one waited, so the count is read here.
        names = list(functions)[_n_seen:]
        new = [Operator(name) for name in names if not name.startswith("torch_host.")]
        try:
            _register(new, _n_seen + len(names))
        finally:  # after an error too: torch refuses to define a schema twice
            _n_seen += len(names)
            _n_devices = n_devices


@functools.cache
def load_cards() -> None:
    """Loads the library of NVIDIA's cards, where it was built with anyop and torch is for them."""
    library = Path(_anyop.__file__).parent / "anyop_cuda.so"
    if torch.version.cuda and library.is_file():
        _anyop.load(str(library))


def load_npu() -> None:
    """Loads the library of the virtual NPU, where torch_npu runs on it (docs/npu.md)."""
    library = getattr(sys.modules.get("_anyop_npu"), "library", None)
    if library is not None and str(library) not in _npu:
        _anyop.load(str(library))
        _npu.append(str(library))


def _register(new: list[Operator], n_all: int) -> None:
    """n_all: how many operators there are with the new ones."""
    adapter = route.adapter()
    for op in new:
        _define(op)
    # The adapter is built without Python's headers. By this operator it raises what an operator of
    # Python raised (KeyboardInterrupt, for instance) as it is: an exception of torch's is a text.
    if adapter and not hasattr(torch.ops.anyop, "_raise_again"):
        _fragment("anyop").define("_raise_again() -> ()", "", ())
        _fragment("anyop").impl("_raise_again", "CPU", _anyop.raise_again, False)
    if adapter:
        adapter.register_new(n_all)
    for op in new:
        if not adapter:
            from anyop.torch._dispatch import python_route

            python_route.register(op, _implementer(op))
            _cpu_only.append(op)
        out = op.torch_op("out") if op.has_out else None
        _anyop.torch_route(op.function, op.torch_op(""), out)
        fast.trace_as(op.function, op.torch_op(""), out, op)
        torch.jit._builtins._register_builtin(op.function, op.torch_name(""))  # torch.jit.script
        flops.count(op)
        shards.divide(op)
    if _cpu_only and _anyop.device_libraries():
        from anyop.torch._dispatch import python_route

        while _cpu_only:
            op = _cpu_only.pop()
            python_route.refuse_devices(op, _implementer(op))


def _fragment(namespace: str) -> Any:
    """torch's own registrar: torch.library.Library adds 60 us to each definition."""
    if namespace not in _fragments:
        _fragments[namespace] = torch.library.Library(namespace, "FRAGMENT")  # noqa: TOR901
    return _fragments[namespace].m


def _implementer(op: Operator) -> Callable[..., None]:
    def implement(name: str, key: str, function: Any, with_keyset: bool = False) -> None:
        _fragment(op.library).impl(name, key, function, with_keyset)

    return implement


def _define(op: Operator) -> None:
    fragment = _fragment(op.library)
    for overload, schema in op.schemas.items():
        if not schema:
            continue
        # torch's tags for variants are for operators of one result.
        tags = _TAGS[overload] if op.has_lone_result or not overload else (_PT2,)
        fragment.define(schema, "", tags)
        name = op.torch_name(overload)
        fake = _LazyFake(op, overload)
        fragment.impl(name, "Meta", fake)
        # FakeTensor looks here before it takes the kernel for tensors of the device meta.
        kernels = simple_registry.singleton.find(name).fake_impl.kernels
        kernels.append(torch._library.utils.Kernel(fake, "anyop"))
    refuse.register(op, fragment)
    if not op.written:
        fragment.impl(op.torch_name(""), "FuncTorchBatched", _LazyBatched(op), True)


class _LazyFake:
    """The fake of an overload, whose module is imported when it is first called."""

    def __init__(self, op: Operator, overload: str) -> None:
        self.op, self.overload = op, overload
        self.fake: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.fake is None:
            from anyop.torch._dispatch.fake import Fake

            self.fake = Fake(self.op, self.overload)
        return self.fake(*args, **kwargs)


class _LazyBatched:
    """The batching rule, whose module is imported when it is first called."""

    def __init__(self, op: Operator) -> None:
        self.op = op
        self.batched: Any = None

    def __call__(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        if self.batched is None:
            from anyop.torch._dispatch.vmap import Batched

            self.batched = Batched(self.op)
        return self.batched(keys, *args, **kwargs)
