# SPDX-License-Identifier: Apache-2.0
"""torch's device "far": tensors of torch in the memory of the device for tests (devices/far).

start() makes it, for the rest of the process, which can have no other backend of its kind. The
device reads FAR_SEED, FAR_DELAY_US and FAR_MEMORY_BYTES from the environment when it is first used.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from anyop import _cache
from anyop.hosting import build

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "build" / "release" / "tests" / "anyop_far.so"


@functools.cache
def start() -> types.ModuleType:
    """torch.far, the module by which torch's Python reaches the device."""
    adapter = str(build.build(_product(), _cache.cache_folder()))
    torch.ops.load_library(adapter)
    begin = ctypes.CDLL(adapter).far_torch_start
    begin.restype = ctypes.c_char_p
    why = begin(str(LIBRARY).encode())
    if why:
        raise RuntimeError(why.decode())
    torch.utils.rename_privateuse1_backend("far")
    module = _module()
    torch._register_device_module("far", module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    return module


def _product() -> build.Product:
    folder = Path(torch.__file__).parent
    includes = folder / "include"
    return build.Product(
        name="far_torch",
        version=str(torch.__version__),
        what=f"torch's device for tests, for torch {torch.__version__}",
        sources=sorted((ROOT / "devices" / "virtual" / "torch").glob("*.cc")),
        includes=[ROOT / "include"],
        flags=[
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
            *("-isystem", str(includes)),
            *("-isystem", str(includes / "torch" / "csrc" / "api" / "include")),
            *(f"-L{folder / 'lib'}", "-ltorch_cpu", "-lc10"),
        ],
        lasts="about half a minute",
    )


class Counts(ctypes.Structure):
    """far_counts of devices/far/far.h."""

    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_uint32) for name in ("streams", "threads", "allocations")),
        *((name, ctypes.c_uint64) for name in ("launches", "skipped", "copies", "waits")),
    ]
    streams: int
    threads: int
    allocations: int
    launches: int
    skipped: int
    copies: int
    waits: int


def counts(device: int = 0) -> Counts:
    made = Counts(ctypes.sizeof(Counts))
    assert ctypes.CDLL(str(LIBRARY)).far_count(device, ctypes.byref(made)) == 0
    return made


def boxed_counts() -> tuple[int, int]:
    """How many of torch's operators were put on a stream so far, and how many waited for it."""
    return tuple(torch.ops.far.boxed_counts())


def native(stream: torch.Stream) -> int:
    """The device's own handle of a stream of torch."""
    with stream:
        return int(torch.ops.far.native_stream(torch.empty(0, device=stream.device)))


@contextlib.contextmanager
def held(stream: torch.Stream) -> Iterator[None]:
    """Work that is on the stream, or comes, does not begin before the end of the block."""
    library, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p(native(stream))
    assert library.far_hold(handle) == 0
    try:
        yield
    finally:
        assert library.far_let_go(handle) == 0


def finish(stream: torch.Stream) -> None:
    """Waits for the stream's work, and takes no error of it."""
    library, handle = ctypes.CDLL(str(LIBRARY)), ctypes.c_void_p(native(stream))
    assert library.far_finish(handle) == 0


@functools.cache
def allow_inductor() -> None:
    """torch.compile(mode="lite") on the device: Inductor's wrapper around ATen's kernels."""
    from torch._inductor.codegen import common
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.scheduler import BaseScheduling
    from torch.utils._ordered_set import OrderedSet

    class NoKernels(BaseScheduling):  # type: ignore[misc]
        def get_backend_features(self, device: torch.device) -> OrderedSet[Any]:
            return OrderedSet()

        def codegen_node(self, node: Any) -> None:
            raise NotImplementedError(
                "far: Inductor writes no kernels for this device. "
                'Try torch.compile(mode="lite") or backend="aot_eager"'
            )

        def codegen_sync(self) -> None:
            pass

        def flush(self) -> None:
            pass

    class Words(common.DeviceOpOverrides):  # type: ignore[misc]
        def import_get_raw_stream_as(self, name: str) -> str:
            return f"{name} = lambda device: 0"

        def set_device(self, index: int) -> str:
            return f"torch.accelerator.set_device_index({index})"

        def synchronize(self) -> str:
            return "torch.accelerator.synchronize()"

        def device_guard(self, index: int) -> str:
            return f"torch.accelerator.device_index({index})"

    common.register_backend_for_device("far", NoKernels, PythonWrapperCodegen)
    common.register_device_op_overrides("far", Words())


def _index(device: Any) -> int:
    if isinstance(device, int):
        return device
    index = torch.device(device or "far").index
    return int(torch.accelerator.current_device_index() if index is None else index)


class _Device:
    """torch.far.device: makes a device the current one."""

    def __init__(self, device: Any) -> None:
        self.index = _index(device)

    def __enter__(self) -> None:
        self.before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(self.index)

    def __exit__(self, *_: object) -> None:
        torch.accelerator.set_device_index(self.before)


def _module() -> types.ModuleType:
    module: Any = types.ModuleType("torch.far")
    started_in, count = os.getpid(), int(torch.ops.far.device_count())
    generators = [torch.ops.far.default_generator(d) for d in range(count)]

    def generator(device: Any) -> torch.Generator:
        return generators[_index(device)]

    # For random numbers and checkpoints.
    module.default_generators = generators
    module._is_in_bad_fork = lambda: os.getpid() != started_in
    module.manual_seed_all = lambda seed: [g.manual_seed(seed) for g in generators]
    module.manual_seed = lambda seed: generator(None).manual_seed(seed)
    module.initial_seed = lambda: generator(None).initial_seed()
    module.get_rng_state = lambda device="far": generator(device).get_state()
    module.set_rng_state = lambda state, device="far": generator(device).set_state(state)
    # For everything else.
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: count  # torch.accelerator.device_count asks this one
    module.current_device = torch.accelerator.current_device_index
    module.set_device = torch.accelerator.set_device_index
    module.synchronize = torch.accelerator.synchronize
    module.current_stream = torch.accelerator.current_stream
    module.set_stream = torch.accelerator.set_stream
    module.device = _Device
    module.Stream = torch.Stream
    module.Event = torch.Event
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    return module
