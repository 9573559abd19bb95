# SPDX-License-Identifier: Apache-2.0
"""vLLM's worker for CPUs, which also says what runs on anyop. Imported by vLLM."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from anyop.vllm import _explain


class AnyopCpuWorker(CPUWorker):  # type: ignore[misc]
    def load_model(self, *args: Any, **kwargs: Any) -> None:
        super().load_model(*args, **kwargs)
        _explain.after_load(self)

    def anyop_explain(self) -> dict[str, Any]:
        """For `collective_rpc("anyop_explain")`."""
        return _explain.of_worker(self)
