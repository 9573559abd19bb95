# SPDX-License-Identifier: Apache-2.0
"""vLLM's worker for CPUs, which also says what runs on anyop. Imported by vLLM."""

from __future__ import annotations

from typing import Any

from vllm.v1.worker.cpu_worker import CPUWorker

from anyop.vllm import _explain, _trial


class AnyopCpuWorker(CPUWorker):  # type: ignore[misc]
    def load_model(self, *args: Any, **kwargs: Any) -> None:
        with _trial.refusing():
            super().load_model(*args, **kwargs)
        _explain.after_load(self)

    def compile_or_warm_up_model(self) -> Any:
        done = super().compile_or_warm_up_model()
        _trial.run(self)
        return done

    def anyop_explain(self) -> dict[str, Any]:
        """For `collective_rpc("anyop_explain")`."""
        return _explain.of_worker(self)
