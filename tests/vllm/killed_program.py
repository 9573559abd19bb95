# SPDX-License-Identifier: Apache-2.0
"""Two engines' workers are killed: one between requests, one in a request. Run by vLLM's Python."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyop.vllm
from engine_program import OPTIONS, make_model

PROMPT = {"prompt_token_ids": [3, 4, 5]}


def attempt(folder: Path, delay_s: float) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(model=str(folder), **{**OPTIONS, "distributed_executor_backend": "mp"})
    (worker,) = anyop.vllm.explain(llm)
    sampling = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True, detokenize=False)
    killer = threading.Timer(delay_s, os.kill, (worker["pid"], signal.SIGKILL))
    killer.start()
    if not delay_s:
        killer.join()
    begun, error, made = time.monotonic(), "", 0
    try:
        while time.monotonic() - begun < 60:
            llm.generate(PROMPT, sampling, use_tqdm=False)
            made += 1
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    return {"error": error, "threads": worker["threads"], "pid": worker["pid"], "made": made}


def main() -> None:
    folder = Path(sys.argv[1])
    make_model(folder)
    found = [attempt(folder, delay_s) for delay_s in (0, 0.5)]
    print("RESULT", json.dumps({"pid": os.getpid(), "engines": found}), flush=True)
    os._exit(0)  # the engines cannot be shut down


if __name__ == "__main__":
    main()
