# SPDX-License-Identifier: Apache-2.0
"""Extensions of torch for its device, as torch_npu's module of this name builds them."""

from pathlib import Path
from typing import Any

import torch.utils.cpp_extension as torch_extension
from anyop.ascend.wrapper import flags_of_host, link_flags
from setuptools import Extension
from torch.utils.cpp_extension import BuildExtension

TorchExtension = torch_extension
PYTORCH_NPU_INSTALL_PATH = str(Path(__file__).absolute().parents[1])

__all__ = ["BuildExtension", "NpuExtension", "PYTORCH_NPU_INSTALL_PATH", "TorchExtension"]


def NpuExtension(name: str, sources: "list[str]", *args: Any, **kwargs: Any) -> Extension:
    """An Extension with the headers and libraries of torch and of the stand-in."""
    npu = Path(PYTORCH_NPU_INSTALL_PATH)
    include = [*kwargs.pop("include_dirs", []), str(npu / "include")]
    kwargs["include_dirs"] = [*include, *torch_extension.include_paths()]
    folders = [*kwargs.pop("library_dirs", []), str(npu / "lib")]
    kwargs["library_dirs"] = [*folders, *torch_extension.library_paths()]
    own = ["c10", "torch", "torch_cpu", "torch_python"]
    kwargs["libraries"] = [*kwargs.pop("libraries", []), *own]
    kwargs["extra_link_args"] = [*kwargs.pop("extra_link_args", []), *link_flags()]
    given = kwargs.pop("extra_compile_args", [])
    if isinstance(given, dict):
        kwargs["extra_compile_args"] = {**given, "cxx": [*given.get("cxx", []), *flags_of_host()]}
    else:
        kwargs["extra_compile_args"] = [*given, *flags_of_host()]
    kwargs["language"] = "c++"
    return Extension(name, sources, *args, **kwargs)
