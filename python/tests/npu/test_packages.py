# SPDX-License-Identifier: Apache-2.0
"""Packages of operators for torch_npu: they build by their own commands, and run on the virtual
NPU, in a build without checks and in one with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[1] / "ascend" / "packages"
PIP = ("-m", "pip", "install", "--no-build-isolation", "--no-deps", "--quiet", ".")
START = """
import torch, torch_npu, custom_ops
from torch.testing import assert_close
x, y = torch.randn(37, 300), torch.randn(37, 300)
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is missing"),
]


def run(*command: object, env: dict[str, str], folder: Path | None = None, status: int = 0) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env, cwd=folder)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


class Built:
    """The package custom_ops and its operators, as a user builds them."""

    def __init__(self, folder: Path, *options: str) -> None:
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("ASCEND", "PYTHONPATH"))}
        bare["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{bare['PATH']}"
        home = folder / "home"
        run(sys.executable, "-m", "anyop", "ascend", "home", *options, home, env=bare)
        listed = run("bash", "-c", f"source {home}/set_env.sh && env -0", env=bare)
        self.env = dict(row.split("=", 1) for row in listed.split("\0") if "=" in row)
        source = shutil.copytree(PACKAGES / "custom_ops", folder / "custom_ops")
        run("bash", source / "opp" / "build.sh", folder / "opp", env=self.env)
        site = folder / "site"
        run(sys.executable, *PIP, env=self.env | {"PIP_TARGET": str(site)}, folder=source)
        self.operators = folder / "opp" / "vendors" / "custom_ops"
        self.env |= {"PYTHONPATH": str(site), "ASCEND_CUSTOM_OPP_PATH": str(self.operators)}

    def python(self, code: str, status: int = 0, **variables: str) -> str:
        env = self.env | variables
        return run(sys.executable, "-W", "ignore", "-c", START + code, env=env, status=status)


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("fast"))


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("checked"), "--checked")


CALLS = """
a, b = x.npu().requires_grad_(), y.npu().requires_grad_()
assert_close(custom_ops.add_custom(x.npu(), y.npu(), alpha=2.0).cpu(), x + 2 * y)
assert_close(custom_ops.add_custom(x.npu().t(), y.npu().t()).cpu(), (x + y).t())
assert_close(custom_ops.scale(x.npu(), 3.0).cpu(), x * 3)
assert_close(custom_ops.shift(x.npu(), 3.0).cpu(), x + 3)
(custom_ops.add_custom(a, b, alpha=3.0) * y.npu()).sum().backward()
assert_close(a.grad.cpu(), y)
assert_close(b.grad.cpu(), 3 * y)
assert custom_ops.add_custom(x.to("meta"), y.to("meta")).shape == x.shape
model = lambda x, y: torch.relu(custom_ops.add_custom(x, y, alpha=0.5)) + y
made = torch.compile(model, backend="aot_eager", fullgraph=True)
assert_close(made(x.npu(), y.npu()).cpu(), torch.relu(x + 0.5 * y) + y)
torch.library.opcheck(
    torch.ops.custom_ops.add_custom.default, (a, b), {"alpha": 2.0},
    test_utils=("test_schema", "test_faketensor", "test_aot_dispatch_dynamic"),
)
"""
ORDER = """
stream = torch.npu.Stream()
stream.wait_stream(torch.npu.current_stream())
z = x.npu()
torch.npu.synchronize()
with torch.npu.stream(stream):
    for i in range(50):
        z = custom_ops.shift(custom_ops.scale(z, 1.0), 1.0)
        z = custom_ops.add_custom(z, z, alpha=0.0) - 1
torch.npu.current_stream().wait_stream(stream)
assert_close((z * 2).cpu(), x * 2, atol=1e-4, rtol=1e-4)
"""


def test_calls_gradients_shapes_and_compiled_models(fast: Built) -> None:
    fast.python(CALLS)


def test_kernels_run_in_the_order_of_their_stream(fast: Built) -> None:
    fast.python(ORDER, ANYOP_NPU="delay")


def test_checked_kernels_give_the_same(checked: Built) -> None:
    checked.python(CALLS + ORDER)


def test_a_checked_kernel_that_leaves_its_memory_is_an_error_of_synchronize(checked: Built) -> None:
    code = """
there = x.npu()
z = custom_ops.shift(there, 1.0, 11200)
try:
    torch.npu.synchronize()
except RuntimeError as error:
    print("raised:", error)
assert_close(custom_ops.shift(x.npu(), 3.0).cpu(), x + 3)
"""
    # Each tensor is an allocation of its own, so that its own end is known.
    said = checked.python(code, PYTORCH_NO_NPU_MEMORY_CACHING="1")
    text = "virtual NPU: shift_custom: gm-out-of-bounds: rows.hpp:24 reads bytes 40960 to 44800 of "
    assert f"{text}'pointer 1', which has 44432." in said[said.index("raised:") :]


def test_functions_that_refuse_their_arguments_are_errors(fast: Built) -> None:
    said = fast.python("custom_ops.add_custom(x.npu(), y[:3].npu())", 1)
    assert "aclnnAddCustom" in said and "161001" in said


def test_functions_that_are_not_found_are_named(fast: Built) -> None:
    code = "custom_ops.add_custom(x.npu(), y.npu())"
    said = fast.python(code, 1, ASCEND_CUSTOM_OPP_PATH="")
    assert "aclnnAddCustom or aclnnAddCustomGetWorkspaceSize not in" in said


def test_programs_for_a_chip_are_refused_with_the_way_out(fast: Built) -> None:
    said = fast.python("custom_ops.custom_ops_lib.load_binary('add.o')", 1)
    assert (
        'custom_ops: virtual NPU: aclrtBinaryLoadFromFile("add.o"): this is a program for an '
        "NPU's own processor, which the virtual NPU is not. Compile the kernel's AscendC source "
        "for this machine, with the folder that `anyop ascend home` makes." in said
    )


def test_a_library_of_operators_for_a_chip_is_refused_when_torch_npu_is_imported(
    fast: Built, tmp_path: Path
) -> None:
    folder = tmp_path / "op_api" / "lib"
    folder.mkdir(parents=True)
    made, source = folder / "libcust_opapi.so", tmp_path / "chip.c"
    source.write_text("int NnopbaseRun(void); int aclnnX(void) { return NnopbaseRun(); }\n")
    run("gcc", "-shared", "-fPIC", source, "-o", made, env=fast.env)
    said = fast.python("", 1, ASCEND_CUSTOM_OPP_PATH=str(tmp_path))
    assert f"anyop.npu: {made} cannot be loaded: " in said
    assert "undefined symbol: NnopbaseRun" in said
    assert "It was built for an NPU, of which the virtual one has no such function." in said


def test_a_package_for_a_chip_says_so_when_it_is_imported(fast: Built, tmp_path: Path) -> None:
    source, made = tmp_path / "chip.c", tmp_path / "chip_ops.so"
    source.write_text("int rtKernelLaunchX(void); int PyInit_chip_ops(void) "
                      "{ return rtKernelLaunchX(); }\n")  # fmt: skip
    run("gcc", "-shared", "-fPIC", "-Wl,-z,now", source, "-o", made, env=fast.env)
    said = fast.python(f"import sys; sys.path.append({str(tmp_path)!r}); import chip_ops", 1)
    assert "undefined symbol: rtKernelLaunchX" in said
    assert f"anyop.npu: {made} cannot be loaded: " in said


@pytest.mark.exhaustive
def test_a_package_of_asc_files_passes_its_own_tests(fast: Built, tmp_path: Path) -> None:
    source = shutil.copytree(PACKAGES / "custom_pypto", tmp_path / "custom_pypto")
    env = fast.env | {"PYTHONPATH": str(tmp_path / "site")}
    run(sys.executable, *PIP, env=env | {"PIP_TARGET": str(tmp_path / "site")}, folder=source)
    assert "OK" in run(sys.executable, "tests/test_add_custom.py", env=env, folder=source)
