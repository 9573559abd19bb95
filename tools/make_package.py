# SPDX-License-Identifier: Apache-2.0
"""Links the Python package and its libraries into one folder, and writes its stubs there."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--operators", type=Path, required=True)
    parser.add_argument("--program", type=Path, action="append", default=[])
    parser.add_argument("libraries", nargs="+", type=Path)
    args = parser.parse_args()
    shutil.rmtree(args.output, ignore_errors=True)
    args.output.mkdir(parents=True)
    for path in [*args.source.iterdir(), *args.libraries]:
        if path.name != "__pycache__" and path != args.source / "__init__.pyi":
            (args.output / path.name).symlink_to(path)
    for path in args.operators.glob("*/bench*.py"):
        folder = args.output / "bench_cases" / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).symlink_to(path)
    (args.output / "bin").mkdir()
    for path in args.program:
        (args.output / "bin" / path.name).symlink_to(path)
    stubs = args.output / "__init__.pyi"
    env = {**os.environ, "PYTHONPATH": str(args.output.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "anyop._stubs", str(stubs)]
    try:
        subprocess.run(command, env=env, check=True)
    except subprocess.CalledProcessError as error:
        stubs.unlink(missing_ok=True)
        sys.exit(f"make_package: anyop._stubs failed with exit status {error.returncode}.")


if __name__ == "__main__":
    main()
