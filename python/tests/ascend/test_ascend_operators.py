# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernels are written in AscendC: a package made by `anyop new --template ascend`,
from NumPy and torch, on the virtual NPU and by copies; and what a mistake in a kernel looks like.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import anyop
import pytest
from anyop._packages import device_library

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "ascend.md"
of_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def process(*arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    bin_folder = str(Path(sys.executable).parent)  # cmake and ninja of the same environment
    path = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(
        [sys.executable, *arguments], env={**os.environ, "PATH": path, **env}, cwd=cwd,
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def command(*arguments: str, cwd: Path) -> str:
    done = process("-m", "anyop", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its operator `gated` has a kernel in AscendC and none for the CPU."""
    folder = tmp_path_factory.mktemp("packages")
    command("new", "npu_scaled", cwd=folder)
    root = folder / "npu_scaled"
    command("new", "--op", "gated", "--template", "ascend", cwd=root)
    for path in sorted((root / "ops" / "scale").iterdir()):
        path.unlink()
    (root / "ops" / "scale").rmdir()
    command("build", cwd=root)
    return root


def run(package: Path, program: str, **env: str) -> str:
    before = "import sys; sys.path.insert(0, 'src')\nimport numpy as np, anyop, anyop.ascend\n"
    done = process("-c", before + program, cwd=package, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_calls_on_the_cpu_say_how_to_get_there(package: Path) -> None:
    told = run(
        package,
        """
import npu_scaled
x = np.ones((3, 5), np.float16)
for load in (False, True):
    if load:
        anyop.ascend.load()
    try:
        npu_scaled.gated(x, x)
    except anyop.Unsupported as error:
        print(error)
""",
    )
    assert told == (
        "npu_scaled.gated: no kernel takes this call: there is none. Try loading the library of "
        "the device that its kernels are for.\n"
        "npu_scaled.gated: no kernel takes this call:\n"
        "  ascend_host: declined: for device ascend\n"
        "  ascend_checked: declined: for device ascend\n"
        'Try the policy "npu_scaled.gated=ascend_host", which runs it on ascend:0, on copies.\n'
    )


def test_numpy_arrays_reach_the_kernel_by_copies_that_are_counted(package: Path) -> None:
    told = run(
        package,
        """
import npu_scaled
anyop.ascend.load()
x = np.arange(15, dtype=np.float32).reshape(3, 5)
for kernel in ("ascend_host", "ascend_checked"):
    with anyop.policy(f"npu_scaled.gated={kernel}"):
        # Strides, and a result that the caller gives.
        assert np.array_equal(npu_scaled.gated(x[:, ::2], x[:, 1::2][:, [0, 1, 1]], 2.0),
                              2 * x[:, ::2] * x[:, 1::2][:, [0, 1, 1]])
        assert "runs on ascend:0, on copies" in str(anyop.explain("npu_scaled.gated", x, x))
print([(c.kernel, c.device, c.calls, c.copies) for c in anyop.counters()])
""",
    )
    assert told == "[('ascend_host', 'ascend:0', 1, 3), ('ascend_checked', 'ascend:0', 1, 3)]\n"


@pytest.mark.parametrize("device_first", [False, True])
def test_the_kernels_come_with_whichever_is_loaded_second(
    package: Path, device_first: bool
) -> None:
    library = package / "build" / "anyop" / "lib" / "npu_scaled.so"
    files = [str(device_library()), str(library)]
    told = run(
        package,
        "print([k['name'] for k in anyop.info('npu_scaled.gated')['kernels']])",
        ANYOP_LOAD=":".join(files if device_first else files[::-1]),
    )
    assert told == "['ascend_host', 'ascend_checked']\n"


@of_torch
def test_torch_has_the_kernel_for_its_cpu_and_npu_tensors(package: Path) -> None:
    run(
        package,
        """
import torch
anyop.ascend.start_torch()
import npu_scaled
x = torch.randn(7, 33, dtype=torch.bfloat16)
want = (3 * x.float() * x.float()).bfloat16()
there = x.to("ascend")
assert torch.equal(npu_scaled.gated(there, there, 3.0).cpu(), want)
with anyop.policy("npu_scaled.gated=ascend_checked"):
    assert torch.equal(npu_scaled.gated(x, x, 3.0), want)
    assert torch.equal(npu_scaled.gated(there, there, 3.0).cpu(), want)
made = torch.compile(lambda t: npu_scaled.gated(t, t, 3.0), backend="aot_eager", fullgraph=True)
assert torch.equal(made(there).cpu(), want)
rows = sorted((c.kernel, c.device, c.calls, c.copies) for c in anyop.counters()
              if c.op == "npu_scaled.gated")
assert rows == [("ascend_checked", "ascend:0", 2, 2), ("ascend_host", "ascend:0", 2, 0)], rows
""",
    )


def test_built_in_operators_have_kernels_of_the_device() -> None:
    program = """
import numpy as np, anyop, anyop.ascend
x = np.linspace(-3, 3, 64, dtype=np.float16).reshape(2, 32)
want = anyop.silu_and_mul(x)
anyop.ascend.load()
with anyop.policy("silu_and_mul=ascend_checked"):
    assert np.abs(anyop.silu_and_mul(x) - want).max() <= 2e-3
assert anyop.counters()[-1].kernel == "ascend_checked", anyop.counters()
"""
    done = process("-c", program, cwd=Path())
    assert done.returncode == 0, done.stderr


# The values stay right: only the checked kernel can know.
@pytest.mark.exhaustive
def test_anyop_test_finds_an_order_that_is_missing(package: Path) -> None:
    kernel = package / "ops" / "gated" / "ascend.cpp"
    right = kernel.read_text()
    wrong = right.replace("    out_.EnQue(y);\n", "    kept_ = y;\n")
    taken = "LocalTensor<T> y = out_.template DeQue<T>();"
    wrong = wrong.replace(taken, "LocalTensor<T> y = kept_;")
    wrong = wrong.replace("  TPipe pipe_;", "  LocalTensor<T> kept_;\n  TPipe pipe_;")
    assert len(wrong) != len(right)
    kernel.write_text(wrong)
    try:
        done = process("-m", "anyop", "test", "gated", cwd=package)
    finally:
        kernel.write_text(right)
    assert done.returncode == 1
    assert "FAILED gated.RunsOnDevices" in done.stdout
    line = 1 + wrong[: wrong.index("DataCopyPad(y_[begin]")].count("\n")
    assert f"race: ascend.cpp:{line} reads UB" in done.stdout, done.stdout
    assert "Insert SetFlag<HardEvent::V_MTE3>(id)" in done.stdout
    [said] = re.findall(r"npu_scaled\.gated: race: .*? before ascend\.cpp:\d+\.", done.stdout)
    assert said.replace("npu_scaled", "my_npu_ops") in " ".join(DOCUMENT.read_text().split())


# One element of x; a negative index asks for none. What differs is which types the kernel takes.
PICKED = """// SPDX-License-Identifier: Apache-2.0
// NAME: one element of a tensor.
//
//   y = x[index]
#include "anyop/op.h"

namespace anyop::ops {

extern constinit const Op NAME{
    .signature = "NAME(x: T[v], index: i32[1] below v) -> (y: T[1]) where T in f16 | f32",
};

}  // namespace anyop::ops
"""
PICKED_REFERENCE = """// SPDX-License-Identifier: Apache-2.0
#include "anyop/op.h"

namespace anyop::ops {
namespace {

void Run(const Context&, const Tensor& x, const Tensor& index, const Tensor& y) {
  const std::int64_t at = ReadIndex(index, 0);
  *y.base<double>() = at < 0 ? 0 : Read(x, at);
}

}  // namespace

extern constinit const Reference NAME_reference{.op = "NAME", .run = Bind<&Run>()};

}  // namespace anyop::ops
"""
PICKED_KERNEL = """// SPDX-License-Identifier: Apache-2.0
#include "anyop/ascend.h"

namespace {

template <class T>
__global__ __aicore__ void pick(GM_ADDR x, GM_ADDR index, GM_ADDR y) {
  AscendC::GlobalTensor<T> from, to;
  AscendC::GlobalTensor<int32_t> at;
  from.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
  to.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
  at.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(index));
  const int32_t k = at.GetValue(0);
  to.SetValue(0, k < 0 ? T(0) : from.GetValue(k));
  AscendC::DataCacheCleanAndInvalid<T, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                    AscendC::DcciDst::CACHELINE_OUT>(to);
}

void Run(const anyop::Context& ctx, const anyop::Tensor& x, const anyop::Tensor& index,
         const anyop::Tensor& y) {
  const auto kernel = x.type() == anyop::DType::kF16 ? pick<half> : pick<float>;
  anyop::ascend::Launch(ctx, {.blocks = 1}, kernel, x, index, y);
}

}  // namespace

ANYOP_ASCEND_KERNEL(NAME){WHEN.run = anyop::ascend::Bind<&Run>(),
                          .accepts = anyop::ascend::AreContiguous<&Run>()};
"""


def test_what_only_devices_run_is_tested_there(package: Path) -> None:
    """Wrong indices are refused there, a kernel must take what the signature promises, and no test
    of the host says that it is passed.
    """
    for name, when in (("picked", ""), ("picked_f16", '.when = "T == f16", ')):
        folder = package / "ops" / name
        folder.mkdir()
        texts = ((f"{name}.cc", PICKED), ("reference.cc", PICKED_REFERENCE))
        for file, text in (*texts, ("ascend.cpp", PICKED_KERNEL)):
            (folder / file).write_text(text.replace("NAME", name).replace("WHEN", when))
    done = process("-m", "anyop", "test", "picked", "picked_f16", cwd=package)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.findall(r"^(ok|FAILED) +(picked\S*)", done.stdout, re.M) == [
        ("ok", "picked.RefusesWrongCallsAndWritesNothing"),
        ("ok", "picked.RunsOnDevices"),
        ("ok", "picked_f16.RefusesWrongCallsAndWritesNothing"),
        ("FAILED", "picked_f16.RunsOnDevices"),
    ], done.stdout
    assert "the signature promises this call, but no kernel takes it on ascend:0" in done.stdout


def test_a_launch_in_angle_brackets_is_refused_by_the_build(package: Path) -> None:
    kernel = package / "ops" / "gated" / "ascend.cpp"
    right = kernel.read_text()
    launched = 'extern "C" void go() { my_kernel<<<8, nullptr, nullptr>>>(); }\n'
    kernel.write_text(right + launched)
    try:
        done = process("-m", "anyop", "build", cwd=package)
    finally:
        kernel.write_text(right)
    assert done.returncode != 0
    line = right.count("\n") + 1
    assert f"ascend.cpp:{line}:33: kernels of operators are launched by" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x, gate, y, scale)", "Launch gets fewer arguments than its kernel has parameters"),
        ("x, gate, y, scale, size, 1)", "Launch gets more arguments than its kernel has "),
        ("x, gate, 1, scale, size)", "a number is given where the kernel takes a pointer: give a "),
    ],
)
def test_a_launch_that_does_not_fit_its_kernel_is_told(
    given: str, told: str, package: Path
) -> None:
    kernel = package / "ops" / "gated" / "ascend.cpp"
    right = kernel.read_text()
    assert "kernel, x, gate, y, scale, size)" in right
    kernel.write_text(right.replace("kernel, x, gate, y, scale, size)", f"kernel, {given}"))
    try:
        done = process("-m", "anyop", "build", cwd=package)
    finally:
        kernel.write_text(right)
    assert done.returncode != 0 and told in done.stdout
    line = 1 + right[: right.index("kernel, x, gate, y")].count("\n")
    assert f"ops/gated/ascend.cpp:{line}:" in done.stdout


def test_the_file_of_an_operator_can_be_checked_alone(package: Path) -> None:
    told = command(
        "ascend", "check", "ops/gated/ascend.cpp", "--kernel", "gated<half>", "--blocks", "3",
        "--arg", "x=f16[9001]", "--arg", "gate=f16[9001]", "--arg", "y=out f16[9001]",
        "--arg", "scale=2", "--arg", "size=9001", cwd=package,
    )  # fmt: skip
    assert "0 errors" in told


def test_config_names_what_such_a_build_needs(package: Path) -> None:
    folder = Path(command("config", "--ascenddir", cwd=package).strip())
    assert (folder / "include" / "kernel_operator.h").exists()
    assert Path(command("config", "--ascendlib", cwd=package).strip()).exists()
    assert anyop.__version__


def test_data_are_looked_at_whatever_is_trusted_of_devices() -> None:
    program = """
import numpy as np, anyop, anyop.ascend
anyop.ascend.load()
key, cache = np.ones((1, 1, 8), np.float16), np.zeros((2, 2, 1, 8), np.float16)
for kernel in ("ascend_host", "ascend_checked"):
    with anyop.policy(f"reshape_and_cache={kernel}"), anyop.data_checks("trusted"):
        try:
            anyop.reshape_and_cache(key, None, cache, None, np.array([500000]))
        except ValueError as error:
            print(error)
assert not cache.any()
"""
    done = process("-c", program, cwd=Path())
    assert done.returncode == 0, done.stderr
    said = "reshape_and_cache: slot_mapping[0] is 500000, but must be less than 4 (nb*bs"
    assert [line.startswith(said) for line in done.stdout.splitlines()] == [True, True]


def test_a_kernel_of_a_device_that_is_not_loaded_is_told() -> None:
    done = process("-c", "import anyop\nwith anyop.policy('rms_norm=ascend_host'): 0", cwd=Path())
    assert "No library of a device 'ascend' is loaded. Try loading it first" in done.stderr


def test_kernels_that_cannot_be_loaded_keep_no_others_out(package: Path, tmp_path: Path) -> None:
    built = package / "build" / "anyop" / "lib"
    for file in built.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "npu_scaled.ascend.so").write_bytes(b"junk")
    told = run(
        package,
        f"""
anyop.load({str(tmp_path / "npu_scaled.so")!r})
for _ in range(2):
    try:
        anyop.ascend.load()
    except anyop.NotAvailable as error:
        print("npu_scaled.ascend.so" in str(error))
print([k["name"] for k in anyop.info("npu_scaled.gated")["kernels"]])
print("ascend_host" in [k["name"] for k in anyop.info("rms_norm")["kernels"]])
""",
    )
    assert told == "True\nTrue\n['ascend_checked']\nTrue\n"


LAUNCH = """
#include "anyop/ascend.h"
#include <cstdio>
struct Own { uint32_t n; float by; };
struct Short { uint32_t n; };
struct Alike { float by; uint32_t n; };
__global__ __aicore__ void k(GM_ADDR, const Own*, uint32_t) {}
[[gnu::section("anyop_ascend_listed"), gnu::used]] static const void* const none = nullptr;
int main(int, char** words) {
  const anyop::Context ctx{};
  const GIVEN tiling{};
  try {
    const anyop::ascend::Workspace x;
    anyop::ascend::Launch(ctx, {}, &k, x, tiling, int64_t(std::stoll(words[1])));
    anyop::ascend::Count(std::stoll(words[2]));
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
"""


def built_launch(folder: Path, given: str) -> tuple[str, Path]:
    """What the compiler says to a launch with a struct of this type, and the program."""
    source, program = folder / "launch.cc", folder / "launch"
    source.write_text(LAUNCH.replace("GIVEN", given))
    package = Path(anyop.__file__).parent
    include = [f"-I{package / 'include'}", f"-I{package / 'ascend' / 'include'}"]
    command = [os.environ.get("CXX", "g++"), "-std=gnu++20", "-w", *include, str(source)]
    command += [f"-L{package}", "-lanyop_ascend", "-lanyop", f"-Wl,-rpath,{package}"]
    done = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, check=False
    )
    return done.stderr, program


def test_a_launch_with_another_struct_does_not_compile(tmp_path: Path) -> None:
    said, _ = built_launch(tmp_path, "Short")
    assert "the struct of the launch has another size than the kernel's" in said
    assert "(8 == 4)" in said
    said, _ = built_launch(tmp_path, "Alike")
    assert "the struct of the launch is another one than the kernel's" in said


def test_sizes_that_a_kernel_cannot_count_are_refused(tmp_path: Path) -> None:
    said, program = built_launch(tmp_path, "Own")
    assert program.exists(), said
    for passed, size, error in (
        (2**32 - 1, 0xFFFF0000, ""),
        (2**32, 1, "a launch passes 4294967296, but the kernel's parameter has 32 bits."),
        (-1, 1, "a launch passes -1, but the kernel's parameter has 32 bits."),
        (1, 2**32, "a size of 4294967296, but the kernel counts up to 4294901760."),
        (1, -1, "a size of -1, but the kernel counts up to 4294901760."),
    ):
        words = [str(program), str(passed), str(size)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == error


# A product of two sizes does not fit 32 bits where a tensor has more than 2^32 elements, which no
# test can have in memory: what is read here is that none is made.
def test_kernels_multiply_sizes_in_64_bits() -> None:
    size = r"(?:t_\.|tiling->|tiling\.)(?:tokens|rows?|heads|width|d|n|k|r|w|experts|table_width)\b"
    product = re.compile(rf"{size} \* {size}")
    files = sorted((Path(__file__).resolve().parents[3] / "ops").glob("*/ascend.cpp"))
    assert len(files) >= 8
    for file in files:
        for i, line in enumerate(file.read_text().splitlines(), 1):
            assert not product.search(line), f"{file.name}:{i}: {line.strip()}"


# Two rows in one slot are legal: the last one stays, as a whole, and no two blocks are in a race.
SLOTS = """
import anyop, anyop.ascend
import numpy as np
anyop.ascend.load()
rng = np.random.default_rng(5)
for kernel in ("ascend_checked", "ascend_host"):
    for tokens, slots in ((7, 1), (60, 5), (60, 48), (1100, 16), (1100, 1100)):
        key = rng.integers(-128, 128, (tokens, 2, 100), np.int8)
        at = rng.integers(-1, slots, tokens).astype(np.int64)
        cache = np.full((1, slots, 2, 100), 7, np.int8)
        expected = cache.copy()
        for token, slot in enumerate(at):
            if slot >= 0:
                expected[0, slot] = key[token]
        with anyop.policy(f"reshape_and_cache={kernel}"):
            anyop.reshape_and_cache(key, None, cache, None, at)
        assert (cache == expected).all(), (kernel, tokens, slots)
print("ok")
"""


def test_of_two_rows_in_one_slot_the_last_one_stays(tmp_path: Path) -> None:
    done = process("-c", SLOTS, cwd=tmp_path)
    assert done.stdout.strip() == "ok", done.stdout + done.stderr
