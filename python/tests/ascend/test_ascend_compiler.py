# SPDX-License-Identifier: Apache-2.0
"""The vendor's compiler as an option. It is not to be had, so a stand-in takes its command line,
writes it down, and compiles for this machine; the runtime that it needs is a stub of the functions'
documented names. What is tested is anyop's part: the command line, the library, its kernels, their
launches.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from anyop._packages import data_root, tool
from anyop.ascend.build import include_folder, runtime_library

DEVICE = runtime_library().parent / "anyop_aicore_device.so"
pytestmark = pytest.mark.skipif(not DEVICE.exists(), reason="the device library is not built")

# Declared by hand, from the documentation of AscendCL.
ACL = """#pragma once
#include <stddef.h>
#include <stdint.h>
typedef int aclError;
typedef void* aclrtStream;
enum aclrtMemMallocPolicy { ACL_MEM_MALLOC_HUGE_FIRST };
enum aclrtMemcpyKind { ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE };
enum aclrtDevAttr { ACL_DEV_ATTR_VECTOR_CORE_NUM = 201 };
extern "C" {
aclError aclrtGetDevice(int32_t* device);
aclError aclrtGetDeviceInfo(uint32_t device, aclrtDevAttr attribute, int64_t* value);
aclError aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy policy);
aclError aclrtFree(void* memory);
aclError aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, aclrtMemcpyKind kind);
aclError aclrtSynchronizeStream(aclrtStream stream);
}
"""
# Of a chip whose memory is the host's and whose streams do their work at once. Each call is a line.
STUB = """
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "acl/acl.h"
namespace {
int number = 0;
int Told(const char* name) {
  if (const char* file = std::getenv("STUB_CALLS")) {
    FILE* to = std::fopen(file, "a");
    std::fprintf(to, "%s\\n", name);
    std::fclose(to);
  }
  const char* fails = std::getenv("STUB_FAILS");
  return fails && !std::strcmp(fails, name) ? 507899 : 0;
}
int Copied(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); return 0; }
}  // namespace
#define TOLD() if (int code = Told(__func__)) return code
extern "C" {
int aclInit(const char*) { TOLD(); return 0; }
const char* aclGetRecentErrMsg() { return "EE9999: the stub was told to fail.\\n"; }
int aclrtGetDeviceCount(uint32_t* count) { TOLD(); *count = 2; return 0; }
int aclrtSetDevice(int32_t device) { TOLD(); number = device; return device < 2 ? 0 : 107001; }
int aclrtGetDevice(int32_t* device) { *device = number; return 0; }
const char* aclrtGetSocName() { return "Ascend910Stub"; }
int aclrtGetDeviceInfo(uint32_t, aclrtDevAttr a, int64_t* value) {
  TOLD();
  *value = a == 201 ? 3 : 0;
  return 0;
}
int aclrtGetMemInfo(int, size_t* free, size_t* total) { *free = 1; *total = 2; return 0; }
int aclrtMalloc(void** memory, size_t bytes, aclrtMemMallocPolicy) {
  TOLD();
  *memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return 0;
}
int aclrtFree(void* memory) { TOLD(); std::free(memory); return 0; }
int aclrtMemcpy(void* to, size_t, const void* from, size_t n, aclrtMemcpyKind) {
  TOLD();
  return Copied(to, from, n);
}
int aclrtMemcpyAsync(void* to, size_t, const void* from, size_t n, int, aclrtStream) {
  TOLD();
  return Copied(to, from, n);
}
int aclrtCreateStream(aclrtStream* stream) { TOLD(); *stream = new int; return 0; }
int aclrtDestroyStream(aclrtStream) { TOLD(); return 0; }
int aclrtSynchronizeStream(aclrtStream stream) { TOLD(); return stream ? 0 : 107003; }
int aclrtSynchronizeDevice() { TOLD(); return 0; }
int aclrtCreateEvent(void** event) { TOLD(); *event = new int; return 0; }
int aclrtDestroyEvent(void*) { TOLD(); return 0; }
int aclrtRecordEvent(void*, aclrtStream) { TOLD(); return 0; }
int aclrtStreamWaitEvent(aclrtStream, void*) { TOLD(); return 0; }
int aclrtQueryEventStatus(void*, int* status) { TOLD(); *status = 1; return 0; }
int aclrtSynchronizeEvent(void*) { TOLD(); return 0; }
int aclrtEventElapsedTime(float* ms, void*, void*) { TOLD(); *ms = 0; return 0; }
}
"""
# Takes the documented command line alone, and says what it does not know.
BISHENG = """#!{python}
import json, re, subprocess, sys
words = sys.argv[1:]
with open("{log}", "a") as log:
    log.write(json.dumps(words) + "\\n")
if words == ["--version"]:
    sys.exit(print("clang version 15.0.5 (a stand-in)"))
known = re.compile("-std=c[+][+]20|-O3|-fPIC|-fvisibility=hidden|-[IDLl].+|-MD|-shared|-c"
                   "|--npu-arch=dav-2201|/.*")
given, rest, sources, out = [], list(words), [], ""
while rest:
    word = rest.pop(0)
    if word in ("-MF", "-MT"):
        given += [word, rest.pop(0)]
    elif word == "-o":
        out = rest.pop(0)
    elif word == "-x":
        assert rest.pop(0) == "asc"
    elif word == "-E":
        sys.exit(0)
    elif not known.fullmatch(word):
        sys.exit(f"bisheng: error: unknown argument '{{word}}'")
    elif word.endswith((".cpp", ".asc")):
        sources.append(word)
    elif not word.startswith("--npu-arch"):
        given.append(word)
def gxx(*more, **how):
    done = subprocess.run(["g++", *more], **how)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout
if "-shared" in words:
    sys.exit(gxx(*given, "{runtime}", "-Wl,-rpath,{folder}", "-o", out))
[source] = sources
text = gxx(*[w for w in given if w != "-c"], "-I{include}", "-x", "c++", "-w", "-E",
           "-DANYOP_ASCEND_CHECKED=0", "-iquote" + source.rpartition("/")[0], source,
           stdout=subprocess.PIPE, text=True)
text, launches = re.subn(r"(\\w+)<<<([^<>;]*)>>>\\(", r'anyop_ascend_start("\\1", \\1, \\2)(', text)
assert launches == 1, launches
gxx("-x", "c++", "-std=gnu++20", "-O1", "-fPIC", "-fvisibility=hidden", "-w", "-fpreprocessed", "-",
    "-c", "-o", out, input=text, text=True)
"""


def process(*command: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    folder = str(Path(sys.executable).parent)  # cmake and ninja of the same environment
    path = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(
        [str(word) for word in command], env={**os.environ, "PATH": path, **env}, cwd=cwd,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def anyop(*arguments: object, cwd: Path, status: int = 0, **env: str) -> str:
    done = process(sys.executable, "-m", "anyop", *arguments, cwd=cwd, **env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


class Toolkit:
    """A folder that looks like the vendor's: a compiler that is a stand-in, and a stub of the
    runtime.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "include" / "acl").mkdir(parents=True)
        (folder / "lib64").mkdir()
        (folder / "include" / "acl" / "acl.h").write_text(ACL)
        (folder / "stub.cc").write_text(STUB)
        library = folder / "lib64" / "libascendcl.so"
        done = process(
            "g++", "-shared", "-fPIC", "-w", f"-I{folder / 'include'}", folder / "stub.cc",
            "-o", library, cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        self.log = folder / "commands.txt"
        self.bisheng = folder / "bisheng"
        include = include_folder()
        self.bisheng.write_text(
            BISHENG.format(
                python=sys.executable, log=self.log, runtime=runtime_library(),
                folder=runtime_library().parent, include=include,
            )
        )  # fmt: skip
        self.bisheng.chmod(0o755)
        self.env = {
            "ASCEND_HOME_PATH": str(folder), "LD_LIBRARY_PATH": str(folder / "lib64"),
        }  # fmt: skip

    def commands(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


TILED = """#include "anyop/ascend.h"

struct Tiling {
  uint32_t n;
  float by;
};

extern "C" __global__ __aicore__ void tiled(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR data) {
  auto* tiling = (__gm__ Tiling*)data;
  AscendC::GlobalTensor<float> from, to, kept;
  from.SetGlobalBuffer((__gm__ float*)x, tiling->n);
  to.SetGlobalBuffer((__gm__ float*)y, tiling->n);
  kept.SetGlobalBuffer((__gm__ float*)workspace, tiling->n);
  for (uint32_t i = AscendC::GetBlockIdx(); i < tiling->n; i += AscendC::GetBlockNum()) {
    kept.SetValue(i, from.GetValue(i) * tiling->by);
    to.SetValue(i, kept.GetValue(i) + AscendC::GetBlockNum());
  }
}

void Run(const anyop::Context& ctx, const anyop::Tensor& x, double by, const anyop::Tensor& y) {
  const Tiling tiling{uint32_t(y.size()), float(by)};
  anyop::ascend::Launch(ctx, {.blocks = anyop::ascend::Blocks(100)}, tiled, x, y,
                        anyop::ascend::Workspace{}, tiling);
}

ANYOP_ASCEND_KERNEL(tiled){.workspace = "4 * size(x)",
                           .run = anyop::ascend::Bind<&Run>(),
                           .accepts = anyop::ascend::AreContiguous<&Run>()};
"""
TILED_OP = """#include "anyop/op.h"

namespace anyop::ops {

// Computes x * by and adds the number of blocks.
extern constinit const Op tiled{
    .signature = "tiled(x: f32[n], by: float) -> (y: f32[n])",
};

}  // namespace anyop::ops
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    return Toolkit(tmp_path_factory.mktemp("toolkit"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, toolkit: Toolkit) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    anyop("new", "chipped", cwd=folder)
    root = folder / "chipped"
    anyop("new", "--op", "gated", "--template", "ascend", cwd=root)
    (root / "ops" / "tiled").mkdir()
    (root / "ops" / "tiled" / "tiled.cc").write_text(TILED_OP)
    (root / "ops" / "tiled" / "ascend.asc").write_text(TILED)
    anyop("build", "--ascend-compiler", toolkit.bisheng, cwd=root, **toolkit.env)
    return root


def run(package: Path, toolkit: Toolkit, program: str, **env: str) -> str:
    before = "import sys; sys.path.insert(0, 'src')\nimport numpy as np, anyop\n"
    load = f"anyop.load({str(DEVICE)!r})\nimport chipped\n"
    done = process(
        sys.executable, "-c", before + load + program, cwd=package, **{**toolkit.env, **env}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_command_line_is_the_documented_one(package: Path, toolkit: Toolkit) -> None:
    compiled = [c for c in toolkit.commands() if "-c" in c]
    named = sorted(Path(c[c.index("asc") + 1]).name for c in compiled)
    assert named == ["ascend.asc", "ascend.cpp"]
    for command in compiled:
        assert command[command.index("-x") + 1] == "asc"
        assert {"-std=c++20", "-O3", "-fPIC", "--npu-arch=dav-2201"} <= set(command)
        assert "-DANYOP_ASCEND_CHIP=1" in command
        assert '-DANYOP_ASCEND_LIBRARY="chipped"' in command
        assert f"-I{toolkit.folder / 'include'}" in command
        # The dialect's kernel_operator.h must not be what the vendor's compiler finds.
        folders = [Path(w[2:]) for w in command if w.startswith("-I")]
        assert not [f for f in folders if (f / "kernel_operator.h").exists()]
        assert any((f / "anyop" / "ascend.h").exists() for f in folders)
    [linked] = [c for c in toolkit.commands() if "-shared" in c]
    assert linked[-2:] == [f"-L{toolkit.folder / 'lib64'}", "-lascendcl"]
    assert linked[linked.index("-o") + 1].endswith("/chipped.aicore.so")


def test_the_kernels_run_through_the_vendors_launch(package: Path, toolkit: Toolkit) -> None:
    assert (package / "build" / "anyop" / "lib" / "chipped.aicore.so").exists()
    calls = package / "calls.txt"
    told = run(
        package,
        toolkit,
        """
for dtype in (np.float32, np.float16):
    x = np.arange(15, dtype=dtype).reshape(3, 5)
    with anyop.policy("chipped.gated=aicore_bisheng"):
        assert (chipped.gated(x, x + 1, scale=2.0) == 2 * x * (x + 1)).all()
with anyop.policy("chipped.tiled=aicore_bisheng"):
    print(chipped.tiled(np.arange(4, dtype=np.float32), by=10.0))  # 3 cores, so 3 blocks
print([(c.kernel, c.device, c.calls) for c in anyop.counters()])
print([(d.device, d.model, d.cores) for d in anyop.devices()])
""",
        STUB_CALLS=str(calls),
    )
    assert told == (
        "[ 3. 13. 23. 33.]\n"
        "[('aicore_bisheng', 'aicore:0', 2), ('aicore_bisheng', 'aicore:0', 1)]\n"
        "[('aicore:0', 'Ascend910Stub', 3), ('aicore:1', 'Ascend910Stub', 3)]\n"
    )
    # Tiling data are in the chip's memory, which is freed when the launch is over.
    named = calls.read_text().split()
    at = named.index("aclrtMemcpy")
    assert named[at - 1 : at + 3] == [
        "aclrtMalloc", "aclrtMemcpy", "aclrtSynchronizeStream", "aclrtFree",
    ]  # fmt: skip
    assert named.count("aclrtMalloc") - named.count("aclrtFree") <= 8  # what the runtime keeps


def test_calls_are_checked_as_everywhere(package: Path, toolkit: Toolkit) -> None:
    told = run(
        package,
        toolkit,
        """
with anyop.policy("chipped.gated=aicore_bisheng"):
    try:
        chipped.gated(np.ones((2, 3), np.float32), np.ones((2, 4), np.float32))
    except ValueError as error:
        print(error)
print(anyop.explain("chipped.gated", np.ones(3, np.float32), np.ones(3, np.float32)))
""",
    )
    assert "gate" in told.splitlines()[0]
    assert "aicore_bisheng" in told and "ascend_host" not in told


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        ("aclrtMalloc", "out of memory: "),
        ("aclrtSynchronizeStream", "aclrtSynchronizeStream gives 507899: EE9999: the stub was"),
        ("aclrtMemcpyAsync", "aclrtMemcpyAsync gives 507899: EE9999: the stub was told to fail."),
    ],
)
def test_errors_of_the_runtime_are_told(
    fails: str, text: str, package: Path, toolkit: Toolkit
) -> None:
    program = """
try:
    with anyop.policy("chipped.gated=aicore_bisheng"):
        chipped.gated(np.ones(3, np.float32), np.ones(3, np.float32))
except (anyop.Error, MemoryError) as error:
    print(error)
"""
    told = run(package, toolkit, program, STUB_FAILS=fails)
    assert text in told and ".." not in told


def test_without_the_vendors_runtime_the_device_says_so(package: Path, toolkit: Toolkit) -> None:
    program = f"import anyop\nanyop.load({str(DEVICE)!r})\nprint(anyop.devices())\n"
    program += "from anyop import _anyop\nprint(_anyop.device_libraries())"
    done = process(sys.executable, "-c", program, cwd=package, LD_LIBRARY_PATH="")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[]\n") and "libascendcl.so cannot be loaded: " in done.stdout
    assert "Try sourcing set_env.sh" in done.stdout


@pytest.mark.exhaustive
def test_it_is_kept_until_it_is_turned_off(package: Path, toolkit: Toolkit) -> None:
    library = package / "build" / "anyop" / "lib" / "chipped.aicore.so"
    path = package / "ops" / "tiled" / "ascend.asc"
    before = len(toolkit.commands())
    text = path.read_text()
    path.write_text(text + "// newer\n")
    anyop("build", cwd=package, **toolkit.env)
    compiled = [c for c in toolkit.commands()[before:] if "-c" in c]
    assert [Path(c[c.index("asc") + 1]).name for c in compiled] == ["ascend.asc"]
    assert library.exists()
    path.write_text(text.replace("from.GetValue(i)", "nothing"))
    said = anyop("build", cwd=package, status=1, **toolkit.env)
    assert re.search(r"ascend\.asc:\d+:.*nothing", said) and "The build failed." in said
    path.write_text(text)
    anyop("build", "--ascend-compiler", "", cwd=package, **toolkit.env)
    assert not library.exists()
    anyop("build", "--ascend-compiler", toolkit.bisheng, cwd=package, **toolkit.env)
    assert library.exists()


TRY = (
    "Try the path of bisheng, which is in PATH once set_env.sh of the vendor's toolkit is sourced."
)


@pytest.mark.slow
def test_what_is_no_compiler_of_ascendc_is_refused(
    package: Path, toolkit: Toolkit, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("x")
    home = tmp_path / "home"
    anyop("ascend", "home", home, cwd=tmp_path)
    ours = home / "latest" / "bin" / "bisheng"
    refused = {
        str(tmp_path / "gone"): "but there is no such file.",
        str(text): "which is not executable, but must be a program.",
        str(tmp_path): "which is a folder, but must be a program.",
        "g++": "which does not know AscendC, as GCC and clang do not.",
        str(ours): "which `anyop ascend home` has made and which compiles for this machine, but "
        "chips need the vendor's.",
    }
    for given, why in refused.items():
        said = anyop("build", "--ascend-compiler", given, cwd=package, status=1, **toolkit.env)
        assert f"ANYOP_ASCEND_COMPILER is {given}, {why} {TRY}" in " ".join(said.split())
    # By CMake alone.
    command = ("cmake", "-S", ".", "-B", tmp_path / "out", "-DANYOP_ASCEND_COMPILER=/bin/g++")
    done = process(*command, f"-DPython3_EXECUTABLE={sys.executable}", cwd=package)
    assert done.returncode and "does not know AscendC" in " ".join(done.stderr.split())


def test_clang_is_told_by_what_it_says(tmp_path: Path) -> None:
    clang = tmp_path / "clang++"
    said = "clang: error: language not recognized: 'asc'"
    clang.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    clang.chmod(0o755)
    assert "does not know AscendC" in tool("ascend_compiler").refused(str(clang))
    clang.write_text("#!/bin/sh\nexit 0\n")
    assert tool("ascend_compiler").refused(str(clang)) == ""


ROOT = Path(__file__).resolve().parents[3]
OWN = sorted(path.parent.name for path in (ROOT / "ops").glob("*/ascend.cpp"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == "rms_norm" else pytest.mark.exhaustive) for n in OWN],
)
def test_anyops_own_kernels_compile_with_the_binding_for_chips(
    name: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    made = tmp_path / "made" / "anyop"
    made.mkdir(parents=True)
    for header in ("ascend.h", "ascend_chip.h"):
        shutil.copy(include_folder() / "anyop" / header, made)
    folders = (
        data_root() / "include", ROOT / "ops", ROOT, made.parent, toolkit.folder / "include",
    )  # fmt: skip
    done = process(
        toolkit.bisheng, "-std=c++20", "-O3", "-fPIC", "--npu-arch=dav-2201",
        "-DANYOP_ASCEND_CHIP=1", *(f"-I{folder}" for folder in folders), "-c", "-x", "asc",
        ROOT / "ops" / name / "ascend.cpp", "-o", tmp_path / "x.o", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
