# SPDX-License-Identifier: Apache-2.0
"""torch.<word>: what torch's Python asks the module of a device for."""

from __future__ import annotations

import os
import types
from typing import Any

import torch


def module_of(word: str) -> Any:
    """The module; the backend must have begun, since its devices are counted here."""
    module: Any = types.ModuleType(f"torch.{word}")
    started_in, count = os.getpid(), int(torch.ops.anyop_device.device_count())
    generators: list[torch.Generator] = [
        torch.ops.anyop_device.default_generator(d) for d in range(count)
    ]

    def index_of(device: Any) -> int:
        if isinstance(device, int):
            return device
        index = torch.device(device or word).index
        return int(torch.accelerator.current_device_index() if index is None else index)

    def generator(device: Any) -> torch.Generator:
        return generators[index_of(device)]

    class Device:
        """Makes a device the current one."""

        def __init__(self, device: Any) -> None:
            self.index = index_of(device)

        def __enter__(self) -> None:
            self.before = torch.accelerator.current_device_index()
            torch.accelerator.set_device_index(self.index)

        def __exit__(self, *_: object) -> None:
            torch.accelerator.set_device_index(self.before)

    # torch.manual_seed, torch.random and checkpoints ask for these.
    module.default_generators = generators
    module._is_in_bad_fork = lambda: os.getpid() != started_in
    module.manual_seed_all = lambda seed: [g.manual_seed(seed) for g in generators]
    module.manual_seed = lambda seed: generator(None).manual_seed(seed)
    module.initial_seed = lambda: generator(None).initial_seed()
    module.get_rng_state = lambda device=word: generator(device).get_state()
    module.set_rng_state = lambda state, device=word: generator(device).set_state(state)
    # For everything else.
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: count  # torch.accelerator.device_count asks this one
    module.current_device = torch.accelerator.current_device_index
    module.set_device = torch.accelerator.set_device_index
    module.synchronize = torch.accelerator.synchronize
    module.current_stream = torch.accelerator.current_stream
    module.set_stream = torch.accelerator.set_stream
    module.device = Device
    module.Stream = torch.Stream
    module.Event = torch.Event
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    return module
