# SPDX-License-Identifier: Apache-2.0
"""Packages of Ascend users build by their own commands, and run: in MindSpore's two forms on NumPy
arrays, and in torch's on a device of torch.
"""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest
from anyop.ascend import wrapper
from built_packages import PIP, ROOT, copied, home, installed, python, run

DOCUMENT = (ROOT / "docs" / "ascend.md").read_text()
FAR = ROOT / "build" / "release" / "tests" / "anyop_far.so"
needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is missing")


def block(beginning):
    """A block of the document that begins so."""
    return re.search(rf"```\n({re.escape(beginning)}.*?)```", DOCUMENT, re.DOTALL)[1]


@pytest.mark.slow
@needs_cmake
def test_the_guides_package_does_what_the_document_says(tmp_path):
    env = home(tmp_path)
    source = copied("npu_ops", tmp_path)
    before = {p: p.read_bytes() for p in source.rglob("*") if p.is_file()}
    commands = block("anyop ascend home") + block("pip install --no-build-isolation .")
    env = {k: v for k, v in env.items() if not k.startswith("ASCEND")}
    run(["bash", "-ec", commands.replace("source ", "source $PWD/")], env, source)
    assert all(p.read_bytes() == text for p, text in before.items())
    assert f"{python(block('import numpy'), env)}\n" == block("Output:")


WRONG = """
import numpy as np
from {module} import npu_ops
o = np.zeros(3, np.int32)
locked = o.copy()
locked.flags.writeable = False
calls = (
    lambda: npu_ops.my_custom_op(10, 20, o),
    lambda: npu_ops.my_custom_op(10, 20, [1, 2, 3], o),
    lambda: npu_ops.my_custom_op(1.5, 20, o, o),
    lambda: npu_ops.my_custom_op(10, 20, o.astype(complex), o),
    lambda: npu_ops.my_custom_op(10, 20, np.zeros(6, np.int32)[::2], o),
    lambda: npu_ops.my_custom_op(10, 20, o, locked),
    lambda: npu_ops.my_custom_op(10, 20, np.zeros(4, np.int32), o),
)
for call in calls:
    try:
        call()
        print("nothing")
    except (TypeError, ValueError) as error:
        print(type(error).__name__, str(error).splitlines()[0])
assert not o.any()
"""
MATCHES_NOTHING = (
    "TypeError my_custom_op(): incompatible function arguments. "
    "The following argument types are supported:"
)
ERRORS = [
    *3 * [MATCHES_NOTHING],
    "TypeError A tensor of dtype complex128 cannot be passed, but one of bool, int8 to int64, "
    "uint8 to uint64, float16, bfloat16, float32 or float64. Try converting it.",
    "ValueError A tensor of int32[3] is not contiguous, but a kernel gets the address of its first "
    "element alone. Try numpy.ascontiguousarray, or .contiguous().",
    "ValueError A tensor of int32[3] is read-only, but the kernel may write to it. Try a copy.",
]


@pytest.mark.exhaustive
@needs_cmake
def test_wrong_calls_of_the_first_form_are_exceptions(tmp_path):
    env = home(tmp_path)
    installed("npu_ops", tmp_path, env)
    code = WRONG.replace("from {module} import", "import")
    unequal = "ValueError my_custom_op: input and output must be int32, of one shape."
    assert python(code, env).splitlines() == [*ERRORS, unequal]


TODAY = """
import numpy as np
from npu_ops_api import npu_ops
x = np.arange(5000, dtype=np.int32)
y = np.zeros_like(x)
npu_ops.my_custom_op(10, 20, x, y)
assert (y == 10 * x + 20).all()
y = np.zeros(3, np.int16)
npu_ops.my_custom_op(param1=1, param2=2, input=np.array([[1, 2, 3]])[0], output=y)
assert y.tolist() == [3, 4, 5]
made = npu_ops.my_custom_op_new(2, 1, np.array([[1.0], [2.0]], np.float16))
assert made.dtype == np.float16 and made.tolist() == [[3.0], [5.0]]
npu_ops.my_custom_op(1, 2, np.zeros((0, 4), np.int32), np.zeros((0, 4), np.int32))
"""


@pytest.mark.slow
@needs_cmake
def test_a_package_of_todays_form(tmp_path):
    env = home(tmp_path)
    installed("npu_ops_api", tmp_path, env)
    assert python(TODAY, env) == ""
    unequal = "ValueError my_custom_op: input and output must be of one shape."
    said = python(WRONG.replace("{module}", "npu_ops_api"), env).splitlines()
    assert said == [*ERRORS, unequal]


@pytest.mark.exhaustive
@needs_cmake
def test_a_package_that_is_built_with_checks_tells_its_races(tmp_path):
    env = home(tmp_path, "--checked")
    source = copied("npu_ops", tmp_path)
    path = source / "ascendc" / "my_custom_op.c"
    text = path.read_text().replace("    in_.EnQue(x);\n    x = in_.DeQue<int32_t>();\n", "")
    path.write_text(text)
    run([sys.executable, "-m", "pip", "install", "--no-build-isolation", "-q", "."], env, source)
    said = python(block("import numpy"), env, status=1)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "Muls(" in row)
    assert f"RuntimeError: my_custom_op_impl: my_custom_op.c:{line} " in said and "MTE2" in said
    path.write_text(
        (ROOT / "python/tests/ascend/packages/npu_ops/ascendc/my_custom_op.c").read_text()
    )
    shutil.rmtree(source / "build")
    shutil.rmtree(tmp_path / "site")
    run([sys.executable, "-m", "pip", "install", "--no-build-isolation", "-q", "."], env, source)
    assert python(block("import numpy"), env) == "Output: [30 40 50]"


# Outputs that are shorter than what the kernel writes. The package does not look; each call twice.
SHORT = """
import numpy as np
{imports}
def call(x, y):
    for _ in range(2):
        try:
            npu_ops.my_custom_op(10, 20, x, y)
            print("right" if (y == 10 * x + 20).all() else "wrong")
        except RuntimeError as error:
            print(error)
whole = np.zeros(4096, np.int32)
ones = np.ones(1500, np.int32)
call(ones, whole[:1500])
whole[:] = 0
call(ones, whole[100:103])
assert not whole[103:300].any()
call(ones, whole[1024:2048])
call(ones, np.zeros(0, np.int32))
call(ones[:8], ones[4:12])  # reads in the second call what the first one wrote
call(ones[::2].copy(), np.zeros(750, np.int32))
"""
OUTSIDE = "my_custom_op_impl: my_custom_op.c:{line} writes bytes {bytes}."


def told_of_short_outputs(line):
    def outside(count, *spans):
        text = " to ".join(map(str, spans)) + f" of 'int32[{count}]', which has {4 * count}"
        return 2 * [OUTSIDE.format(line=line, bytes=text)]

    return [
        "right", "right", *outside(3, 0, 4096), *outside(1024, 4096, 6000),
        *outside(0, 0, 4096), "wrong", "right", "right", "right",
    ]  # fmt: skip


@pytest.mark.exhaustive
@needs_cmake
def test_an_output_that_is_too_short_is_told_by_a_package_with_checks(tmp_path):
    env = home(tmp_path, "--checked")
    source = copied("npu_ops", tmp_path)
    path = source / "module" / "my_custom_op.cpp"
    looks = " || output->shape() != input->shape()"
    assert looks in path.read_text()
    path.write_text(path.read_text().replace(looks, ""))
    run([sys.executable, *PIP], env, source)
    text = (source / "ascendc" / "my_custom_op.c").read_text().splitlines()
    line = next(i for i, row in enumerate(text, 1) if "DataCopyPad(output_[at]" in row)
    said = python(SHORT.replace("{imports}", "import npu_ops"), env).splitlines()
    assert said == told_of_short_outputs(line)


@pytest.mark.exhaustive
@needs_cmake
def test_an_output_that_is_too_short_is_told_in_todays_form(tmp_path):
    env = home(tmp_path, "--checked")
    source = copied("npu_ops_api", tmp_path)
    path = source / "csrc" / "module" / "my_custom_op.cpp"
    assert "if (input.shape() != output.shape())" in path.read_text()
    path.write_text(path.read_text().replace("input.shape() != output.shape()", "false"))
    run([sys.executable, *PIP], env, source)
    text = (source / "csrc" / "ascendc" / "my_custom_op.c").read_text().splitlines()
    line = next(i for i, row in enumerate(text, 1) if "DataCopyPad(output_[at]" in row)
    said = python(SHORT.replace("{imports}", "from npu_ops_api import npu_ops"), env).splitlines()
    assert [row for row in said if "writes bytes" in row and f"my_custom_op.c:{line}" in row]
    assert said[:2] == ["right", "right"] and "'int32[3]', which has 12." in said[2]


OWN_MEMORY = """  std::vector<int32_t> own(1500);
    uint8_t *outputPtr = reinterpret_cast<uint8_t *>(own.data());
    int32_t *to = reinterpret_cast<int32_t *>(GetDataPtr(output));"""
COPIES = """MyCustomOpKernelEntry(2, nullptr, aclStream, inputPtr, outputPtr, param1, param2, size);
      std::copy(own.begin(), own.begin() + size, to);"""


@pytest.mark.exhaustive
@needs_cmake
def test_memory_of_a_package_itself_has_no_known_size_and_is_no_error(tmp_path):
    env = home(tmp_path, "--checked")
    source = copied("npu_ops", tmp_path)
    path = source / "module" / "my_custom_op.cpp"
    text = path.read_text()
    for old, new in (
        ("  uint8_t *outputPtr = GetDataPtr(output);", OWN_MEMORY),
        (COPIES.splitlines()[0], COPIES),
        ("DispatchLaunchTask([=]() {", "DispatchLaunchTask([&] {"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path.write_text("#include <algorithm>\n#include <vector>\n" + text)
    run([sys.executable, *PIP], env, source)
    program = SHORT.format(imports="import npu_ops").partition("whole[:] = 0")[0]
    assert python(program, env).splitlines() == ["right", "right"]


STARTS = f"""
import os
if "STARTS_FAR" in os.environ:
    import sys
    sys.path.append({str(ROOT / "python/tests/far")!r})
    import anyop, far_torch
    far_torch.start()
    anyop.load(far_torch.LIBRARY)
"""


LAUNCHES_NOTHING = """
void LaunchNothing() {
  auto stream = c10_npu::getCurrentNPUStream().stream();
  add_custom<<<0, nullptr, stream>>>(nullptr, nullptr, nullptr, 0, 1);
}
"""
# A launch returns before it runs, and what is wrong in it comes where the stream is waited for.
QUEUED = """
import far_torch
import torch
import torch_npu
import custom_pypto

x, z = torch.ones(8).npu(), torch.zeros(8).npu()
torch.accelerator.synchronize()
before = far_torch.counts().launches
with far_torch.held(torch.accelerator.current_stream()):
    torch.ops.custom_pypto.add_custom.out(x, x, out=z)
print(z.cpu()[7].item())
assert far_torch.counts().launches == before + 1
try:
    custom_pypto.custom_pypto_lib.launch_nothing()
    torch.accelerator.synchronize()
except RuntimeError as error:
    assert "add_custom: 0 blocks, but a launch has 1 to 65535." in str(error), error
    print("RuntimeError")
"""


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is missing")
@pytest.mark.parametrize("device", ["far", pytest.param("ascend", marks=pytest.mark.exhaustive)])
def test_a_torch_package_is_built_and_run_by_its_scripts(device, tmp_path):
    if device == "far" and not FAR.is_file():
        pytest.skip("the device for tests is not built")
    env = home(tmp_path)
    source = copied("custom_pypto", tmp_path)
    path = source / "csrc" / "add_custom.asc"
    path.write_text(path.read_text() + LAUNCHES_NOTHING)
    path = source / "csrc" / "ops_def_registration.cpp"
    text = path.read_text().replace("m) {}", 'm) { m.def("launch_nothing", &LaunchNothing); }')
    path.write_text(text.replace("TORCH_LIBRARY", "void LaunchNothing();\nTORCH_LIBRARY", 1))
    run(["./build_and_install.sh"], env, source)
    if device == "far":
        (tmp_path / "starts").mkdir()
        (tmp_path / "starts" / "sitecustomize.py").write_text(STARTS)
        env["PYTHONPATH"] = f"{tmp_path / 'starts'}:{env['PYTHONPATH']}"
        env["STARTS_FAR"] = "1"
    said = run(["./run.sh"], env, source)
    assert "Ran 4 tests" in said and "\nOK\n" in said
    if device == "far":
        assert python(QUEUED, env).splitlines() == ["2.0", "RuntimeError"]


EXTENSION = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension

setup(
    name="by_hand",
    version="1.0",
    ext_modules=[NpuExtension("by_hand", ["by_hand.cpp"], extra_compile_args=["-DANSWER=42"])],
    cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
)
"""
BY_HAND = """
#include <pybind11/pybind11.h>
#include "acl/acl.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

aclrtStream Current() { return c10_npu::getCurrentNPUStream().stream(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("answer", [] { return ANSWER + aclInit(nullptr) + aclrtSynchronizeStream(nullptr); });
  m.def("current", &Current);
}
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is missing")
def test_an_extension_as_torch_npu_describes_it(tmp_path):
    env = home(tmp_path)
    (tmp_path / "setup.py").write_text(EXTENSION)
    (tmp_path / "by_hand.cpp").write_text(BY_HAND)
    run([sys.executable, *PIP], env, tmp_path)
    assert python("import torch, by_hand; print(by_hand.answer())", env) == "42"


PROGRAM = """
#include <cstdio>
#include "acl/acl.h"
#include "aclrtlaunch_twice.h"

int main() {
  float host[100], *device = nullptr;
  aclrtStream stream = nullptr;
  for (int i = 0; i < 100; ++i) host[i] = i;
  if (aclInit(nullptr) || aclrtSetDevice(0) || aclrtCreateStream(&stream)) return 1;
  if (aclrtMalloc((void**)&device, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST)) return 2;
  if (aclrtMemcpy(device, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE)) return 3;
  if (ACLRT_LAUNCH_KERNEL(twice)(3, stream, device, 100, 1.5f)) return 4;
  if (aclrtSynchronizeStream(stream)) return 5;
  if (aclrtMemcpy(host, 4, device, 8, ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS) return 6;
  if (aclrtMemcpy(host, sizeof host, device, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST)) return 7;
  for (int i = 0; i < 100; ++i) {
    if (host[i] != 2 * i + 1.5f) return 8;
  }
  if (aclrtFree(device) || aclrtDestroyStream(stream) || aclFinalize()) return 9;
  std::puts("right");
}
"""
TWICE = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void twice(GM_ADDR x, int32_t n, float more) {
  AscendC::GlobalTensor<float> all;
  all.SetGlobalBuffer((__gm__ float*)x, n);
  for (int32_t i = AscendC::GetBlockIdx(); i < n; i += AscendC::GetBlockNum()) {
    all.SetValue(i, FACTOR * all.GetValue(i) + more);
  }
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(sample CXX)
include($ENV{ASCENDC_CMAKE_DIR}/ascendc.cmake)
ascendc_library(kernels KIND twice.cpp)
ascendc_compile_definitions(kernels PRIVATE -DFACTOR=TWO)
ascendc_include_directories(kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
ascendc_compile_options(kernels PRIVATE -include two.h)
add_executable(sample main.cpp)
target_link_libraries(sample PRIVATE kernels)
"""


@pytest.mark.slow
@needs_cmake
@pytest.mark.parametrize("kind", ["SHARED", pytest.param("STATIC", marks=pytest.mark.exhaustive)])
def test_a_program_that_launches_by_name(kind, tmp_path):
    env = home(tmp_path)
    (tmp_path / "include").mkdir()
    two = tmp_path / "include" / "two.h"
    two.write_text("#define TWO 2\n")
    for name, text in (("main.cpp", PROGRAM), ("twice.cpp", TWICE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("KIND", kind))
    run(["cmake", "-S", tmp_path, "-B", tmp_path / "out"], env)
    run(["cmake", "--build", tmp_path / "out"], env)
    assert run([tmp_path / "out" / "sample"], env) == "right\n"
    two.write_text("#define TWO 3\n")  # a header that changes is seen
    run(["cmake", "--build", tmp_path / "out"], env)
    run([tmp_path / "out" / "sample"], env, status=8)


def test_a_home_is_made_anew_but_never_over_files_of_others(tmp_path):
    env = home(tmp_path)
    again = home(tmp_path)
    assert again["ASCEND_HOME_PATH"] == env["ASCEND_HOME_PATH"]
    for name in ("bin/bisheng", "include/kernel_operator.h", "include/acl/acl.h", "set_env.sh"):
        assert Path(env["ASCEND_HOME_PATH"], name).exists(), name
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    command = [sys.executable, "-m", "anyop", "ascend", "home", tmp_path / "mine"]
    said = run(command, status=1)
    assert "has files that `anyop ascend home` has not made. Try a new folder." in said


def test_bisheng_says_what_is_wrong_where_it_stands(tmp_path):
    env = home(tmp_path)
    (tmp_path / "wrong.asc").write_text(
        '#include "kernel_operator.h"\n\nint f() { return nothing; }\n'
    )
    command = ["bisheng", "-x", "asc", "--npu-arch=dav-2201", "-c", "wrong.asc", "-o", "x.o"]
    said = run(["bash", "-c", " ".join(command)], env, tmp_path, status=1)
    assert "wrong.asc:3:" in said and "nothing" in said
    assert not (tmp_path / "x.o").exists()


def test_what_only_the_vendors_compilers_know_is_dropped():
    words = "-x asc --npu-arch=dav-2201 -O2 -std=c++17 -mllvm -cce-aicore-stack-size=0x8000"
    words += " --cce-aicore-lang -xcce -Iinclude -D TILE=8 -c k.asc -o k.o -lascendcl"
    given = wrapper.parsed(words.split())
    assert given.sources == [Path("k.asc")] and given.output == "k.o" and given.compiles
    assert given.flags == [
        "-O2", "-std=c++17", "-Iinclude", "-D", "TILE=8", "-c", "-lascendcl",
    ]  # fmt: skip
    assert not given.checked and wrapper.parsed([wrapper.CHECKED, "k.asc"]).checked


def test_mindspore_that_is_not_there_is_told(tmp_path):
    found = importlib.util.find_spec("mindspore")
    if found and found.origin:  # python/tests has a folder of that name
        pytest.skip("MindSpore is there")
    said = python("import mindspore; mindspore.Tensor", home(tmp_path), status=1)
    assert "mindspore.Tensor: MindSpore is not installed" in said
