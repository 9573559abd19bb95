# SPDX-License-Identifier: Apache-2.0
"""A library that was built again takes the place of the loaded one, or is refused in a sentence."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import anyop
import numpy as np
import pytest
from anyop._inline import FLAGS
from anyop._packages import data_root

X = np.zeros(4, np.float32)
SOURCE = """
#include "anyop/op.h"
namespace anyop::ops {
namespace {
void Run(const Context& ctx, const Tensor& x, const Tensor& y) {
  ctx.ForRows(x, [&](std::int64_t r) {
    const auto from = x.row<const float>(r);
    for (std::size_t i = 0; i < from.size(); ++i) y.row<float>(r)[i] = from[i] + %(value)s;
  });
}
void RunBackward(const Context& ctx, const Tensor& dy, const Tensor* dx) {
  if (!dx) return;
  ctx.ForRows(dy, [&](std::int64_t r) {
    const auto from = dy.row<const float>(r);
    for (std::size_t i = 0; i < from.size(); ++i) dx->row<float>(r)[i] = from[i] * %(value)s;
  });
}
constexpr Kernel kF32{.name = "cpu_f32", .when = "%(when)s", .run = Bind<&Run>()};
constexpr const Kernel* kKernels[] = {&kF32};
constexpr Kernel kBackward{.name = "cpu_f32", .run = Bind<&RunBackward>()};
constexpr const Kernel* kBackwards[] = {&kBackward};
}
extern constinit const Op plus{
    .signature = "plus(x: f32[..., %(d)s]) -> (y: f32[..., %(d)s] over x)",
    .gradient = "plus_backward",
    .kernels = kKernels,
    .rowwise = %(rowwise)s,
};
extern constinit const Op %(backward)s{
    .signature = "%(backward)s(dy: f32[..., %(d)s]) -> (dx: f32[..., %(d)s]?)",
    .kernels = kBackwards,
};
}
"""
USUAL = {"value": "1", "when": "", "d": "d", "rowwise": "false", "backward": "plus_backward"}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture
def build(tmp_path: Path, objects: Path) -> Callable[..., Path]:
    """build("name", value="2"): compiles a library to name.so, as a linker does: a new file."""

    def make(name: str, file: str = "", **changes: str) -> Path:
        folder = tmp_path / "source"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        text = SOURCE % {**USUAL, **changes}
        if changes.get("backward"):
            text = text.replace(
                '.gradient = "plus_backward"', f'.gradient = "{changes["backward"]}"'
            )
        (folder / "plus.cc").write_text(text)
        list_ops = [sys.executable, str(data_root() / "tools" / "list_ops.py"), "--name", name]
        table = folder / "table.cc"
        subprocess.run([*list_ops, "--folder", str(folder), "--output", str(table)], check=True)
        made, library = tmp_path / "made.so", tmp_path / (file or f"{name}.so")
        compiler = ["c++", *FLAGS, "-O0", f"-I{data_root() / 'include'}"]
        plus = objects / f"{hashlib.sha256(text.encode()).hexdigest()}.o"
        if not plus.exists():
            subprocess.run([*compiler, "-c", folder / "plus.cc", "-o", plus], check=True)
        subprocess.run([*compiler, plus, table, "-o", made], check=True)
        made.replace(library)
        return library

    return make


def test_what_was_built_again_runs_everywhere(build: Callable[..., Path]) -> None:
    """In functions that the program holds and in graphs, at sizes that were seen and at others."""
    library = anyop.load(build("again"))
    held = library.plus
    graph = anyop.graph(lambda x: held(held(x)), "f32[n]")
    assert held(X)[0] == 1
    assert graph(X)[0] == 2
    for value in (2, 3):
        assert anyop.load(build("again", value=str(value))) is library
        for x in (X, np.zeros((2, 5 + value), np.float32)):
            assert held(x).flat[0] == library.plus(x).flat[0] == value
        assert anyop.ops.again.plus is held
        for x in (X, np.zeros(5 + value, np.float32)):
            assert graph(x)[0] == 2 * value
        new = anyop.graph(lambda x: held(held(x)), "f32[n]")
        assert new(X)[0] == 2 * value


def test_a_library_of_the_same_name_from_another_file_is_told(
    build: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    one = build("twin")
    library = anyop.load(one)
    anyop.load(build("twin", value="2"))
    assert "takes the place" not in capfd.readouterr().err
    other = build("twin", file="other.so", value="3")
    anyop.load(other)
    assert capfd.readouterr().err == (
        f"anyop: warning: twin of {other} takes the place of that of {one}, in every call, graph "
        "and framework.\n"
    )
    assert library.plus(X)[0] == 3
    anyop.load(other)
    assert capfd.readouterr().err == ""


def test_the_first_build_comes_back(build: Callable[..., Path]) -> None:
    file = build("back")
    library = anyop.load(file)
    first = file.read_bytes()
    anyop.load(build("back", value="2"))
    assert library.plus(X)[0] == 2
    file.unlink()
    file.write_bytes(first)
    anyop.load(file)
    assert library.plus(X)[0] == 1


def test_other_kernels_decide_and_are_told(build: Callable[..., Path]) -> None:
    library = anyop.load(build("choice"))
    library.plus(X)
    anyop.reset_counters()
    anyop.load(build("choice", value="5", when="d % 2 == 0"))
    with pytest.raises(anyop.Unsupported, match="cpu_f32: declined: d % 2 == 0 is false"):
        library.plus(np.zeros(3, np.float32))
    assert "d % 2 == 0" in str(anyop.info(library.plus)["kernels"])
    odd = anyop.explain(library.plus, np.zeros(3, np.float32))
    assert odd.kernel is None
    library.plus(X)
    assert [(row.op, row.calls) for row in anyop.counters()] == [("choice.plus", 1)]


def test_threads_that_call_meanwhile_get_one_of_both(build: Callable[..., Path]) -> None:
    library = anyop.load(build("busy"))
    seen: set[float] = set()
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            seen.add(float(library.plus(X)[0]))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    anyop.load(build("busy", value="2"))
    last = {float(library.plus(X)[0]) for _ in range(50)}
    stop.set()
    for thread in threads:
        thread.join()
    assert last == {2.0}
    assert seen <= {1.0, 2.0}


def test_torch_runs_what_was_built_again(build: Callable[..., Path]) -> None:
    torch = pytest.importorskip("torch")
    library = anyop.load(build("torched"))
    x = torch.zeros(4, requires_grad=True)
    assert torch.ops.torched.plus(x)[0] == 1
    anyop.load(build("torched", value="7"))
    assert torch.ops.torched.plus(x)[0] == library.plus(x.detach())[0] == 7
    library.plus(x).sum().backward()
    assert x.grad[0] == 7  # the gradient's operator was replaced too


def test_another_signature_is_refused(build: Callable[..., Path]) -> None:
    file = build("sized")
    library = anyop.load(file)
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.load(build("sized", value="2", d="2*d"))
    was, now = (f"plus(x: f32[..., {d}]) -> (y: f32[..., {d}] over x)" for d in ("d", "2*d"))
    assert str(caught.value) == (
        f"sized.plus of {file} is\n  {now}\nbut {file} has already registered\n  {was}\n"
        "Try a new process."
    )
    assert library.plus(X)[0] == 1


def test_what_graphs_rewrite_by_stays(build: Callable[..., Path]) -> None:
    file = build("rows")
    library = anyop.load(file)
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.load(build("rows", value="2", rowwise="true"))
    assert str(caught.value) == (
        "rows.plus: .rowwise is 'true', but was 'false', and graphs were made by it; "
        f"{file} stays loaded. Try a new process."
    )
    assert library.plus(X)[0] == 1


def test_an_operator_that_is_gone_is_refused(build: Callable[..., Path]) -> None:
    file = build("gone")
    library = anyop.load(file)
    with pytest.raises(anyop.InvalidArgument) as caught:
        anyop.load(build("gone", value="2", backward="other_backward"))
    assert "Try a new process." in str(caught.value)
    assert library.plus(X)[0] == 1


def test_two_files_of_one_library_are_one_or_the_later(build: Callable[..., Path]) -> None:
    library = anyop.load(build("twin", "one.so"))
    copy = build("twin", "copy.so")
    shutil.copy(copy.with_name("one.so"), copy)
    assert anyop.load(copy) is library
    assert library.plus(X)[0] == 1
    anyop.load(build("twin", "two.so", value="2"))
    assert library.plus(X)[0] == 2
    assert anyop.info(library.plus)["file"].endswith("two.so")


def test_check_mode_holds_for_what_was_built_again(build: Callable[..., Path]) -> None:
    code = """
import os, sys, anyop, numpy as np
library = anyop.load(sys.argv[1])
library.plus(np.zeros(4, np.float32))
os.replace(sys.argv[2], sys.argv[1])
anyop.load(sys.argv[1])
print(library.plus(np.zeros(4, np.float32))[0])
"""
    files = [str(build("checked")), str(build("checked", "next.so", value="4"))]
    env = {**os.environ, "ANYOP_CHECK": "1"}
    command = [sys.executable, "-c", code, *files]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "4.0\n"
