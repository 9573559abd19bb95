# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))
ASCEND_HOME_PATH = os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest")


class BuildNpuOps(build_ext):
    def build_extension(self, ext):
        import mindspore as ms

        folder = os.path.join(ROOT, "build", "ops")
        script = os.path.realpath(os.path.join(ASCEND_HOME_PATH, "..", "set_env.sh"))
        subprocess.run(
            f"source {script} && cmake -S {ROOT} -B {folder}"
            f" -DASCEND_CANN_PACKAGE_PATH={ASCEND_HOME_PATH} && cmake --build {folder} -j",
            shell=True, check=True, executable="/bin/bash",
        )  # fmt: skip
        made = ms.ops.CustomOpBuilder(
            name=ext.name,
            sources=ext.sources,
            backend="Ascend",
            cflags=f"-I{ROOT}",
            ldflags=f"-L{folder} -lnpu_ops_kernels",
            build_dir=folder,
        ).build()
        self.mkpath(os.path.dirname(self.get_ext_fullpath(ext.name)))
        self.copy_file(made, self.get_ext_fullpath(ext.name))


setup(
    name="npu_ops",
    version="1.0",
    ext_modules=[Extension("npu_ops", [os.path.join("module", "my_custom_op.cpp")])],
    cmdclass={"build_ext": BuildNpuOps},
)
