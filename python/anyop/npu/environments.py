# SPDX-License-Identifier: Apache-2.0
"""Makes an environment with torch_npu and anyop, from packages alone."""

from __future__ import annotations

import platform
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyop
from anyop import _environments
from anyop._environments import NO_TORCH, PYTORCH, Step
from anyop._packages import data_root
from anyop.npu import startup

__all__ = ["PYTORCH", "SUPPORTED", "Environment", "environment", "requirements"]

SUPPORTED = startup.VERSIONS  # of torch_npu, with the torch of each
DEFAULT = "2.13.0"  # with the torch that anyop's own tests have
# These and a torch for CUDA declare the same settings of the allocator, and the second ends the
# process.
WITHOUT_CUDA = ("2.14.0",)
# Where PyPI's torch is the one for CUDA: 5 GB that nobody uses here.
IS_CUDA_USUAL = platform.machine() == "x86_64"
NO_CUDA = """\
import sys, torch
if torch.version.cuda:
    sys.exit(
        "ERROR: torch_npu {version} does not load beside torch " + torch.__version__ + ", which is "
        "built for CUDA. Try --index {index}."
    )
"""
STARTUP = "_anyop_npu"
TRIAL = """\
import torch, torch_npu
x = torch.ones(2, device="npu")
assert (x + 1).tolist() == [2.0, 2.0], x + 1
print(torch.npu.get_device_name(0))
"""


class Environment(_environments.Environment):
    """A folder that is a virtual environment with one torch_npu."""

    who, mark = "anyop.npu", ".anyop-npu.json"

    def refresh(self) -> None:
        """Puts the anyop of this process into an environment that is there already."""
        super().refresh()
        folder = self._site_packages()
        shutil.copy2(folder / "anyop/npu/startup.py", folder / f"{STARTUP}.py")
        (folder / f"{STARTUP}.pth").write_text(f"import {STARTUP}\n")
        without = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "ANYOP_NPU": ""}
        build = "import anyop.torch.virtual_device.npu as kernels; kernels.main()"
        self._try(build, "kernels of torch's operators", without)
        self._try(TRIAL, "a trial", {"ANYOP_NPU": "1"})

    def _steps(self, extra: Sequence[str]) -> Iterator[Step]:
        # --no-compile: a module is compiled when it is first imported. To compile all of them would
        # be a tenth of the processor's time that an installation takes.
        pip = ["-m", "pip", "--disable-pip-version-check", "install", "--no-compile"]
        torch = f"torch=={SUPPORTED[self.version]}"
        if IS_CUDA_USUAL and not extra and answers(PYTORCH):
            extra = ["--extra-index-url", PYTORCH]
        if IS_CUDA_USUAL and self.version in WITHOUT_CUDA:
            torch += "+cpu"  # so that another is refused before it is loaded
        yield Step("torch", [*pip, *extra, torch], {})
        if self.version in WITHOUT_CUDA:
            code = NO_CUDA.format(version=self.version, index=PYTORCH)
            yield Step("a torch without CUDA", ["-c", code], {})
        # torch_npu itself names no packages that it needs.
        listed = [*pip, "--no-deps", "-r", str(requirements(self.version))]
        yield Step("torch_npu", listed, {})

    def _lacks_torch(self, lines: Sequence[str]) -> bool:
        """Whether pip has found no torch without CUDA, which is on PyTorch's own index."""
        text = "".join(lines)
        return self.version in WITHOUT_CUDA and any(sign in text for sign in NO_TORCH)

    def _reason(self, lines: Sequence[str]) -> str:
        if not self._lacks_torch(lines):
            return super()._reason(lines)
        return (
            f"torch_npu {self.version} needs a torch without CUDA, {SUPPORTED[self.version]}+cpu, "
            "and no index that pip reaches has it."
        )

    def _advice(self, lines: Sequence[str]) -> str:
        advice = super()._advice(lines)
        other = f", or --version {DEFAULT}." if self._lacks_torch(lines) else ""
        return advice.removesuffix(".") + other if other else advice

    def _contents(self) -> dict[str, str]:
        return {
            "torch_npu": self.version,
            "anyop": anyop.__version__,
            "list": requirements(self.version).read_text(),
        }


def environment(folder: Path, version: str = "") -> Environment:
    """The environment of a version, or of the one that begins so: "2.13"."""
    begins = [known for known in SUPPORTED if f"{known}.".startswith(f"{version}.")]
    if version and not begins:
        raise anyop.NotAvailable(
            f"anyop.npu: version {version} of torch_npu is asked for, but the virtual NPU is made "
            f"for {', '.join(SUPPORTED)}. Try --version {DEFAULT}."
        )
    if sys.platform != "linux":
        raise anyop.NotAvailable("anyop.npu: torch_npu is there for Linux alone.")
    cann = startup.other_cann()
    if cann:
        raise anyop.NotAvailable(
            f"anyop.npu: a CANN is here: {cann}. The virtual NPU takes the place of its libraries, "
            "and both in one process cannot be told apart. Try a shell without it."
        )
    return Environment(folder, begins[0] if version else DEFAULT)


def answers(index: str) -> bool:
    """Whether an index of packages can be reached."""
    try:
        asked = urllib.request.Request(f"{index}/torch/", method="HEAD")
        with urllib.request.urlopen(asked, timeout=10):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


def requirements(version: str) -> Path:
    """The pinned list of a version."""
    return data_root() / "requirements" / f"npu-{version}.txt"
