# SPDX-License-Identifier: Apache-2.0
"""The builds of ./check beside the plain one: with sanitizers, and for another processor."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import prepare
from checking import ALL, Tally, ctest, pytest
from prepare import BUILD, PYTHON, ROOT, StepFailed, run

SAVED_MODEL = ROOT / "build" / "smollm2.anyop"  # where the examples' tests leave it
SAMPLES = ROOT / "ops" / "samples.txt"
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
ADDRESS_SANITIZER = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",  # else it prints, and nothing fails
}


def operators(sample: str, tier: int) -> str:
    """Which operators CMake builds: those of a line of SAMPLES, with --all every one."""
    if tier == ALL:
        return "-DANYOP_OPERATORS="
    (line,) = re.findall(rf"^{sample}: (.*)$", SAMPLES.read_text(encoding="utf-8"), re.M)
    return f"-DANYOP_OPERATORS={';'.join(line.split())}"


def sanitizers(tally: Tally, tier: int) -> None:
    plans = [
        ("address,undefined", "asan", ["all"], ".*", ADDRESS_SANITIZER),
        # Kernels share nothing but their chunks: the thread sanitizer is for the runtime, and the
        # model runs with the operators of the plain build.
        (
            "thread",
            "tsan",
            ["runtime_tests", "anyop_run"],
            "platform|runtime|graph|hosting|devices",
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
            operators("sanitized", tier),
        ]  # fmt: skip
        try:
            run(f"configure ({name})", configure)
            run(f"build ({name})", ["cmake", "--build", build, "--target", *targets])
        except StepFailed as failure:
            tally.fail(name, failure)
            continue
        # The largest calls take ten times as long here and lead into no other code.
        quick = {} if tier == ALL else {"OPTEST_LARGE": "none"}
        ctest(tally, f"C++ tests ({sanitizer})", build, "-L", labels, env={**env, **quick})
        # Its operators are those of the plain build where not all are sanitized.
        plain = {"ANYOP_LIBRARY": str(BUILD / "lib" / "anyop_ops.so")}
        saved_model(tally, sanitizer, build, env if tier == ALL else {**env, **plain})
        if name == "asan":
            sanitized_python(tally, build, tier)


def sanitized_python(tally: Tally, build: Path, tier: int) -> None:
    """Python's tests of its host, with the libraries and the extension of a sanitized build."""
    env = {
        "LD_PRELOAD": (build / "ld_preload").read_text(),
        "PYTHONPATH": str(build / "package"),
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees Python's objects
        **ADDRESS_SANITIZER,
    }
    tests = [ROOT / "python" / "tests" / f"test_{name}.py" for name in SANITIZED_TESTS]
    # These ask for the system's malloc, or measure time and memory, of which the sanitizer keeps
    # what was freed; it does not follow threads that Python unwinds. The decoder has operators that
    # the sample lacks.
    others = (
        "not memory_does_not_grow and not where_it_lies and not while_python_ends "
        "and not many_operators_cost"
    ) + ("" if tier == ALL else " and not a_decoder_keeps_its_order")
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
        operators("emulated", tier),
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
    ctest(tally, "C++ tests (aarch64)", build, "-L", labels, env={"OPTEST_LARGE": "none"})
