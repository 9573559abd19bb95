# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))


class BuildNpuOps(build_ext):
    def build_extension(self, ext):
        folder = os.path.join(ROOT, "build", "ops")
        made = os.path.join(folder, "extension")
        name = ext.name.split(".")[-1]
        os.makedirs(made, exist_ok=True)
        subprocess.run(
            f"source {os.environ['ASCEND_HOME_PATH']}/bin/setenv.bash &&"
            f" cmake -S {ROOT}/csrc -B {folder} -DMS_EXTENSION_NAME={name}"
            f" -DBUILD_EXTENSION_DIR={made} && cmake --build {folder} -j",
            shell=True, check=True, executable="/bin/bash",
        )  # fmt: skip
        self.mkpath(os.path.dirname(self.get_ext_fullpath(ext.name)))
        self.copy_file(os.path.join(made, name + ".so"), self.get_ext_fullpath(ext.name))


setup(
    name="npu_ops_api",
    version="1.0",
    packages=["npu_ops_api"],
    ext_modules=[Extension("npu_ops_api.npu_ops", [])],
    cmdclass={"build_ext": BuildNpuOps},
)
