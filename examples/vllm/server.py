# SPDX-License-Identifier: Apache-2.0
"""`vllm serve` as a process, and requests to it with nothing but Python's standard library."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STARTS_S = 600  # a busy machine loads vLLM's modules slowly


class Server:
    """Serves a saved model on a free port of this machine, until it is closed."""

    def __init__(self, model: Path, log: Path, *options: str) -> None:
        self.log = log
        self.port = _free_port()
        log.parent.mkdir(parents=True, exist_ok=True)
        program = "from vllm.entrypoints.cli.main import main; main()"
        words = ["serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), *options]
        # The second opens /collective_rpc, over which workers tell what they run.
        env = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "VLLM_SERVER_DEV_MODE": "1"}
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, *words], env=env, stdout=file, stderr=file
            )

    def wait(self, progress: Callable[[float], None]) -> None:
        """Until it answers. progress: gets the seconds so far."""
        start = time.monotonic()
        while time.monotonic() - start < STARTS_S:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(self._url("/health"), timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                progress(time.monotonic() - start)
                time.sleep(0.5)
        end = "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])
        raise RuntimeError(f"{end}\nvLLM does not answer. All that it printed is in {self.log}.")

    def chat(self, prompt: str, tokens: int) -> Iterator[str]:
        """The pieces of an answer, as they are made; the likeliest token each time."""
        asked = {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
        }
        with self._post("/v1/chat/completions", asked) as answer:
            for line in answer:
                text = line.decode().strip().removeprefix("data: ")
                if not text or text == "[DONE]":
                    continue
                piece = json.loads(text)["choices"][0]["delta"].get("content")
                if piece:
                    yield piece

    def complete(self, prompt: str, tokens: int) -> str:
        """What follows a text."""
        asked = {"prompt": prompt, "max_tokens": tokens, "temperature": 0}
        with self._post("/v1/completions", asked) as answer:
            text: str = json.load(answer)["choices"][0]["text"]
        return text

    def explain(self) -> list[dict[str, Any]]:
        """What each worker runs on anyop."""
        with self._post("/collective_rpc", {"method": "anyop_explain"}) as answer:
            told: list[dict[str, Any]] = json.load(answer)["results"]
        return told

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url(path), json.dumps(body).encode(), headers)
        return urllib.request.urlopen(request, timeout=STARTS_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
