# SPDX-License-Identifier: Apache-2.0
import glob
import os
import shutil
import subprocess
import sysconfig

import torch
import torch_npu
from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from torch.utils import cpp_extension

ROOT = os.path.dirname(os.path.realpath(__file__))
SOURCES = [
    *sorted(glob.glob(os.path.join(ROOT, "csrc", "*.asc"))),
    *sorted(glob.glob(os.path.join(ROOT, "csrc", "*.cpp"))),
]


class BishengBuild(build_ext):
    def build_extension(self, ext):
        bisheng = shutil.which("bisheng")
        if not bisheng:
            raise RuntimeError("bisheng is not on PATH. Source set_env.sh of the toolkit first.")
        npu = os.path.dirname(os.path.abspath(torch_npu.__file__))
        includes = [
            *cpp_extension.include_paths(),
            sysconfig.get_config_var("INCLUDEPY"),
            os.path.join(npu, "include"),
        ]
        libraries = [
            os.path.join(os.path.dirname(torch.__file__), "lib"),
            os.path.join(npu, "lib"),
            os.path.join(os.environ["ASCEND_HOME_PATH"], "lib64"),
        ]
        target = self.get_ext_fullpath(ext.name)
        self.mkpath(os.path.dirname(target))
        subprocess.run(
            [
                bisheng, "-x", "asc", "--npu-arch=dav-2201", "-shared", "-fPIC", "-std=c++20",
                f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
                f"-DTORCH_EXTENSION_NAME={ext.name.split('.')[-1]}",
                *(f"-I{folder}" for folder in includes),
                *(f"-L{folder}" for folder in libraries),
                *ext.sources, "-o", target,
                "-ltorch", "-ltorch_cpu", "-lc10", "-ltorch_python", "-ltorch_npu", "-lascendcl",
            ],
            check=True,
        )  # fmt: skip


setup(
    name="custom_pypto",
    version="1.0",
    packages=find_packages(include=["custom_pypto*"]),
    ext_modules=[Extension("custom_pypto.custom_pypto_lib", SOURCES)],
    cmdclass={"build_ext": BishengBuild},
)
