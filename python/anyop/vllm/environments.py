# SPDX-License-Identifier: Apache-2.0
"""Makes an environment with vLLM and anyop, from packages alone: nothing of vLLM is compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyop
from anyop import _environments
from anyop._environments import PYTORCH, Step, without_paths
from anyop._packages import data_root
from anyop.vllm import _versions

__all__ = ["PYTORCH", "SUPPORTED", "Environment", "environment", "requirements", "without_paths"]

SUPPORTED = _versions.SUPPORTED
EMPTY = {"VLLM_TARGET_DEVICE": "empty"}  # without compiled kernels


class Environment(_environments.Environment):
    """A folder that is a virtual environment with one vLLM."""

    who, mark = "anyop.vllm", ".anyop-vllm.json"

    def refresh(self) -> None:
        """Puts the anyop of this process into an environment that is there already."""
        super().refresh()
        self._try("import anyop.vllm; print(anyop.vllm.status())", "anyop")
        self._let_torchvision_be_imported()

    def _let_torchvision_be_imported(self) -> None:
        """Where its compiled part is for another torch: by a file that runs at Python's start."""
        code = "import torchvision"
        if subprocess.run([str(self.python), "-c", code], capture_output=True).returncode:
            name = "_anyop_torchvision"
            folder = self._site_packages()
            shutil.copy2(folder / "anyop/vllm/_torchvision.py", folder / f"{name}.py")
            (folder / f"{name}.pth").write_text(f"import {name}\n")
            self._try(code, "torchvision")

    def _steps(self, extra: Sequence[str]) -> Iterator[Step]:
        pip = ["-m", "pip", "--disable-pip-version-check"]
        lists = data_root() / "requirements"
        torch, vision = f"torch=={_versions.TORCH}.0", f"torchvision=={_versions.TORCHVISION}.0"
        # torch first, as building vLLM imports it.
        yield Step("torch", [*pip, "install", *extra, torch], {})
        yield Step("torchvision", [*pip, "install", "--no-deps", *extra, vision], {})
        build = ["-r", str(lists / "vllm-build.txt")]
        yield Step("what builds vLLM", [*pip, "install", *build], {})
        source = self.folder / "source"
        # By its version pip refuses the package, which calls itself VERSION+empty.
        by_version = {**EMPTY, "VLLM_VERSION_OVERRIDE": self.version}
        fetch = ["download", "--no-deps", "--no-binary", "vllm", "--no-build-isolation"]
        yield Step(
            "vLLM's source", [*pip, *fetch, "-d", str(source), f"vllm=={self.version}"], by_version
        )
        archive = source / f"vllm-{self.version}.tar.gz"
        install = ["install", "--no-deps", "--no-build-isolation", str(archive)]
        yield Step("vLLM", [*pip, *install], EMPTY)
        # The list is whole. By dependencies pip would add what only accelerators use, as Triton.
        listed = ["install", "--no-deps", "-r", str(requirements(self.version))]
        yield Step("its packages", [*pip, *listed], {})

    def _contents(self) -> dict[str, str]:
        return {
            "vllm": self.version,
            "anyop": anyop.__version__,
            "list": requirements(self.version).read_text(),
        }

    def _clean(self) -> None:
        shutil.rmtree(self.folder / "source")


def environment(folder: Path, version: str = "") -> Environment:
    """The environment of a version, by default the newest that this Python can have."""
    if not version:
        fit = [f.VERSION for f in _versions.MODULES if sys.version_info[:2] >= f.PYTHON]
        version = fit[-1] if fit else _versions.SUPPORTED[0]
    if version not in _versions.SUPPORTED:
        raise anyop.NotAvailable(
            f"anyop.vllm: version {version} of vLLM is asked for, but there are lists of what "
            f"{', '.join(_versions.SUPPORTED)} need. Try --version {_versions.SUPPORTED[-1]}."
        )
    _versions.check_python(_versions.of_version(version))
    return Environment(folder, version)


def requirements(version: str) -> Path:
    """The pinned list of a version."""
    return data_root() / "requirements" / f"vllm-{version}.txt"
