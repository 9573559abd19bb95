# SPDX-License-Identifier: Apache-2.0
"""The environment exactly as `anyop vllm install` leaves it: its programs, and what requests need.

Nothing is on the path here but what was installed, and every switch of vLLM is as it comes.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import in_vllm
import pytest

# By package that something asks for: why it is not there.
LEFT_OUT = {
    "anthropic": "nothing of vLLM imports it",
    "depyf": "writes what torch.compile made to files, for people",
    "httpx": "only connectors between machines import it",
    "mcp": "servers of tools; vLLM says how to get it",
    "opentelemetry-exporter-otlp": "traces; vLLM says how to get it",
    "opentelemetry-sdk": "traces",
    "opentelemetry-semantic-conventions-ai": "traces",
    "pip": "of Python",
    "setuptools": "of Python",
    "supervisor": "for machines of Amazon's",
    "triton": "for accelerators",
}
SECONDS = 180


def as_installed(**settings: str) -> dict[str, str]:
    hidden = ("PYTHONPATH", "VLLM_ENABLE_V1_MULTIPROCESSING", "SMOLLM2")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**env, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **settings}


def program(name: str) -> Path:
    """Of the environment's."""
    python = Path(in_vllm.interpreter())
    if not (python.parents[1] / ".anyop-vllm.json").exists():
        pytest.skip("this environment was not made by `anyop vllm install`")
    return python.with_name(name)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("picture") / "model"
    words = [program("python"), in_vllm.HERE / "picture_model.py", folder]
    done = subprocess.run(words, env=as_installed(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[str]:
    """The address of `vllm serve` with the model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        program("vllm"), "serve", model, "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "512", "--kv-cache-memory-bytes", str(1 << 25),
        "--max-num-seqs", "4", "--enforce-eager", "--served-model-name", "tiny",
    ]  # fmt: skip
    log = model / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(words, env=as_installed(), stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"
    try:
        begun = time.monotonic()
        while not answers(address):
            is_alive = process.poll() is None and time.monotonic() - begun < SECONDS
            assert is_alive, log.read_text()[-5000:]
            time.sleep(0.3)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def answers(address: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(f"{address}/health", timeout=5).status == 200)
    return False


def chat(address: str, content: Any, **more: Any) -> str:
    asked = {
        "model": "tiny", "messages": [{"role": "user", "content": content}], "temperature": 0,
        "max_tokens": 8, **more,
    }  # fmt: skip
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found = json.load(answer)
    return str(found["choices"][0]["message"]["content"])


def picture(shade: int) -> dict[str, Any]:
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (70, 56), (shade, 255 - shade, 20)).save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


@pytest.mark.slow
def test_structured_requests(server: str) -> None:
    assert chat(server, "Yes?", structured_outputs={"choice": ["yes", "no"]}) in ("yes", "no")
    schema = {
        "type": "object", "properties": {"a": {"enum": ["b", "c"]}}, "required": ["a"],
        "additionalProperties": False,
    }  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "one", "schema": schema}}
    made = chat(server, "An object:", response_format=form, max_tokens=64)
    assert re.match(r'\{\s*("a"\s*(:\s*("[bc]"\s*(\}|$)|$)|$)|$)', made), made


@pytest.mark.slow
def test_requests_with_pictures(server: str) -> None:
    text = {"type": "text", "text": "What is it?"}
    made = [chat(server, [picture(shade), text]) for shade in (0, 0, 250)]
    assert made[0] == made[1]
    assert made[0] != made[2], "the picture was not read"


@pytest.mark.slow
def test_explain_is_a_program_of_the_environment(model: Path) -> None:
    """Its workers are processes, which import the program again."""
    words = [
        program("anyop"), "vllm", "explain", model, "--dtype", "float32", "--max-model-len", "512",
        "--kv-cache-memory-bytes", str(1 << 25), "--enforce-eager",
    ]  # fmt: skip
    done = subprocess.run(words, env=as_installed(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines()[2:]}
    assert lines["SiluAndMul"][1] == "anyop.silu_and_mul"
    assert int(lines["SiluAndMul"][-1]) >= 4


def test_what_packages_ask_for_is_there_or_known_to_be_left_out() -> None:
    words = [program("python"), "-m", "pip", "check", "--disable-pip-version-check"]
    done = subprocess.run(words, env=as_installed(), capture_output=True, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if "WARNING" not in line]
    missing = {m[1] for line in told if (m := re.search(r" requires (\S+), which is not in", line))}
    assert missing <= LEFT_OUT.keys(), missing - LEFT_OUT.keys()
    assert not [line for line in told if " has requirement " in line]


def test_modules_that_vllm_names_elsewhere_are_there() -> None:
    """By a list for builds with kernels, or one of extras."""
    code = "import av, cv2, numba, scipy.signal, soundfile, soxr, torchvision.transforms.v2"
    done = subprocess.run([program("python"), "-c", code], env=as_installed(), capture_output=True)
    assert done.returncode == 0, done.stderr[-2000:]
