# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import PYTORCH_NPU_INSTALL_PATH, NpuExtension

ROOT = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ["ASCEND_HOME_PATH"]
KERNELS = os.path.join(ROOT, "build", "kernels")


class Build(BuildExtension):
    def run(self):
        source = os.path.join(ROOT, "csrc", "kernels")
        subprocess.run(["cmake", "-S", source, "-B", KERNELS], check=True)
        subprocess.run(["cmake", "--build", KERNELS, "-j"], check=True)
        super().run()


setup(
    name="custom_ops",
    version="1.0",
    packages=["custom_ops"],
    ext_modules=[
        NpuExtension(
            "custom_ops.custom_ops_lib",
            ["csrc/ops.cpp"],
            include_dirs=[
                os.path.join(HOME, "include"),
                os.path.join(PYTORCH_NPU_INSTALL_PATH, "include", "third_party", "op-plugin"),
                os.path.join(KERNELS, "include", "custom_ops_kernels"),
            ],
            # The headers of torch_npu ask which torch they are used with.
            extra_compile_args=["-DCURRENT_VERSION=V2R13", "-w"],
            extra_objects=[os.path.join(KERNELS, "libcustom_ops_kernels.a")],
            library_dirs=[os.path.join(HOME, "lib64")],
            libraries=["ascendcl"],
        )
    ],
    cmdclass={"build_ext": Build},
)
