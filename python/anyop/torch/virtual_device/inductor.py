# SPDX-License-Identifier: Apache-2.0
"""torch.compile(mode="lite") on the device: Inductor's wrapper around ATen's kernels."""

from __future__ import annotations

from typing import Any


def register(word: str) -> None:
    """Tells Inductor how the device is reached, and that it writes no kernels for it."""
    import torch
    from torch._inductor.codegen import common
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.scheduler import BaseScheduling
    from torch.utils._ordered_set import OrderedSet

    class NoKernels(BaseScheduling):
        def get_backend_features(self, device: torch.device) -> OrderedSet[Any]:
            return OrderedSet()

        # Inductor calls this one first where it begins to write a kernel.
        def group_fn(self, sizes: Any) -> Any:
            raise NotImplementedError(
                f"{word}: Inductor writes no kernels for this device. "
                'Try torch.compile(mode="lite") or backend="aot_eager"'
            )

        def codegen_sync(self) -> None:
            pass

        def flush(self) -> None:
            pass

    class Words(common.DeviceOpOverrides):
        def import_get_raw_stream_as(self, name: str) -> str:
            return f"{name} = lambda device: 0"

        def set_device(self, index: int) -> str:
            return f"torch.accelerator.set_device_index({index})"

        def synchronize(self) -> str:
            return "torch.accelerator.synchronize()"

        def device_guard(self, index: int) -> str:
            return f"torch.accelerator.device_index({index})"

    common.register_backend_for_device(word, NoKernels, PythonWrapperCodegen)
    common.register_device_op_overrides(word, Words())
