# SPDX-License-Identifier: Apache-2.0
"""Renders the chat template of a model file, which is a program that somebody else wrote.

It runs in jinja2's sandbox, which hides Python's objects, and in a process of its own, whose time
and memory are bounded: a sandbox alone stops neither `'a' * 10**12` nor loops in loops. This file
is that process's program too, and so imports nothing of anyop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MOST_TEMPLATE_CHARS = 1 << 16
MOST_TEXT_CHARS = 1 << 22
CPU_S, WALL_S = 3, 60
MEMORY_BYTES = 1 << 30


class TemplateError(ValueError):
    """The template cannot be rendered; the text says why."""


def render(template: object, prompt: str) -> str:
    """What the model was trained to see of a question. Raises TemplateError; ImportError without
    jinja2."""
    if not isinstance(template, str):
        raise TemplateError(f"is {template!r:.40}, but must be text.")
    if len(template) > MOST_TEMPLATE_CHARS:
        raise TemplateError(
            f"is {len(template)} characters long, but at most {MOST_TEMPLATE_CHARS} are taken."
        )
    request = {"path": sys.path, "template": template, "prompt": prompt}
    command = [sys.executable, "-I", str(Path(__file__).resolve())]
    # Of our variables, what an interpreter may need to start.
    env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=WALL_S,
            check=False, env=env,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TemplateError(f"takes longer than {WALL_S} seconds.") from None
    try:
        answer: dict[str, str] = json.loads(done.stdout)
    except ValueError:  # killed by a limit
        raise TemplateError(
            f"takes more than {CPU_S} seconds of computing or {MEMORY_BYTES >> 20} MiB of memory."
        ) from None
    if "missing" in answer:
        raise ImportError(answer["missing"])
    if "error" in answer:
        raise TemplateError(answer["error"])
    return answer["text"]


def _answer(request: dict[str, Any]) -> dict[str, str]:
    try:
        from jinja2 import TemplateError as JinjaError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        return {"missing": str(error)}
    try:
        template = ImmutableSandboxedEnvironment().from_string(request["template"])
        messages = [{"role": "user", "content": request["prompt"]}]
        text = ""
        for part in template.generate(messages=messages, add_generation_prompt=True):
            text += part
            if len(text) > MOST_TEXT_CHARS:
                return {"error": f"makes a text of more than {MOST_TEXT_CHARS} characters."}
    except MemoryError:
        return {"error": f"takes more than {MEMORY_BYTES >> 20} MiB of memory."}
    except JinjaError as error:
        return {"error": f"is refused: {error}"}
    except Exception as error:  # a template raises what its expressions run into
        return {"error": f"is wrong ({type(error).__name__}: {error})."}
    return {"text": text}


def main() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    request = json.load(sys.stdin)
    sys.path[:] = request["path"]
    json.dump(_answer(request), sys.stdout)


if __name__ == "__main__":
    main()
