# SPDX-License-Identifier: Apache-2.0
"""The author's loop: new, build, test, change, build again; and operators from a text."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import anyop
import numpy as np
import pytest
from anyop import testing
from anyop._packages import BUILT, data_root, library_file, tool
from anyop._source_check import check_sources
from anyop.cli import app
from anyop.cli.new_operator import TEMPLATES
from click.testing import CliRunner, Result

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INLINE = """
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto from = x.row<const float>(r);
    for (std::size_t i = 0; i < from.size(); ++i) y.row<float>(r)[i] = from[i] * FACTOR;
  });
}
constexpr Kernel kF32{.name = "cpu_f32", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};
}  // namespace
extern constinit const Op times{
    .signature = "times(x: f32[..., d]) -> (y: f32[..., d] over x)",
    .kernels = kKernels,
};
}  // namespace anyop::ops
"""


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args, terminal_width=200)


def in_process(folder: Path, *command: str, status: int = 0, **env: str) -> str:
    """The output of a command in a folder, from a process of its own."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env={**os.environ, **env}, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == status, done.stdout
    return done.stdout


WITHOUT_GRADIENT = ("ascend", "attention")


# By default; the others take as long to compile as all of these.
USUAL = ("elementwise", "matmul", "reduction")


def built_package(folder: Path, templates: Sequence[str]) -> Path:
    """With an operator of each template."""
    assert run("new", "walk_ops", "--dir", str(folder)).exit_code == 0
    for template in templates:
        more = [] if template in WITHOUT_GRADIENT else ["--gradient"]
        words = ["--op", f"my_{template}", "--template", template, "--dir", str(folder)]
        made = run("new", *words, *more)
        assert made.exit_code == 0, made.output
    built = in_process(folder, "-m", "anyop", "build")
    for template in templates:
        assert f"compiling ops/my_{template}/my_{template}.cc\n" in built
    assert re.search(r"^Built build/anyop/lib/walk_ops.so \(\d+\.\d s\)\.$", built, re.M)
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_package(tmp_path_factory.mktemp("author") / "walk_ops", USUAL)


def assert_tests_pass(package: Path, templates: Sequence[str]) -> None:
    output = in_process(package, "-m", "anyop", "test")
    for template in templates:
        assert f"ok     my_{template}.MatchesItsReference" in output
    assert "ok     my_matmul.HasTheGradientOfDifferences" in output
    assert re.search(r"walk_ops.my_matmul cpu_portable: \d\d", output)
    if "fma" in Path("/proc/cpuinfo").read_text().split():  # cpu.cc is compiled for its vectors
        assert re.search(r"walk_ops.my_matmul cpu_avx(2|512): \d\d", output)
    assert re.search(r"^\d+ passed, 0 failed$", output, re.M)


def test_templates_pass_their_generated_tests(package: Path) -> None:
    assert_tests_pass(package, USUAL)


@pytest.mark.exhaustive
def test_every_template_passes_its_generated_tests(tmp_path: Path) -> None:
    assert_tests_pass(built_package(tmp_path / "walk_ops", TEMPLATES), TEMPLATES)


def test_pytest_finds_the_generated_tests(package: Path) -> None:
    """With nothing installed: tests import the package from its source tree."""
    output = in_process(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "scale")
    assert re.search(r"^\d+ passed", output, re.M)
    listed = in_process(package, "-m", "pytest", "-q", "--collect-only", "-k", "generated")
    assert "test_operator[scale.MatchesItsReference]" in listed
    assert "test_operator[my_reduction_backward.RefusesWrongCallsAndWritesNothing]" in listed


DEFECTS = {
    "scale.MatchesItsReference": ("float(xr[i]) * factor", "float(xr[i]) * factor + 1e-3f"),
    "scale.DoesNotDependOnThreads": (
        "yr[i] = T(float(xr[i]) * factor);",
        "yr[i] = T(float(xr[i]) * factor * (ctx.threads == 1 ? 1 : 1.0000002f));",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("test", DEFECTS)
def test_a_defect_fails_its_test_and_names_the_call(package: Path, test: str) -> None:
    path = package / "ops" / "scale" / "scale.cc"
    right = path.read_text()
    before, after = DEFECTS[test]
    path.write_text(right.replace(before, after))
    try:
        output = in_process(package, "-m", "anyop", "test", test, status=1)
    finally:
        path.write_text(right)
    assert f"FAILED {test}" in output
    assert re.search(r"run this call alone with --call=\d+", output)
    assert "GoogleTest" not in output
    assert ".cc:" not in output.partition("FAILED")[2]


def test_the_program_of_the_tests_is_built_on_first_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From what the package carries; a compiler is all that it needs."""
    monkeypatch.setenv("ANYOP_CACHE", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(anyop.NotAvailable) as caught:
        testing.program()
    assert str(caught.value) == (
        "anyop-optest: this program, which tests operators, cannot be built: CXX is "
        "no-such-compiler, which is not there to build with. Try installing g++."
    )
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\necho "$@" > "$0.told"\nexit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(anyop.NotAvailable, match="cannot be built: .*compiler failed"):
        testing.program()
    told = (tmp_path / "compiler.told").read_text()
    assert "gtest" not in told and f"-Wl,-rpath,{Path(anyop.__file__).parent}" in told


def test_facts_in_pyproject_reach_the_tests(package: Path) -> None:
    path = package / "pyproject.toml"
    text = path.read_text()
    target = testing.target_of(package / BUILT / "walk_ops.so")
    try:
        path.write_text(
            text
            + '\n[tool.anyop.test.my_matmul]\ntolerance = "sum(k) + elementwise(1)"\n'
            + 'sizes = ["rows = 3, k = 70, n = 5"]\nrow_invariant = true\nspecial = ["x"]\n'
        )
        stated = testing.target_of(target.library)
        assert stated.facts.splitlines()[0] == "op=my_matmul"
        assert "row_invariant=1" in stated.facts
        new = {str(case) for case in testing.cases_of(stated)}
        assert new - {str(case) for case in testing.cases_of(target)} == {
            "my_matmul.GivesARowAloneTheBitsItHasInABatch",
            "my_matmul.TreatsSpecialValuesAsItsReference",
        }
        path.write_text(text + '\n[tool.anyop.test.my_matmul]\ntolerance = "small"\n')
        with pytest.raises(anyop.InvalidArgument, match="'small' is no tolerance: exact, elem"):
            testing.cases_of(testing.target_of(target.library))
        path.write_text(text + "\n[tool.anyop.test.my_matmu]\nrow_invariant = true\n")
        with pytest.raises(anyop.InvalidArgument, match="the library has no operator 'my_matmu'"):
            testing.cases_of(testing.target_of(target.library))
    finally:
        path.write_text(text)


def test_a_build_compiles_what_has_changed_and_keeps_what_works(package: Path) -> None:
    library = package / BUILT / "walk_ops.so"
    path = package / "ops" / "scale" / "scale.cc"
    in_process(package, "-m", "anyop", "build")
    assert "Nothing has changed" in in_process(package, "-m", "anyop", "build")
    right, built = path.read_text(), library.read_bytes()
    try:
        path.write_text(right.replace("* factor)", "* factr)"))
        failed = in_process(package, "-m", "anyop", "build", status=1)
        assert "'factr' was not declared" in failed.replace("‘", "'").replace("’", "'")
        assert f"The build failed. {library} is as it was." in failed
        assert library.read_bytes() == built
        path.write_text(right.replace("T[..., d], factor", "T[..., d, factor"))
        failed = in_process(package, "-m", "anyop", "build", status=1)
        assert "expected , or ] after a dimension." in failed
        assert "1 error; nothing was compiled." in failed
        path.write_text(right.replace("* factor)", "* factor * 2)"))
        again = in_process(package, "-m", "anyop", "build")
        assert re.findall("compiling (.*)", again) == ["ops/scale/scale.cc"]
    finally:
        path.write_text(right)
        in_process(package, "-m", "anyop", "build")


@pytest.mark.slow
def test_watching_builds_what_is_saved(package: Path) -> None:
    pytest.importorskip("watchfiles")
    path = package / "ops" / "scale" / "scale.cc"
    right = path.read_text()
    watching = subprocess.Popen(
        [sys.executable, "-u", "-m", "anyop", "build", "--watch"],
        cwd=package, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert watching.stdout
    lines = iter(watching.stdout.readline, "")
    try:
        assert "Watching ops ...\n" in lines
        time.sleep(1)  # until the system watches
        path.write_text(right.replace("* factor)", "* factor * 3)"))
        assert "compiling ops/scale/scale.cc\n" in lines
        assert next(lines).startswith("Built ")
    finally:
        watching.terminate()
        watching.wait(60)
        path.write_text(right)
        in_process(package, "-m", "anyop", "build")


@pytest.mark.slow
def test_a_session_takes_up_what_is_built(package: Path) -> None:
    """importlib.reload loads the package's library again, in the process that runs."""
    code = """
import importlib, sys
sys.path.insert(0, "src")
import walk_ops, numpy as np
held = walk_ops.scale
print(held(np.ones(1, np.float32)))
sys.stdout.flush()
input()
importlib.reload(walk_ops)
print(held(np.ones(1, np.float32)), walk_ops.scale(np.ones(1, np.float32)), dir(walk_ops)[0])
"""
    path = package / "ops" / "scale" / "scale.cc"
    right = path.read_text()
    session = subprocess.Popen(
        [sys.executable, "-c", code], cwd=package, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert session.stdout
    assert session.stdout.readline() == "[2.]\n"
    try:
        path.write_text(right.replace("* factor)", "* factor * 2)"))
        in_process(package, "-m", "anyop", "build")
        assert session.communicate("\n", timeout=60)[0] == f"[4.] [4.] my_{min(USUAL)}\n"
    finally:
        session.kill()
        path.write_text(right)
        in_process(package, "-m", "anyop", "build")


@pytest.mark.slow
def test_pytest_builds_a_fresh_package(tmp_path: Path) -> None:
    """anyop new NAME && cd NAME && pytest: nothing else is needed."""
    assert run("new", "fresh_ops", "--dir", str(tmp_path / "fresh")).exit_code == 0
    output = in_process(tmp_path / "fresh", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert re.search(r"^\d+ passed", output, re.M)


def test_a_package_shows_its_operators_and_nothing_else(package: Path) -> None:
    code = "import walk_ops; print(dir(walk_ops)); from walk_ops import *; print(scale.__name__)"
    env = {"PYTHONPATH": str(package / "src")}
    shown = in_process(package, "-c", code, **env)
    names = sorted(["scale", *(f"my_{t}{b}" for t in USUAL for b in ("", "_backward"))])
    assert shown == f"{names}\nscale\n"
    stub = (package / "src" / "walk_ops" / "__init__.pyi").read_text()
    for name in names:
        assert f"def {name}(" in stub


def test_the_newest_library_of_a_source_tree_is_taken(package: Path, tmp_path: Path) -> None:
    source = package / "src" / "walk_ops"
    built = package / BUILT / "walk_ops.so"
    installed = tmp_path / "walk_ops.so"
    assert library_file("walk_ops", [str(source)]) == built
    installed.write_bytes(b"")
    os.utime(installed, (time.time() + 9, time.time() + 9))
    assert library_file("walk_ops", [str(source), str(tmp_path)]) == installed
    os.utime(installed, (1, 1))
    assert library_file("walk_ops", [str(source), str(tmp_path)]) == built
    with pytest.raises(anyop.NotAvailable) as caught:
        library_file("none", [str(tmp_path)])
    assert str(caught.value) == (
        f"none: its library none.so is not in {tmp_path}. Try `anyop build` in the package's "
        "source tree."
    )


def test_new_operators_are_refused_where_they_cannot_be(package: Path, tmp_path: Path) -> None:
    def new(*words: str, folder: Path = package) -> str:
        done = run("new", *words, "--dir", str(folder))
        assert done.exit_code in (1, 2)
        return done.output

    assert "is in no package of operators" in new("--op", "one", folder=tmp_path)
    assert "is there already" in new("--op", "scale")
    assert "defines my_matmul_backward already" in new("--op", "my_matmul_backward")
    assert "'My-Op' is no name for an operator" in new("--op", "My-Op")
    assert "'avx' is none of avx2, avx512" in new("--op", "one", "--isa", "avx")
    assert "has no gradient" in new("--op", "one", "--template", "attention", "--gradient")
    assert "Give one." in new("other", "--op", "one")
    assert "Give --op NAME too." in new("other", "--gradient")
    assert not (package / "ops" / "one").exists()


def test_a_file_of_one_instruction_set_begins_as_a_copy(tmp_path: Path) -> None:
    assert run("new", "wide_ops", "--dir", str(tmp_path / "wide")).exit_code == 0
    made = run("new", "--op", "one", "--isa", "avx2,avx512_bf16", "--dir", str(tmp_path / "wide"))
    assert made.output.splitlines() == [
        "made ops/one/cpu.cc", "made ops/one/cpu_avx512_bf16.cc", "made ops/one/one.cc",
        "made ops/one/reference.cc",
        "cpu.cc is compiled for avx2 too: no further file is needed.", "Now: anyop test one",
    ]  # fmt: skip
    folder = tmp_path / "wide" / "ops" / "one"
    copy, whole = ((folder / name).read_text() for name in ("cpu_avx512_bf16.cc", "cpu.cc"))
    assert copy.splitlines()[1].startswith("// avx512_bf16 alone")
    assert copy.splitlines()[2:] == whole.splitlines()[2:]
    assert check_sources([folder]) == []
    (found,) = tool("list_ops").find(folder, "Op")
    assert found.kernels == ["one_avx512_bf16", "one_avx512", "one_avx2", "one_portable"]


def test_update_renews_what_a_package_has_of_anyop(tmp_path: Path) -> None:
    folder = tmp_path / "old_ops"
    assert run("new", "old_ops", "--dir", str(folder)).exit_code == 0
    assert "All files are those of anyop" in run("update", str(folder)).output
    (folder / "include" / "anyop" / "op.h").write_text("// of long ago\n")
    (folder / "include" / "anyop" / "gone.h").write_text("")
    (folder / "tools" / "list_ops.py").unlink()
    wanted = ["changed  include/anyop/op.h", "gone     include/anyop/gone.h",
              "new      tools/list_ops.py"]  # fmt: skip
    told = run("update", "--check", str(folder))
    assert told.exit_code == 1
    assert sorted(told.output.splitlines()) == wanted
    assert sorted(run("update", str(folder)).output.splitlines()[:-1]) == wanted
    carried = data_root() / "include" / "anyop" / "op.h"
    assert (folder / "include" / "anyop" / "op.h").read_text() == carried.read_text()
    assert run("update", "--check", str(folder)).exit_code == 0


def test_operators_from_a_text_are_kept_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    two = anyop.inline(INLINE.replace("FACTOR", "2.0f"))
    np.testing.assert_array_equal(two.times(X), X * 2)
    three = anyop.inline(INLINE.replace("FACTOR", "3.0f"))
    np.testing.assert_array_equal(three.times(X), X * 3)
    np.testing.assert_array_equal(two.times(X), X * 2)
    monkeypatch.setattr(subprocess, "run", None)  # the compiler is not asked again
    assert anyop.inline(INLINE.replace("FACTOR", "2.0f")) is two


def test_a_wrong_text_is_refused_with_the_place() -> None:
    with pytest.raises(anyop.InvalidArgument, match=r"(?s)source.cc:\d+:\d+: expected , or \]"):
        anyop.inline(INLINE.replace("d]) ->", "d) ->"))
    with pytest.raises(anyop.InvalidArgument, match="refuses the source:(?s:.*)FACTOR"):
        anyop.inline(INLINE)
    with pytest.raises(anyop.InvalidArgument, match="holds no operator"):
        anyop.inline("int x;")


def test_config_builds_a_program(tmp_path: Path) -> None:
    words = run("config", "--cflags", "--libs").output.split()
    (tmp_path / "main.cc").write_text(
        '#include <cstdio>\n#include "anyop/runtime.h"\n'
        "int main() {\n"
        "  const auto x = anyop::Array::Full({2}, anyop::DType::kF32, 0);\n"
        '  const anyop::Array y = anyop::Call("sigmoid", x);\n'
        '  std::printf("%g", y.data<float>()[0]);\n}\n'
    )
    cflags = [w for w in words if not w.startswith(("-L", "-l", "-Wl"))]
    libs = [w for w in words if w not in cflags]
    program = tmp_path / "program"
    command = ["c++", *cflags, str(tmp_path / "main.cc"), *libs, "-o", str(program)]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "0.5"


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with one operator, built."""
    folder = tmp_path_factory.mktemp("small") / "small_ops"
    assert run("new", "small_ops", "--dir", str(folder)).exit_code == 0
    in_process(folder, "-m", "anyop", "build")
    return folder


def test_a_reference_that_is_deleted_is_not_compared_with(small: Path) -> None:
    built = small / BUILT / "small_ops_reference.so"
    assert built.exists()
    (small / "ops" / "scale" / "reference.cc").unlink()
    assert "Built build/anyop/lib/small_ops.so" in in_process(small, "-m", "anyop", "build")
    assert not built.exists()
    for words in ([], ["scale"], ["scale.Gives"]):
        output = in_process(small, "-m", "anyop", "test", *words, status=1)
        assert "scale has no reference: nothing is compared" in output.splitlines()
        assert output.splitlines()[-1] == (
            "No test ran: scale has no reference, which kernels are compared with. Try writing a "
            "reference.cc beside scale.cc."
        )
    output = in_process(small, "-m", "anyop", "test", "gone", status=1)
    assert output.splitlines()[-1] == "No test ran: no test's name contains gone."


def test_names_that_no_test_and_no_kernel_has_are_errors(small: Path) -> None:
    for asked, said in (
        (("scael",), "No test ran: no test's name contains scael. Did you mean 'scale'?"),
        (("gone", "lost"), "No test ran: no test's name contains gone or lost. Try one of scale."),
        (("--kernel", "cpu_avx9"), "No kernel ran: no kernel's name is cpu_avx9 or begins with it."
         " Try one of cpu_portable_bf16, cpu_portable_f16, cpu_portable_f32."),
    ):  # fmt: skip
        output = in_process(small, "-m", "anyop", "test", *asked, status=1)
        assert output.splitlines()[-1] == said
        assert " passed" not in output
    output = in_process(small, "-m", "anyop", "test", "--kernel", "cpu_portable")
    assert "5 passed, 0 failed" in output


def test_a_library_that_does_not_load_replaces_nothing(small: Path) -> None:
    library = small / BUILT / "small_ops.so"
    before = library.read_bytes()
    path = small / "ops" / "scale" / "scale.cc"
    right = path.read_text()
    path.write_text(re.sub(r"(    \.flops)", r'    .gradient = "scale",\n\1', right))
    output = in_process(small, "-m", "anyop", "build", status=1)
    (error,) = re.findall(r"^The library cannot be loaded: (.*)", output, re.M)
    assert "small_ops.scale" in error
    assert "Traceback" not in output
    assert f"The build failed. {library} is as it was." in output
    assert library.read_bytes() == before


def test_develop_compiles_nothing_a_second_time(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    module = "anyop.cli.develop.install"
    monkeypatch.setattr(module, lambda command: asked.append(command) or 0)
    assert run("develop", str(small)).exit_code == 0
    (command,) = asked
    assert command[-2:] == ["-e", str(small)]
    settings = [word for word in command if word.startswith("--config-settings")]
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, *settings, "-w", str(tmp_path), str(small)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "small_ops/__init__.py" in names
    assert not [name for name in names if name.endswith(".so")]


def test_a_build_without_a_compiler_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "bare_ops"
    assert run("new", "bare_ops", "--dir", str(folder)).exit_code == 0
    (tmp_path / "bin").mkdir()
    output = in_process(folder, "-m", "anyop", "build", status=1, PATH=str(tmp_path / "bin"))
    assert output == "Error: there is no C++ compiler to build with. Try installing g++.\n"
    (folder / "build" / "anyop" / "release").rmdir()
    (folder / "build" / "anyop" / "release").touch()
    output = in_process(folder, "-m", "anyop", "build", status=1)
    assert output == (
        f"Error: {folder}/build/anyop/release cannot be written to: File exists. Builds lie in the "
        "package's own folder. Try a copy of the package that is yours.\n"
    )


def test_a_kernel_that_crashes_fails_its_test_and_names_the_call(small: Path) -> None:
    path = small / "ops" / "scale" / "scale.cc"
    path.write_text(path.read_text().replace("yr[i] = T(", "yr[i + (i == 1) * (1 << 30)] = T(", 1))
    output = in_process(small, "-m", "anyop", "test", status=1)
    place = (
        r"FAILED scale.MatchesItsReference\nit ends the process: kernel cpu_portable_f32 \w+ "
        r"memory that it does not have, .*\n  small_ops.scale\(x: "
    )
    assert re.search(place, output)
    assert re.search(r"run this call alone with --call=\d+", output)
    assert output.endswith(" 1 failed\n")
