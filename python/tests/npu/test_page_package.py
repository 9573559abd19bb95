# SPDX-License-Identifier: Apache-2.0
"""The package of docs/npu.md, from nothing: its files and commands as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "npu.md"


def block(text: str, kind: str, first: str) -> str:
    """The block of a kind that begins with a line."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = (code for name, code in blocks if name == kind and code.startswith(first))
    return str(found)


@pytest.mark.slow
def test_the_package_of_the_page_is_built_and_passes_opcheck(tmp_path: Path) -> None:
    text = PAGE.read_text()
    package = tmp_path / "twice"
    package.mkdir()
    (package / "twice.asc").write_text(block(text, "cpp", "#include <torch/extension.h>"))
    (package / "setup.py").write_text(block(text, "py", "import os\n"))
    program = block(text, "py", "import torch\nimport twice\n")
    (tmp_path / "npu-env").symlink_to(Path(sys.executable).parents[1])
    commands = block(text, "", "npu-env/bin/python -m anyop ascend home ascend-home\n")
    # Beside the environment's packages, which are not the test's to change.
    target = f"PIP_TARGET={tmp_path}/site PIP_NO_DEPS=1 python -m pip"
    lines = commands.replace("FOLDER", "twice").replace("pip install", f"{target} install")
    checks = """
def check(*given):
    told = torch.library.opcheck(torch.ops.twice.twice.default, given, raise_exception=False)
    return {name: str(said).partition(":")[0] for name, said in told.items()}
print(check(x))
print(check(torch.ones(3, device="npu", requires_grad=True))["test_autograd_registration"])
"""
    (tmp_path / "program.py").write_text(program + checks)
    lines += f"PYTHONPATH={tmp_path}/site python -W ignore program.py\n"
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "PYTHONPATH"))}
    ran = subprocess.run(
        ["bash", "-ec", lines], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    total, checked, without = ran.stdout.splitlines()[-3:]
    (expected,) = re.findall(r"print\(.*\)  # (.*)", program)
    assert total == expected
    names = ("schema", "autograd_registration", "faketensor", "aot_dispatch_dynamic")
    assert checked == str({f"test_{name}": "SUCCESS" for name in names})
    assert without == "autograd_registration_check"
