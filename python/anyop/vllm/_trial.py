# SPDX-License-Identifier: Apache-2.0
"""A step of a model before the first request, so that what cannot run is known by then.

What layers ask for shows when they are called, and vLLM would say that a server is healthy until
its first request calls them. No list of formats decides here: whatever layers ask for and anyop has
no kernel of is an error of the engine's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

import anyop
from anyop import _anyop
from anyop.vllm import _absent, _dropin, _native

TOKENS = 4  # one of them alone, the others a prompt

# Calls so far after the last step, and those of all steps: `explain` counts requests' calls.
_after: dict[Any, int] = {}
_made: dict[Any, int] = {}


def run(worker: Any) -> None:
    """Unsupported if the model asks for what is not there.

    What else fails says nothing of requests, as a step without a request is unlike one with it.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner = worker.model_runner
    if not isinstance(runner, GPUModelRunner):
        return
    of_requests, noted = without(_counted()), _native.calls.copy()
    try:  # fork_rng: requests draw the random numbers that they would draw without this step
        with refusing(), torch.random.fork_rng(devices=[]), torch.inference_mode():
            _step(runner)
    except _anyop.Unsupported:
        raise
    except Exception as error:
        _native.log.debug("anyop: a step without a request ended in %r", error)
        runner.maybe_remove_all_loras(runner.lora_config)
    _native.calls.clear()
    _native.calls.update(noted)
    _after.update(_counted())
    _made.update({key: n - of_requests.get(key, 0) for key, n in _after.items()})


@contextmanager
def refusing() -> Iterator[None]:
    """Raises a refusal of anyop's as one of the model, whatever error it has become on its way."""
    try:
        yield
    except Exception as error:
        if why := _absent.reason(error):
            raise _anyop.Unsupported(f"anyop.vllm: the model cannot be served. {why}") from error
        raise


def without(counted: Mapping[Any, int]) -> dict[Any, int]:
    """Counts without the calls of the step, which are gone if the counters were reset since."""
    return {
        key: n - _made.get(key, 0) if n >= _after.get(key, 0) else n for key, n in counted.items()
    }


def _step(runner: Any) -> None:
    tokens = min(TOKENS, runner.max_num_tokens)
    _, last = runner._dummy_run(
        tokens, force_attention=True, create_mixed_batch=True, skip_eplb=True
    )
    if runner.model_config.runner_type == "generate" and last.numel():
        runner.model.compute_logits(last)


def _counted() -> dict[Any, int]:
    kernels = {(row.op, row.kernel): row.calls for row in anyop.counters()}
    return {**kernels, **_dropin.counters()}
