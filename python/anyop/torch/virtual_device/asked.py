# SPDX-License-Identifier: Apache-2.0
"""Runs a program and notes the operators beyond torch's own that it asks for, and what is missing.

    python -m anyop.torch.virtual_device.asked FILE PROGRAM [ARGUMENT ...]

`anyop npu explain` starts it, with the virtual NPU on. FILE gets the notes as JSON.
"""

from __future__ import annotations

import json
import runpy
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

TORCHS = ("aten", "prims", "prim", "c10d", "profiler", "inductor")


class Asked(TorchDispatchMode):
    """Counts calls of operators by name; of those that fail, keeps the error's last line."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: Counter[str] = Counter()
        self.missing: dict[str, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.name()).partition(".")[0]
        if name.partition("::")[0] not in TORCHS:
            self.calls[name] += 1
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            told = [line for line in str(error).splitlines() if "is not supported" in line]
            if told:
                self.missing[name] = told[-1].strip().removeprefix("virtual NPU: ")
            raise


def main() -> int:
    """Runs the program of the command line; the status is 1 where it raised or ended with one."""
    file, program = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path[0] = str(Path(program).parent)
    asked, ended = Asked(), ""
    try:
        with asked:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as stop:
        ended = "" if not stop.code else f"it ended with status {stop.code}"
    except Exception as error:
        traceback.print_exc()
        ended = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
    notes = {"calls": asked.calls, "missing": asked.missing, "ended": ended}
    Path(file).write_text(json.dumps(notes))
    return 1 if ended else 0


if __name__ == "__main__":
    sys.exit(main())
